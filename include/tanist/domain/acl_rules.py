"""Which ACLs of the source follow, in KIP-1279's rule language, and how principals are named at the destination.

A rule is `resourceType;resourceName;operation;permissionType;principal`, as `mirror.acl.include` has it: `*` is any
value, name and principal are regular expressions that match whole values, and fields of `*` at the end may be left out.
Several rules are separated by commas, each before the type of a resource, so that a principal may contain a comma.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.acl_entries import ANYBODY
from tanist.domain.acls import AclOperation, AclPermission, AclResource
from tanist.domain.errors import Misconfigured
from tanist.domain.problems import ProblemCollector
from tanist.domain.selection import topic_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry

ANY: Final = "*"
FOLLOWING: Final = {
    AclResource.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResource.GROUP: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResource.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
"""The operations that follow, by type of resource: what consumers need, and transactions of producers.

An ALLOW of ALL follows as the first one, which implies the second; a DENY of ALL as both. WRITE on topics is given by a
failover (`synced.write_acls`); what else there is, is about administration, and belongs to its cluster.
"""
_FIELDS: Final = 5
_TYPES: Final = "|".join([re.escape(ANY), *AclResource.__members__])
_NEXT_RULE: Final = re.compile(rf",(?=\s*(?:{_TYPES})\s*(?:[;,]|$))", re.IGNORECASE)
_SHAPE: Final = "resourceType;resourceName;operation;permissionType;principal"
_PRINCIPAL: Final = re.compile(r"[A-Za-z]+:.+")
_E = TypeVar("_E", bound=IntEnum)
_MAPS: Final = re.compile(r"=(?=[A-Za-z]+:)")


@dataclass(frozen=True, slots=True)
class AclRule:
    """One rule. None: any value. `name` and `principal`: regular expressions."""

    resource_type: AclResource | None
    name: str | None
    operation: AclOperation | None
    permission: AclPermission | None
    principal: str | None

    def selects(  # the fields of a rule
        self,
        resource_type: int,
        names: Iterable[str],
        operations: Iterable[int],
        permission: int,
        principal: str,
    ) -> bool:
        """Whether it is about an ACL with these values; one of `names` and one of `operations` is enough."""
        return (
            self.resource_type in {None, resource_type}
            and self.permission in {None, permission}
            and (self.operation is None or self.operation in operations)
            and _matches(self.principal, principal)
            and any(_matches(self.name, name) for name in names)
        )


def _matches(pattern: str | None, value: str) -> bool:
    """`User:*` in a rule is the principal of that name, too, though it is a regular expression of another meaning."""
    return pattern is None or pattern == value or _compiled(pattern).fullmatch(value) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return topic_pattern(pattern)


def acl_rules(texts: Iterable[str]) -> tuple[AclRule, ...]:
    """The rules.

    Raises:
        Misconfigured, or several: one cannot be read, or selects nothing that follows.
    """
    found = ProblemCollector(())
    rules = [found.attempt(partial(_rule, one)) for text in texts for one in _NEXT_RULE.split(text)]
    found.raise_all()
    return tuple(rule for rule in rules if rule is not None)


def _rule(text: str) -> AclRule:
    fields = [field.strip() for field in text.split(";")]
    if len(fields) > _FIELDS:
        raise _unreadable(text, f"it has {len(fields)} fields, not up to {_FIELDS}")
    kind, name, operation, permission, principal = (*fields, *[ANY] * (_FIELDS - len(fields)))
    rule = AclRule(
        resource_type=_member(AclResource, kind, text, "a resource type"),
        name=_expression(name, text, "resource name"),
        operation=_member(AclOperation, operation, text, "an operation"),
        permission=_member(AclPermission, permission, text, "a permission type"),
        principal=_expression(principal, text, "principal"),
    )
    if rule.resource_type is not None and rule.resource_type not in FOLLOWING:
        follow = ", ".join(each.name for each in FOLLOWING)
        raise _unreadable(text, f"ACLs of {rule.resource_type.name} do not follow the source, only those of {follow}")
    kinds = FOLLOWING if rule.resource_type is None else (rule.resource_type,)
    followed = sorted({each for kind in kinds for each in FOLLOWING[kind]} | {AclOperation.ALL})
    if rule.operation is not None and rule.operation not in followed:
        names = ", ".join(each.name for each in followed)
        given = "; WRITE is given by a failover" if rule.operation is AclOperation.WRITE else ""
        raise _unreadable(text, f"{rule.operation.name} does not follow the source, only {names}{given}")
    return rule


def _member(kind: type[_E], value: str, text: str, what: str) -> _E | None:
    if value == ANY:
        return None
    try:
        return kind[value.upper()]
    except KeyError:
        names = ", ".join([ANY, *kind.__members__])
        raise _unreadable(text, f"{value!r} is not {what}: {names}") from None


def _expression(value: str, text: str, what: str) -> str | None:
    if value == ANY:
        return None
    if not value:
        raise _unreadable(text, f"its {what} is empty: {ANY} stands for any")
    try:
        topic_pattern(value)
    except Misconfigured as wrong:
        raise _unreadable(text, f"its {what}: {wrong.reason}") from wrong
    return value


def _unreadable(text: str, why: str) -> Misconfigured:
    return Misconfigured(f"--acl {text.strip()!r} cannot be read as {_SHAPE}: {why}")


# ── principals ────────────────────────────────────────────────────────────────────────────────────────────────────


def acl_principals(texts: Sequence[str]) -> dict[str, str]:
    """The principal at the destination, by that at the source; texts are `SOURCE=DESTINATION`.

    Raises:
        Misconfigured, or several: one cannot be read, or two principals would become one, which would have the rights
        of both.
    """
    found = ProblemCollector(())
    pairs = [pair for text in texts if (pair := found.attempt(partial(_pair, text))) is not None]
    table: dict[str, str] = {}
    for source, destination in pairs:
        if source in table:
            found.problems.append(_of_principals(f"{source} has two names: {table[source]} and {destination}"))
        elif other := next((each for each, name in table.items() if name == destination), None):
            both = f"{other} and {source} would both be {destination}, with the rights of both"
            found.problems.append(_of_principals(both))
        else:
            table[source] = destination
    found.raise_all()
    return table


def _pair(text: str) -> tuple[str, str]:
    parts = _MAPS.split(text.strip())
    if len(parts) != 2 or not all(map(_PRINCIPAL.fullmatch, parts)):  # noqa: PLR2004  # source and destination
        raise _of_principals(f"{text!r} is not SOURCE=DESTINATION, each like User:name")
    if ANYBODY in parts:
        raise _of_principals(f"{text!r}: {ANYBODY} stands for everybody and has the same name on every cluster")
    return parts[0], parts[1]


def _of_principals(why: str) -> Misconfigured:
    return Misconfigured(f"--acl-principal: {why}")


def taken_names(table: Mapping[str, str], principals: Iterable[str]) -> frozenset[str]:
    """Those of `principals` at the source that keep their name, which the table gives to another one."""
    names = {name for source, name in table.items() if source != name}
    return frozenset(who for who in principals if who not in table and who in names)


def entries_here(found: tuple[AclEntry, ...] | None, texts: Sequence[str]) -> tuple[AclEntry, ...] | None:
    """ACLs for writing with the names of their principals at the destination; None stays None.

    A principal whose name the table gives to another one is left out.
    """
    if found is None or not texts:
        return found
    table = acl_principals(texts)
    taken = taken_names(table, {each.principal for each in found})
    kept = (each for each in found if each.principal not in taken)
    return tuple(sorted(replace(each, principal=table.get(each.principal, each.principal)) for each in kept))


def swapped(texts: Sequence[str]) -> tuple[str, ...]:
    """The same table, which can be read, for a mirror in the other direction."""
    return tuple(f"{destination}={source}" for source, destination in acl_principals(texts).items())
