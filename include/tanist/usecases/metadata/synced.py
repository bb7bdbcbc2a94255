"""What follows the source, as a table: `SYNCED`. Whoever adds a kind adds a row here, and a module in `domain/synced`.

Reading asks the clusters, through the snapshot of the look, for what no other kind has asked for yet. Deciding is pure.
Applying changes the destination; it may be repeated after a crash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from tanist.domain.acls import AclPermission
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import TanistError
from tanist.domain.given_acls import bindings_of, changed_records
from tanist.domain.metadata import Change, Kind, OnBoth, TopicMetadata
from tanist.domain.synced import acls, configs, partitions, topics, write_acls
from tanist.domain.synced.wanted_acls import AclsFound
from tanist.domain.write_access import AUTHORIZER_CONFIGS, may_allow_without_acls
from tanist.ports.topics import NewTopic
from tanist.usecases import rights
from tanist.usecases.mirrors import observe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.acls import AclBinding, Acls
    from tanist.domain.metadata import Copy, MayFollow, MetadataRules, Share
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.synced.acls import AclChange
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.topics import TopicFacts
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.snapshot import ClusterSnapshot, MirrorSnapshot

F = TypeVar("F")
C = TypeVar("C")
Seen: TypeAlias = "TopicMetadata | TanistError | None"
"""A topic as one cluster describes it; None: it certainly does not exist there."""
Errors: TypeAlias = "Mapping[tuple[Change, str], TanistError]"
"""Why changes failed, by the change and the name of their rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLook:
    """One look at the topics `names` of a mirror, at both clusters; `whole`: at what belongs to no topic as well."""

    both: MirrorSnapshot
    names: Sequence[str]
    by: Deadline
    whole: bool = True

    @property
    def spec(self) -> MirrorSpec:
        return self.both.spec

    def seen(self) -> dict[str, tuple[Seen, Seen]]:
        """Each topic at source and destination, by the name of its copy."""
        there = {name: self.spec.names.topic_at_source(name) for name in self.names}
        source = _described(self.both.reachable_source(), list(there.values()), self.by)
        copies = _described(self.both.destination, list(self.names), self.by)
        return {name: (source[there[name]], copies[name]) for name in self.names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where changes are made, under the lock of the mirror."""

    cluster: Cluster
    lock: LockedMirror
    by: Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced(Generic[F, C]):
    """One thing that follows the source.

    `read`: what both clusters have of it; before the record of the mirror is read. `decide`: its share in what is to
    change, by topic that may follow, or of the whole mirror (MIRROR_WIDE). `apply`: makes the change of that share; a
    row that failed is in its answer, an error that it raises fails every row of that topic; None: the share is only
    recorded.
    """

    kind: Kind
    read: Callable[[MetadataLook], F]
    decide: Callable[[MayFollow, F], Mapping[str, Share]]
    apply: Callable[[str, C, Destination], Errors] | None = None


def by_topic(
    decide: Callable[[TopicDesired, F, MetadataRules], Share],
) -> Callable[[MayFollow, Mapping[str, F]], dict[str, Share]]:
    """The `decide` of a kind that decides each topic alone, by what was read of it."""
    return lambda mirror, found: {
        name: decide(topic, found[name], mirror.rules) for name, topic in mirror.topics.items()
    }


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _described(cluster: ClusterSnapshot[Any], names: Sequence[str], by: Deadline) -> dict[str, Seen]:
    return {name: _one(cluster.cluster, name, answer) for name, answer in cluster.described(names, by).items()}


def _one(cluster: Cluster, name: str, answer: TopicFacts | TanistError) -> Seen:
    if isinstance(answer, UnknownTopicOrPartition):
        return None
    if isinstance(answer, TanistError):
        return rights.named(answer, cluster, f"DESCRIBE or DESCRIBE_CONFIGS on Topic {name}")
    return TopicMetadata(
        topic_id=answer.topic_id,
        partitions=answer.partitions,
        replication_factor=answer.replication_factor,
        own=answer.configs,
        effective=answer.effective,
    )


def _on_both(look: MetadataLook) -> dict[str, OnBoth]:
    return {
        name: OnBoth(source=source, copy=copy)
        for name, (source, copy) in look.seen().items()
        if isinstance(source, TopicMetadata) and not isinstance(copy, TanistError)
    }


def _write_acls(look: MetadataLook) -> dict[str, tuple[AclEntry, ...] | TanistError | None]:
    """The source's ACLs for writing. If they cannot be read, each topic gets a row; the comparison continues."""
    there = {name: look.spec.names.topic_at_source(name) for name in _on_both(look)}
    try:
        source, principals = look.both.reachable_source(), look.spec.acl_principals
        found = observe.write_rules(source, list(there.values()), look.by, principals)
    except TanistError as error:
        return dict.fromkeys(there, error)
    return {name: found[at_source] for name, at_source in there.items()}


def _acls(look: MetadataLook) -> AclsFound | None:
    """None: the mirror has no rules, so nobody asks for ACLs."""
    if not look.spec.acl_rules:
        return None
    source, destination = look.both.reachable_source(), look.both.destination
    return AclsFound(
        source=_all_acls(source, look.by),
        destination=_all_acls(destination, look.by),
        names=destination.topic_names(look.by),
        lenient=may_allow_without_acls(destination.cluster.configs.each_broker(AUTHORIZER_CONFIGS, look.by)),
        whole=look.whole,
    )


def _all_acls(cluster: ClusterSnapshot[Any], by: Deadline) -> Acls | TanistError:
    try:
        return cluster.acls(by)
    except TanistError as error:
        return rights.named(error, cluster.cluster, "DESCRIBE on Cluster kafka-cluster")


# ── applying ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _create(name: str, copy: Copy, at: Destination) -> Errors:
    new = NewTopic(
        name=name, partitions=copy.partitions, replication_factor=copy.replication_factor, configs=copy.configs
    )
    at.lock.confirm()
    if error := at.cluster.topics.create([new], at.by)[name]:
        raise rights.named(error, at.cluster, f"CREATE on Topic {name}")
    return {}


def _grow(name: str, partitions: int, at: Destination) -> Errors:
    at.lock.confirm()
    if error := at.cluster.topics.grow(name, partitions, at.by):
        return {(Change.GROW, name): rights.named(error, at.cluster, f"ALTER on Topic {name}")}
    return {}


def _configure(name: str, changes: Mapping[str, str | None], at: Destination) -> Errors:
    errors: dict[tuple[Change, str], TanistError] = {}
    for config, value in changes.items():  # one by one: a config that is refused holds up no other
        if error := at.cluster.topics.alter_configs({name: {config: value}}, at.lock.confirm_action())[name]:
            reported = rights.named(error, at.cluster, f"ALTER_CONFIGS on Topic {name}")
            errors[Change.SET if value is not None else Change.RESET, f"{name}:{config}"] = reported
            errors[Change.ADD, name] = reported  # a new topic is taken in whole
    return errors


def _create_acls(_name: str, change: AclChange, at: Destination) -> Errors:
    """Stored before they are created: what is on record may be deleted again, and nothing else."""
    spec, before = at.lock.spec, at.lock.view().acls_given(at.lock.spec.mirror)
    if not change.create:
        return {}
    at.lock.append(changed_records(spec, before, bindings_of(before) | {*change.create}))
    answers = never_wider(
        change.create, AclPermission.DENY, lambda due: at.cluster.acls.create(due, at.lock.confirm_action())
    )
    return {
        (Change.CREATE, acls.described(each)): rights.named(error, at.cluster, "ALTER on Cluster kafka-cluster")
        for each, error in answers.items()
        if error is not None
    }


def never_wider(
    bindings: Sequence[AclBinding],
    first: AclPermission,
    act: Callable[[Sequence[AclBinding]], Mapping[AclBinding, TanistError | None]],
) -> dict[AclBinding, TanistError | None]:
    """Create or delete these: those of the permission `first`, and the others only if all of those were.

    A DENY may narrow an ALLOW: it is there before it, and until after it.
    """
    early = [each for each in bindings if each.permission == first]
    late = [each for each in bindings if each.permission != first]
    answers = {**act(early)} if early else {}
    if error := next((each for each in answers.values() if each is not None), None):
        return answers | dict.fromkeys(late, error)
    return answers | ({**act(late)} if late else {})


SYNCED: tuple[Synced[Any, Any], ...] = (
    Synced(kind=Kind.TOPIC, read=_on_both, decide=by_topic(topics.decide), apply=_create),
    Synced(kind=Kind.PARTITIONS, read=_on_both, decide=by_topic(partitions.decide), apply=_grow),
    Synced(kind=Kind.CONFIG, read=_on_both, decide=by_topic(configs.decide), apply=_configure),
    Synced(kind=Kind.ACL, read=_write_acls, decide=by_topic(write_acls.decide)),
    Synced(kind=Kind.ACCESS, read=_acls, decide=acls.decide, apply=_create_acls),
)
"""Applied in this order: a topic exists before it is configured."""
