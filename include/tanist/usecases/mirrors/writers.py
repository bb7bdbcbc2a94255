"""Other writers of mirror topics are denied WRITE by name where the destination has an authorizer.

Whom that concerns is stored with the topic before the first ACL is created, so a failover removes exactly these ACLs.
Never denied: the logins of fetchers on record, our own, and principals that may ALTER the cluster or act as a broker.
Fetchers and failovers need one of these permissions, and who has the first can remove any DENY.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import ANYBODY, denied_by_name, writers
from tanist.domain.checks import Verdict, named
from tanist.domain.errors import AuthorizationFailed, BrokerError, Interrupted
from tanist.domain.failback.reversal import MIRROR_TOPIC_WRITABLE, by_reason
from tanist.domain.logins import logins_of, principals
from tanist.domain.write_access import AUTHORIZER_CONFIGS, Authorizer, denial, may_allow_without_acls, others_may_write
from tanist.usecases import rights
from tanist.usecases.snapshot import DestinationSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry, Denial
    from tanist.domain.errors import TanistError
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.lock import LockedMirror, Rehearsal

_RIGHT = "ALTER on Cluster kafka-cluster"
NOTHING: Final[Mapping[str, Collection[AclEntry]]] = MappingProxyType({})


# ── whom to deny ──────────────────────────────────────────────────────────────────────────────────────────────────


def must_be_permitted(destination: Cluster, by: Deadline) -> None:
    """Raises AuthorizationFailed: the destination has an authorizer, and this login may certainly not create ACLs."""
    if not destination.opening.has_authorizer(by):
        return
    (found,) = rights.met(destination, rights.denying_needs(), by)
    if found.verdict is Verdict.FAIL:
        raise AuthorizationFailed(
            f"on {destination.name!r}, the principal of this login lacks {found.acl.description}; to let others write: "
            "`--no-deny-writers` of `tanist mirrors create` and `tanist mirrors alter`"
        )


@dataclass(frozen=True, slots=True)
class _WriteAccess:
    """Who may write to topics. `mirror`: principals that copy, and our own; `operators`: as `Acls.operators`."""

    rules: Mapping[str, frozenset[AclEntry]]
    workers: frozenset[str]
    own: frozenset[str]
    operators: frozenset[str]

    @property
    def mirror(self) -> frozenset[str]:
        return self.workers | self.own

    def denial(self, topic: TopicDesired) -> Denial | None:
        return denial(topic, self.rules[topic.topic], self.workers, self.operators | self.own)

    def not_denied(self) -> dict[str, str]:
        """Topics that others can write to who are not denied, with the reason."""
        found = {name: sorted(writers(rules) & self.operators - self.mirror) for name, rules in self.rules.items()}
        why = "may write, and is not denied because it may ALTER the cluster, or act as a broker"
        return {name: f"{named(who, ', ')} {why}" for name, who in found.items() if who}


def _read(names: Sequence[str], view: StateView, at: DestinationSnapshot, by: Deadline) -> _WriteAccess:
    own = at.cluster.opening.principal()
    try:
        acls = at.acls(by)
    except BrokerError as error:
        raise rights.named(error, at.cluster, "DESCRIBE on Cluster kafka-cluster") from error
    ours = frozenset({own} if own else ())
    return _WriteAccess(acls.writing(names), principals(logins_of(view.workers())), ours, acls.operators())


def denials(
    topics: Sequence[TopicDesired], view: StateView, destination: DestinationSnapshot, by: Deadline
) -> dict[str, Denial]:
    """By topic, what is to change so that only the mirror may write; without an authorizer nothing.

    Raises:
        AuthorizationFailed: this login may not see ACLs.
    """
    if not topics or not destination.cluster.opening.has_authorizer(by):
        return {}
    found = _read([each.topic for each in topics], view, destination, by)
    return {each.topic: change for each in topics if (change := found.denial(each)) is not None}


def with_denied(
    topics: Sequence[TopicDesired], spec: MirrorSpec, view: StateView, destination: Cluster, by: Deadline
) -> tuple[tuple[TopicDesired, ...], tuple[str, ...]]:
    """The topics with the principals that are to be denied WRITE, and warnings about those who can write nonetheless.

    Without an authorizer nobody is denied, and nothing is said.

    Raises:
        AuthorizationFailed: this login may not create ACLs, or not see them.
    """
    if not spec.deny_writers or not topics or not destination.opening.has_authorizer(by):
        return tuple(topics), ()
    must_be_permitted(destination, by)
    names = [each.topic for each in topics]
    found = _read(names, view, DestinationSnapshot(cluster=destination), by)
    changes = {each.topic: found.denial(each) for each in topics}
    denied = tuple(
        replace(each, denied=change.before(each.denied)) if (change := changes[each.topic]) else each for each in topics
    )
    reasons = (*by_reason(writable(destination, names, found.mirror, by)), *by_reason(found.not_denied()))
    return denied, tuple(f"{MIRROR_TOPIC_WRITABLE}: {each}" for each in reasons)


def without_effect(destination: Cluster, by: Deadline) -> tuple[str, ...]:
    """The warning to an operator who wants others denied on a cluster that cannot deny anybody."""
    if destination.opening.has_authorizer(by):
        return ()
    return (f"{MIRROR_TOPIC_WRITABLE}: nobody is denied WRITE: {destination.name!r} has no authorizer",)


def left_denied(names: Sequence[str], destination: Cluster, by: Deadline) -> tuple[str, ...]:
    """Warnings about ACLs of a mirror whose record is lost, or of somebody else: no failover will remove them."""
    if not destination.opening.has_authorizer(by):
        return ()
    try:
        rules = destination.acls.read(by).writing(names)
    except BrokerError as error:
        missing = rights.named(error, destination, "DESCRIBE on Cluster kafka-cluster")
        return (f"whom the lost mirror has denied WRITE is unknown: {missing.reason}",)
    why = "was perhaps denied WRITE by the lost mirror; no failover will undo that: remove the DENY before one"
    found = {name: f"{named(who, ', ')} {why}" for name in names if (who := denied_by_name(rules[name]))}
    return by_reason(found)


def writable(
    cluster: Cluster,
    names: Sequence[str],
    mirrors: Collection[str],
    by: Deadline,
    taken_back: Mapping[str, Collection[AclEntry]] = NOTHING,
) -> dict[str, str]:
    """Topics that others than `mirrors` may write to even if everybody that ACLs name is denied, with the reason.

    `taken_back`: by topic, ACLs that do not count, as they are about to be deleted.

    Raises:
        ClusterAuthorizationFailed: this login may not see ACLs.
    """
    acls, own = cluster.acls.read(by), cluster.opening.principal()
    if not acls.authorizer:
        authorizer = Authorizer(enabled=False)
    else:
        configs = cluster.configs.each_broker(AUTHORIZER_CONFIGS, by)
        ours = {ANYBODY, *(mirrors or ({own} if own else ()))}
        bare = frozenset(names) - acls.covered(names, ours) if may_allow_without_acls(configs) else frozenset()
        authorizer = Authorizer(enabled=True, configs=configs, bare=bare)
    rules = {name: found - {*taken_back.get(name, ())} for name, found in acls.writing(names).items()}
    return {name: why for name in names if (why := others_may_write(name, rules[name], authorizer, mirrors))}


# ── denying, and undoing it ───────────────────────────────────────────────────────────────────────────────────────


def deny(topics: Sequence[TopicDesired], destination: Cluster, by: Deadline) -> None:
    """Create the ACLs of topics that are stored already. Idempotent.

    Raises:
        Interrupted: not all were created.
    """
    wanted = {each.topic: each.denied for each in topics if each.denied}
    if wanted:
        _all(destination.opening.deny(wanted, by), destination, "other writers could not be denied")


def allow(topics: Sequence[TopicDesired], destination: Cluster, by: Deadline) -> None:
    """Delete the ACLs that deny others WRITE on topics, exactly those. Idempotent.

    Raises:
        Interrupted: not all were deleted.
    """
    undone = {each.topic: each.denied for each in topics if each.denied}
    if undone:
        _all(destination.opening.undeny(undone, by), destination, "other writers could not be allowed again")


def switch(
    mirror_now: LockedMirror | Rehearsal, spec: MirrorSpec, destination: Cluster
) -> tuple[tuple[TopicDesired, ...], tuple[str, ...]]:
    """Deny other writers of all topics, or undo exactly that, as `spec` says; killed, it is run again.

    Returns the topics that have changed, and warnings.

    Raises:
        AuthorizationFailed: this login may not create or delete ACLs; nothing was changed.
        Interrupted: not all ACLs were changed.
    """
    by, before = mirror_now.command.by, mirror_now.view().mirrored(spec.mirror)
    if spec.deny_writers:
        after, warnings = with_denied(before, spec, mirror_now.view(), destination, by)
    else:
        after, warnings = tuple(replace(each, denied=()) for each in before), ()
        if any(each.denied for each in before):
            must_be_permitted(destination, by)
    now = mirror_now.command.clock.now()
    changed = tuple(
        replace(new, changed_at=now) for old, new in zip(before, after, strict=True) if new.denied != old.denied
    )
    if mirror_now.command.dry_run:
        return changed, warnings
    if spec.deny_writers:
        mirror_now.append([spec, *changed])
        mirror_now.confirm()
        deny(after, destination, by)
    else:
        mirror_now.append([spec])
        mirror_now.confirm()
        allow_again(before, mirror_now, destination)
    return changed, warnings


def allow_again(
    topics: Sequence[TopicDesired], mirror_now: LockedMirror | Rehearsal, destination: Cluster
) -> tuple[TopicDesired, ...]:
    """Delete the ACLs of topics that are stored with whom they deny, then store that they deny nobody; as they are now.

    Raises:
        Interrupted: not all were deleted; they stay on record.
    """
    if not any(each.denied for each in topics):
        return tuple(topics)
    allow(topics, destination, mirror_now.command.by)
    now = mirror_now.command.clock.now()
    after = tuple(replace(each, denied=(), changed_at=now) if each.denied else each for each in topics)
    mirror_now.append([new for old, new in zip(topics, after, strict=True) if old.denied])
    return after


def _all(answers: Mapping[str, TanistError | None], destination: Cluster, what: str) -> None:
    failed = {topic: why for topic, why in answers.items() if why is not None}
    if failed:
        topic, why = next(iter(failed.items()))
        missing = rights.named(why, destination, _RIGHT)
        raise Interrupted(f"{what} on {len(failed)} mirror topic(s); {topic!r}: {missing}")
