"""Which ACLs of the source the destination should have, and on what: never wider than at the source.

An ALLOW for a prefix stays one only where it reaches nothing but copies, and everything that it is denied at the source
can be denied here as well: all of the source's DENY below it, also on names whose copies may not follow now, or that
have no topic yet.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.acl_entries import ANY_HOST, ANYBODY
from tanist.domain.acl_rules import ANY, FOLLOWING, AclRule, acl_principals, acl_rules, taken_names
from tanist.domain.acls import EVERY_RESOURCE, AclBinding, AclOperation, AclPattern, AclPermission, AclResource
from tanist.domain.logins import logins_of, principals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.acls import Acls
    from tanist.domain.errors import TanistError
    from tanist.domain.metadata import MayFollow


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsFound:
    """The ACLs of both clusters, the same for whoever asks. `names`: all topics of the destination.

    `lenient`: whether brokers there may let everybody in where no ACL is about something. `whole`: whether all of the
    mirror is looked at; else only its topics that may follow.
    """

    source: Acls | TanistError
    destination: Acls | TanistError
    names: Collection[str] = ()
    lenient: bool = False
    whole: bool = True


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
    """The ACLs that the destination should have; `besides`: DENY that narrow an ALLOW which is only still there.

    Left out are `taken`, principals that share a name, and `overruled`, an ALLOW where everybody is denied.
    """

    bindings: frozenset[AclBinding]
    besides: frozenset[AclBinding] = field(default_factory=frozenset)
    taken: frozenset[str] = field(default_factory=frozenset)
    overruled: frozenset[AclBinding] = field(default_factory=frozenset)

    @classmethod
    def of(
        cls,
        mirror: MayFollow,
        found: AclsFound,
        source: Acls,
        topics: Mapping[str, str],
        given: Iterable[AclBinding] = (),
        *,
        all_rules: bool = False,
    ) -> Wanted:
        """`topics`: those that may follow, by their names at the source. `given`: what the mirror has created.

        `all_rules`: as if the rules of the mirror selected everything.
        """
        rules = acl_rules((ANY,) if all_rules else mirror.spec.acl_rules)
        table = acl_principals(mirror.spec.acl_principals)
        reach = _reach(mirror, found, topics, source)
        followed = [each for binding in source.bindings for each in _followed(binding, reach)]
        denied = {each.binding for each in followed if not each.allows}
        for_all = {each for each in denied if shuts_out(each)}
        chosen = {each.binding for each in followed if reach.looks_at(each.binding) and each.selected(rules)}
        shut = Resources.of(for_all)
        overruled = {each for each in chosen - denied if shut.overlap(each)}
        kept = chosen - overruled
        allowed, still = kept - denied, _still_allowed(given, table) if found.whole else set[AclBinding]()
        prefixes = {each.resource_name for each in allowed | still if is_prefix_of_topics(each)}
        denied |= {each for binding in source.bindings for each in _denied_below(binding, prefixes)}
        kept = (kept | _narrowing(denied, allowed)) - for_all
        besides = _narrowing(denied, still) - for_all - kept
        taken = taken_names(table, {each.principal for each in kept | besides})
        left_out = own_principals(mirror)

        def named(some: Iterable[AclBinding]) -> frozenset[AclBinding]:
            here = (_renamed(each, table) for each in some if each.principal not in taken)
            return frozenset(each for each in here if each.principal not in left_out)

        return cls(bindings=named(kept), besides=named(besides), taken=taken, overruled=frozenset(overruled))


def own_principals(mirror: MayFollow) -> frozenset[str]:
    """The logins of the workers on record, whoever asks: what concerns them is neither created nor deleted."""
    return principals(logins_of(mirror.view.workers()))


def of_one_topic(each: AclBinding) -> bool:
    """Whether it names a single topic."""
    return each.resource_type == AclResource.TOPIC and each.pattern_type == AclPattern.LITERAL


def shuts_out(each: AclBinding) -> bool:
    """Whether everybody, from any host, is denied what follows of it."""
    return (
        each.permission == AclPermission.DENY
        and (each.principal, each.host) == (ANYBODY, ANY_HOST)
        and bool(operations_of(each))
    )


def is_prefix_of_topics(each: AclBinding) -> bool:
    """Whether it is about all topics that begin with its name."""
    return (each.resource_type, each.pattern_type) == (AclResource.TOPIC, AclPattern.PREFIXED)


def _renamed(each: AclBinding, table: Mapping[str, str]) -> AclBinding:
    return each._replace(principal=table.get(each.principal, each.principal))


def _still_allowed(given: Iterable[AclBinding], table: Mapping[str, str]) -> set[AclBinding]:
    """Each ALLOW of these, with the principal's name at the source."""
    back = {here: there for there, here in table.items()}
    return {_renamed(each, back) for each in given if each.permission == AclPermission.ALLOW}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """Topics that ACLs of topics may reach, by their names at the source; `others`: topics of the destination.

    `closed`: what everybody is denied at the source.
    """

    topics: Mapping[str, str]
    others: Sequence[str]
    closed: Resources
    renamed: bool
    whole: bool

    def looks_at(self, each: AclBinding) -> bool:
        return self.whole or of_one_topic(each)

    def _stays(self, binding: AclBinding) -> bool:
        """Whether a prefix of topics stays one: it reaches copies only, and an ALLOW none that is denied to all."""
        if not is_prefix_of_topics(binding) or self.renamed:
            return False
        if any(name.startswith(binding.resource_name) for name in self.others):
            return False
        return binding.permission == AclPermission.DENY or not self.closed.overlap(binding)

    def resources(self, binding: AclBinding) -> Iterator[tuple[str, int, tuple[str, ...]]]:
        """The names and patterns at the destination that stand for those of `binding`, and what rules may match."""
        name, pattern = binding.resource_name, binding.pattern_type
        if binding.resource_type != AclResource.TOPIC or self._stays(binding):
            yield name, pattern, (name,)
        else:
            for topic in binding.reached(self.topics):
                yield self.topics[topic], AclPattern.LITERAL, (name, topic)


def strangers(mirror: MayFollow, found: AclsFound) -> tuple[str, ...]:
    """The other topics of the destination: copies that are paused, or were failed over, are none."""
    here = {each.topic for each in mirror.view.topics(mirror.spec.mirror)}
    return tuple(name for name in found.names if name not in here)


def _reach(mirror: MayFollow, found: AclsFound, topics: Mapping[str, str], source: Acls) -> _Reach:
    return _Reach(
        topics=topics,
        others=strangers(mirror, found),
        closed=Resources.of(each for each in source.bindings if shuts_out(each)),
        renamed=bool(mirror.spec.rename),
        whole=found.whole,
    )


def operations_of(binding: AclBinding) -> tuple[AclOperation, ...]:
    """The operations that follow of `binding`; codes that are not known here do not."""
    if binding.resource_type not in FOLLOWING or binding.pattern_type not in set(AclPattern):
        return ()
    kept = FOLLOWING[AclResource(binding.resource_type)]
    match (binding.permission, binding.operation):
        case AclPermission.ALLOW, AclOperation.ALL:
            return kept[:1]
        case AclPermission.DENY, AclOperation.ALL:
            return kept
        case AclPermission.ALLOW | AclPermission.DENY, operation if operation in kept:
            return (AclOperation(operation),)
    return ()


def _followed(binding: AclBinding, reach: _Reach) -> Iterator[_Followed]:
    """What of `binding` follows the source at all."""
    if operations := operations_of(binding):
        for name, pattern, at_source in reach.resources(binding):
            for operation in operations:
                there = binding._replace(resource_name=name, pattern_type=int(pattern), operation=int(operation))
                yield _Followed(there, at_source, (operation, binding.operation))


def _denied_below(binding: AclBinding, prefixes: Iterable[str]) -> Iterator[AclBinding]:
    """What a DENY of topics denies below these prefixes, whose names are the same on both clusters."""
    if (binding.resource_type, binding.permission) != (AclResource.TOPIC, AclPermission.DENY) or shuts_out(binding):
        return
    name, pattern = binding.resource_name, binding.pattern_type
    every = pattern == AclPattern.LITERAL and name == EVERY_RESOURCE
    for prefix in prefixes:
        if not every and name.startswith(prefix):
            where = (name, pattern)
        elif every or (pattern == AclPattern.PREFIXED and prefix.startswith(name)):
            where = (prefix, int(AclPattern.PREFIXED))
        else:
            continue
        for operation in operations_of(binding):
            yield binding._replace(resource_name=where[0], pattern_type=where[1], operation=int(operation))


def _narrowing(denied: Iterable[AclBinding], allowed: Iterable[AclBinding]) -> set[AclBinding]:
    """Each DENY that takes something from one of these ALLOW."""
    by_principal: dict[str, list[AclBinding]] = defaultdict(list)
    for each in allowed:
        by_principal[each.principal].append(each)
    resources = {who: Resources.of(found) for who, found in by_principal.items()}
    nobody = Resources.of(())

    def narrows(deny: AclBinding) -> bool:
        concerned = resources if deny.principal == ANYBODY else {deny.principal, ANYBODY}
        return any(resources.get(who, nobody).overlap(deny) for who in concerned)

    return {each for each in denied if narrows(each)}


@dataclass(frozen=True, slots=True)
class Resources:
    """What some ACLs are about: (type, literal name), and (type, prefix)."""

    names: frozenset[tuple[int, str]]
    prefixes: frozenset[tuple[int, str]]

    @classmethod
    def of(cls, bindings: Iterable[AclBinding]) -> Resources:
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
