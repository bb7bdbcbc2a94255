"""ACLs for reading topics, for groups and for transactional ids, as a kind that follows the source.

What is created is never wider than the source. A topic's ACL reaches only copies of the mirror: one for all topics, or
for a prefix that other topics of the destination begin with, becomes one for each copy. A DENY that narrows an ALLOW
follows with it, whatever the rules of the mirror say. Where everybody is denied a topic, nothing of it follows: neither
that DENY, which would shut out the mirror, nor an ALLOW that it overrules. What the mirror has created is on record, so
what does not follow any more is named exactly; it is deleted only by an approved plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import ANY_HOST
from tanist.domain.acls import AclBinding, AclOperation, AclPattern, AclPermission, AclResource, Acls
from tanist.domain.errors import TanistError
from tanist.domain.given_acls import bindings_of
from tanist.domain.metadata import MIRROR_WIDE, Change, Kind, MetadataRow, Outcome, Share
from tanist.domain.synced.left_acls import reasons
from tanist.domain.synced.wanted_acls import Resources, Wanted, of_one_topic, own_principals, shuts_out

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tanist.domain.metadata import MayFollow
    from tanist.domain.synced.wanted_acls import AclsFound

_APPROVED: Final = "it does not follow the source any more, and an approved plan deletes it"
_FOLLOWS: Final = "as at the source"
_CLOSED: Final = "everybody is denied it at the source, as by a fence: none of its ACLs follow"
_TAKEN: Final = "--acl-principal gives its name to another principal of the source: map it to a name of its own"
_OVERRULED: Final = "everybody is denied a part of it at the source, so nobody is allowed any of it here"
_FIRST: Final = (
    "brokers of the destination may let everybody in where no ACL is about something (allow.everyone.if.no.acl.found): "
    "this one would shut out the mirror; give its login ACLs of its own first (of groups and ids: for the "
    "prefix tanist-), or create it by hand"
)
_OPEN_WITHOUT: Final = (
    "a DENY that narrows it at the source cannot be created here yet: do that first, its own row says how"
)
_OURS: Final = "tanist-"
"""What the names of groups and transactional ids of Tanist begin with."""
_NO_AUTHORIZER: Final = "the {cluster} has no authorizer, so no ACLs follow"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclChange:
    """What is created at the destination, and what was and does not follow any more: `left_acls` has the reasons."""

    create: tuple[AclBinding, ...] = ()
    gone: tuple[AclBinding, ...] = ()


def decide(mirror: MayFollow, found: AclsFound | None) -> dict[str, Share]:
    """One share for the whole mirror; nothing if it has no rules (`found` None), or nothing of it may follow."""
    if found is None or not mirror.topics:
        return {}
    for acls in (found.source, found.destination):
        if isinstance(acls, TanistError):
            return {MIRROR_WIDE: Share(rows=(_row("ACLs", Outcome.UNKNOWN, str(acls)),))}
    assert isinstance(found.source, Acls)  # noqa: S101  # said above
    assert isinstance(found.destination, Acls)  # noqa: S101
    for acls, cluster in ((found.source, "source"), (found.destination, "destination")):
        if not acls.authorizer:
            reason = _NO_AUTHORIZER.format(cluster=cluster)
            return {MIRROR_WIDE: Share(rows=(_row("ACLs", Outcome.SKIPPED, reason),))}
    return {MIRROR_WIDE: _share(mirror, found, found.source, found.destination)}


def _share(mirror: MayFollow, found: AclsFound, source: Acls, destination: Acls) -> Share:
    at_source = {mirror.spec.names.topic_at_source(name): name for name in mirror.topics}
    closed = _closed(at_source, source)
    closed_copies = sorted(at_source[name] for name in closed)
    open_topics = {name: copy for name, copy in at_source.items() if name not in closed}
    ours = _ours(mirror, found, open_topics.values()) & destination.bindings
    wanted = Wanted.of(mirror, found, source, open_topics, ours)
    missing = (wanted.bindings | wanted.besides) - destination.bindings
    bare = _bare(mirror, destination) if found.lenient else frozenset[str]()
    first = {each for each in missing if found.lenient and _is_first(each, bare, destination)}
    open_without = _narrowed(missing - first, first)
    create = sorted(missing - first - open_without)
    workers = own_principals(mirror)
    gone = sorted(each for each in ours - wanted.bindings if each.principal not in workers)
    rows = [
        *(_row(f"READ on topic {copy}", Outcome.SKIPPED, _CLOSED, topic=copy) for copy in closed_copies),
        *(_row(who, Outcome.CONFLICT, _TAKEN) for who in sorted(wanted.taken)),
        *(_row(described(each), Outcome.SKIPPED, _OVERRULED) for each in sorted(wanted.overruled)),
        *(_row(described(each), Outcome.SKIPPED, _FIRST) for each in sorted(first)),
        *(_row(described(each), Outcome.SKIPPED, _OPEN_WITHOUT) for each in sorted(open_without)),
        *(_binding_row(each, mirror, Change.CREATE, Outcome.DIFFERS, _FOLLOWS) for each in create),
        *(
            _binding_row(each, mirror, Change.DELETE, verdict, reason)
            for each, verdict, reason in reasons(gone, wanted, (mirror, found, source), open_topics)
        ),
    ]
    change = AclChange(create=tuple(create), gone=tuple(gone))
    return Share(rows=tuple(rows), change=change if create or gone else None)


def _bare(mirror: MayFollow, destination: Acls) -> frozenset[str]:
    """The topics of the mirror that no ACL of the destination is about."""
    topics = frozenset(each.topic for each in mirror.view.topics(mirror.spec.mirror))
    return topics - destination.covered(topics)


def _is_first(each: AclBinding, bare: Collection[str], destination: Acls) -> bool:
    """Whether it would be the first ACL about a topic of the mirror, or about what may be the groups or ids of it."""
    if each.resource_type == AclResource.TOPIC:
        return any(each.reached(bare))
    begins = each.resource_name.startswith(_OURS)
    if not begins and not each.about(_OURS):
        return False
    concerned = each if begins else each._replace(resource_name=_OURS, pattern_type=int(AclPattern.PREFIXED))
    there = (other for other in destination.bindings if other.resource_type == each.resource_type)
    return not any(other.spans(concerned) for other in there)


def _narrowed(some: Collection[AclBinding], withheld: Iterable[AclBinding]) -> frozenset[AclBinding]:
    """Each ALLOW of `some` that a DENY of `withheld` may narrow."""
    denied = Resources.of(each for each in withheld if each.permission == AclPermission.DENY)
    return frozenset(each for each in some if each.permission == AclPermission.ALLOW and denied.overlap(each))


def _closed(topics: Iterable[str], source: Acls) -> frozenset[str]:
    """Topics that everybody is denied to read, from any host."""
    denying = [each for each in source.bindings if each.resource_type == AclResource.TOPIC and shuts_out(each)]
    return frozenset(name for name in topics if any(each.about(name) for each in denying))


def _ours(mirror: MayFollow, found: AclsFound, copies: Collection[str]) -> frozenset[AclBinding]:
    """What the mirror has created, of what is looked at now: with DENY on names that have no topic yet."""
    copies, names = frozenset(copies), frozenset(found.names)

    def looked_at(each: AclBinding) -> bool:
        if not of_one_topic(each) or each.resource_name in copies:
            return found.whole or of_one_topic(each)
        return found.whole and each.permission == AclPermission.DENY and each.resource_name not in names

    return frozenset(each for each in bindings_of(mirror.view.acls_given(mirror.spec.mirror)) if looked_at(each))


# ── for people ────────────────────────────────────────────────────────────────────────────────────────────────────


def described(each: AclBinding) -> str:
    """In words, for people: unique for each ACL."""
    kind = AclResource(each.resource_type).name.lower().replace("_", " ")
    pattern = " (prefix)" if each.pattern_type == AclPattern.PREFIXED else ""
    where = "" if each.host == ANY_HOST else f" from {each.host}"
    may = "allow" if each.permission == AclPermission.ALLOW else "deny"
    return f"{may} {each.principal} {AclOperation(each.operation).name} on {kind} {each.resource_name}{pattern}{where}"


def _binding_row(each: AclBinding, mirror: MayFollow, change: Change, verdict: Outcome, reason: str) -> MetadataRow:
    text, made = described(each), change is Change.CREATE
    topic = each.resource_name if of_one_topic(each) and each.resource_name in mirror.topics else MIRROR_WIDE
    return MetadataRow(
        topic=topic,
        kind=Kind.ACCESS,
        name=text,
        change=change,
        source=text if made else None,
        destination=None if made else text,
        verdict=verdict,
        reason=reason,
    )


def deletion_row(each: AclBinding) -> MetadataRow:
    """An ACL that is to be deleted, by an approved plan."""
    topic = each.resource_name if of_one_topic(each) else MIRROR_WIDE
    text = described(each)
    return MetadataRow(
        topic=topic, kind=Kind.ACCESS, name=text, change=Change.DELETE, destination=text, reason=_APPROVED
    )


def _row(name: str, verdict: Outcome, reason: str, *, topic: str = MIRROR_WIDE) -> MetadataRow:
    return MetadataRow(topic=topic, kind=Kind.ACCESS, name=name, change=Change.NOTHING, verdict=verdict, reason=reason)
