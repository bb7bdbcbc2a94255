"""ACLs for reading topics, for groups and for transactional ids, as a kind that follows the source.

What is created is never wider than the source. A topic's ACL reaches only copies of the mirror: one for all topics, or
for a prefix that other topics of the destination begin with, becomes one for each copy. A DENY that narrows an ALLOW
follows with it, whatever the rules of the mirror say. Where everybody is denied a topic, nothing of it follows: neither
that DENY, which would shut out the mirror, nor an ALLOW that it overrules. What the mirror has created is on record, so
what has gone at the source since is named exactly; it is deleted only by an approved plan.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import ANY_HOST, ANYBODY
from tanist.domain.acl_rules import FOLLOWING, AclRule, acl_principals, acl_rules, taken_names
from tanist.domain.acls import EVERY_RESOURCE, AclBinding, AclOperation, AclPattern, AclPermission, AclResource, Acls
from tanist.domain.errors import TanistError
from tanist.domain.given_acls import bindings_of
from tanist.domain.logins import logins_of, principals
from tanist.domain.metadata import MIRROR_WIDE, Change, Kind, MetadataRow, Outcome, Share

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.metadata import MayFollow

_GONE: Final = "it has gone at the source; `tanist metadata diff` shows the plan to delete it, which has to be approved"
_APPROVED: Final = "it has gone at the source, and an approved plan deletes it"
_FOLLOWS: Final = "as at the source"
_CLOSED: Final = "everybody is denied it at the source, as by a fence: none of its ACLs follow"
_TAKEN: Final = "--acl-principal gives its name to another principal of the source: map it to a name of its own"
_OVERRULED: Final = "everybody is denied a part of it at the source, so nobody is allowed any of it here"
_FIRST: Final = (
    "brokers of the destination may let everybody in where no ACL is about something (allow.everyone.if.no.acl.found): "
    "this one would shut out the mirror; give its login ACLs of its own first, or create it by hand"
)
_OURS: Final = "tanist-"
"""What the names of groups and transactional ids of Tanist begin with."""
_NO_AUTHORIZER: Final = "the {cluster} has no authorizer, so no ACLs follow"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsFound:
    """The ACLs of both clusters. `names`: all topics of the destination. `own`: the principal of our connection there.

    `lenient`: whether brokers there may let everybody in where no ACL is about something. `whole`: whether all of the
    mirror is looked at; else only its topics that may follow.
    """

    source: Acls | TanistError
    destination: Acls | TanistError
    names: Collection[str] = ()
    own: str | None = None
    lenient: bool = False
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AclChange:
    """What is created at the destination, and what of it is gone at the source."""

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
    wanted = Wanted.of(mirror, found, source, open_topics)
    missing = wanted.bindings - destination.bindings
    bare = _bare(mirror, destination) if found.lenient else frozenset[str]()
    first = {each for each in missing if found.lenient and _is_first(each, bare)}
    create = sorted(missing - first)
    kept = _ours(mirror, found, open_topics.values()) & destination.bindings
    gone = sorted(kept - wanted.bindings)
    rows = [
        *(_row(f"READ on topic {copy}", Outcome.SKIPPED, _CLOSED, topic=copy) for copy in closed_copies),
        *(_row(who, Outcome.CONFLICT, _TAKEN) for who in sorted(wanted.taken)),
        *(_row(described(each), Outcome.SKIPPED, _OVERRULED) for each in sorted(wanted.overruled)),
        *(_row(described(each), Outcome.SKIPPED, _FIRST) for each in sorted(first)),
        *(_binding_row(each, mirror, Change.CREATE, Outcome.DIFFERS, _FOLLOWS) for each in create),
        *(_binding_row(each, mirror, Change.DELETE, Outcome.CONFLICT, _GONE) for each in gone),
    ]
    change = AclChange(create=tuple(create), gone=tuple(gone))
    return Share(rows=tuple(rows), change=change if create or gone else None)


def _bare(mirror: MayFollow, destination: Acls) -> frozenset[str]:
    """The topics of the mirror that no ACL of the destination is about."""
    topics = frozenset(each.topic for each in mirror.view.topics(mirror.spec.mirror))
    return topics - destination.covered(topics)


def _is_first(each: AclBinding, bare: Collection[str]) -> bool:
    """Whether it would be the first ACL about a topic of the mirror, or may be about what its workers use."""
    if each.resource_type != AclResource.TOPIC:
        return each.about(_OURS) or each.resource_name.startswith(_OURS)
    return any(each.reached(bare))


def _closed(topics: Iterable[str], source: Acls) -> frozenset[str]:
    """Topics that everybody is denied to read, from any host."""
    operations = {*FOLLOWING[AclResource.TOPIC], AclOperation.ALL}
    denying = [
        each
        for each in source.bindings
        if (each.resource_type, each.permission) == (AclResource.TOPIC, AclPermission.DENY)
        and (each.principal, each.host) == (ANYBODY, ANY_HOST)
        and each.operation in operations
    ]
    return frozenset(name for name in topics if any(each.about(name) for each in denying))


def _ours(mirror: MayFollow, found: AclsFound, copies: Collection[str]) -> frozenset[AclBinding]:
    """What the mirror has created, of what is looked at now."""
    copies = frozenset(copies)
    return frozenset(
        each
        for each in bindings_of(mirror.view.acls_given(mirror.spec.mirror))
        if (each.resource_name in copies if _of_one_topic(each) else found.whole)
    )


def _of_one_topic(each: AclBinding) -> bool:
    return each.resource_type == AclResource.TOPIC and each.pattern_type == AclPattern.LITERAL


# ── what is wanted ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Followed:
    """One ACL of the source on one resource of the destination. `at_source`: the names that rules may match."""

    binding: AclBinding
    at_source: tuple[str, ...]
    operations: tuple[int, ...]

    @property
    def allows(self) -> bool:
        return self.binding.permission == AclPermission.ALLOW

    def selected(self, rules: Sequence[AclRule]) -> bool:
        each = self.binding
        where = (each.resource_type, self.at_source, self.operations, each.permission, each.principal)
        return any(rule.selects(*where) for rule in rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The ACLs that the destination should have.

    Left out are `taken`, principals that share a name, and `overruled`, an ALLOW where everybody is denied.
    """

    bindings: frozenset[AclBinding]
    taken: frozenset[str] = field(default_factory=frozenset)
    overruled: frozenset[AclBinding] = field(default_factory=frozenset)

    @classmethod
    def of(cls, mirror: MayFollow, found: AclsFound, source: Acls, topics: Mapping[str, str]) -> Wanted:
        """`topics`: those that may follow, by their names at the source."""
        rules, table = acl_rules(mirror.spec.acl_rules), acl_principals(mirror.spec.acl_principals)
        reach = _reach(mirror, found, topics)
        followed = [each for binding in source.bindings for each in _followed(binding, reach)]
        denied = {each.binding for each in followed if not each.allows}
        for_all = {each for each in denied if (each.principal, each.host) == (ANYBODY, ANY_HOST)}
        chosen = {each.binding for each in followed if each.selected(rules)}
        shut = _Resources.of(for_all)
        overruled = {each for each in chosen - denied if shut.overlap(each)}
        kept = chosen - overruled
        kept = (kept | _narrowing(denied, kept - denied)) - for_all
        taken = taken_names(table, {each.principal for each in kept})
        ours = principals(logins_of(mirror.view.workers())) | ({found.own} if found.own else set())
        named = {_renamed(each, table) for each in kept if each.principal not in taken}
        return cls(
            bindings=frozenset(each for each in named if each.principal not in ours),
            taken=taken,
            overruled=frozenset(overruled),
        )


def _renamed(each: AclBinding, table: Mapping[str, str]) -> AclBinding:
    return each._replace(principal=table.get(each.principal, each.principal))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """Topics that ACLs of topics may reach, by their names at the source; `others`: topics of the destination."""

    topics: Mapping[str, str]
    others: Sequence[str]
    renamed: bool
    whole: bool

    def shares(self, prefix: str) -> bool:
        """Whether other topics of the destination begin with it."""
        return any(name.startswith(prefix) for name in self.others)

    def resources(self, binding: AclBinding) -> Iterator[tuple[str, int, tuple[str, ...]]]:
        """The names and patterns at the destination that stand for those of `binding`, and what rules may match."""
        name, pattern = binding.resource_name, binding.pattern_type
        if binding.resource_type != AclResource.TOPIC or (
            pattern == AclPattern.PREFIXED and not self.renamed and not self.shares(name)
        ):
            if self.whole:
                yield name, pattern, (name,)
        else:
            for topic in binding.reached(self.topics):
                yield self.topics[topic], AclPattern.LITERAL, (name, topic)


def _reach(mirror: MayFollow, found: AclsFound, topics: Mapping[str, str]) -> _Reach:
    """A copy that is paused, or has been failed over, is no stranger to an ACL of its source; a closed one is."""
    here = {each.topic for each in mirror.view.topics(mirror.spec.mirror)}
    closed = {*mirror.topics} - {*topics.values()}
    others = tuple(name for name in found.names if name not in here or name in closed)
    return _Reach(topics=topics, others=others, renamed=bool(mirror.spec.rename), whole=found.whole)


def _followed(binding: AclBinding, reach: _Reach) -> Iterator[_Followed]:
    """What of `binding` follows the source at all; codes that are not known here do not."""
    if binding.resource_type not in FOLLOWING or binding.pattern_type not in set(AclPattern):
        return
    kept = FOLLOWING[AclResource(binding.resource_type)]
    match (binding.permission, binding.operation):
        case AclPermission.ALLOW, AclOperation.ALL:
            operations: tuple[AclOperation, ...] = kept[:1]
        case AclPermission.DENY, AclOperation.ALL:
            operations = kept
        case AclPermission.ALLOW | AclPermission.DENY, operation if operation in kept:
            operations = (AclOperation(operation),)
        case _:
            return
    for name, pattern, at_source in reach.resources(binding):
        for operation in operations:
            there = binding._replace(resource_name=name, pattern_type=int(pattern), operation=int(operation))
            yield _Followed(there, at_source, (operation, binding.operation))


def _narrowing(denied: Iterable[AclBinding], allowed: Iterable[AclBinding]) -> set[AclBinding]:
    """Each DENY that takes something from one of these ALLOW."""
    by_principal: dict[str, list[AclBinding]] = defaultdict(list)
    for each in allowed:
        by_principal[each.principal].append(each)
    resources = {who: _Resources.of(found) for who, found in by_principal.items()}
    nobody = _Resources.of(())

    def narrows(deny: AclBinding) -> bool:
        concerned = resources if deny.principal == ANYBODY else {deny.principal, ANYBODY}
        return any(resources.get(who, nobody).overlap(deny) for who in concerned)

    return {each for each in denied if narrows(each)}


@dataclass(frozen=True, slots=True)
class _Resources:
    """What some ACLs are about: (type, literal name), and (type, prefix)."""

    names: frozenset[tuple[int, str]]
    prefixes: frozenset[tuple[int, str]]

    @classmethod
    def of(cls, bindings: Iterable[AclBinding]) -> _Resources:
        names: set[tuple[int, str]] = set()
        prefixes: set[tuple[int, str]] = set()
        for each in bindings:
            kept = prefixes if each.pattern_type == AclPattern.PREFIXED else names
            kept.add((each.resource_type, each.resource_name))
        return cls(frozenset(names), frozenset(prefixes))

    def overlap(self, each: AclBinding) -> bool:
        """Whether `each` may be about a resource that they are about."""
        kind, name = each.resource_type, each.resource_name
        if (kind, EVERY_RESOURCE) in self.names:
            return True
        begin = any(kind == of and name.startswith(prefix) for of, prefix in self.prefixes)
        if each.pattern_type == AclPattern.PREFIXED:
            known = (*self.names, *self.prefixes)
            return begin or any(kind == of and other.startswith(name) for of, other in known)
        if name == EVERY_RESOURCE:
            return any(kind == of for of, _ in (*self.names, *self.prefixes))
        return begin or (kind, name) in self.names


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
    topic = each.resource_name if _of_one_topic(each) and each.resource_name in mirror.topics else MIRROR_WIDE
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
    topic = each.resource_name if _of_one_topic(each) else MIRROR_WIDE
    text = described(each)
    return MetadataRow(
        topic=topic, kind=Kind.ACCESS, name=text, change=Change.DELETE, destination=text, reason=_APPROVED
    )


def _row(name: str, verdict: Outcome, reason: str, *, topic: str = MIRROR_WIDE) -> MetadataRow:
    return MetadataRow(topic=topic, kind=Kind.ACCESS, name=name, change=Change.NOTHING, verdict=verdict, reason=reason)
