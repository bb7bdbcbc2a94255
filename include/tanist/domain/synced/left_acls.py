"""Why an ACL that the mirror has created does not follow its source any more, and whether that is wrong."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_rules import acl_principals, taken_names
from tanist.domain.acls import EVERY_RESOURCE, AclPattern, AclPermission
from tanist.domain.metadata import Outcome
from tanist.domain.synced.wanted_acls import Wanted, is_prefix_of_topics, of_one_topic, operations_of, strangers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tanist.domain.acls import AclBinding, Acls
    from tanist.domain.metadata import MayFollow
    from tanist.domain.synced.wanted_acls import AclsFound

    _ByWho = Mapping[tuple[int | str, ...], tuple[Collection[str], Collection[AclBinding]]]

_PLAN: Final = "`tanist metadata diff` shows the plan to delete it, which has to be approved"
_GONE: Final = f"it has gone at the source; {_PLAN}"
_RENAMED: Final = f"--acl-principal gives its principal another name here; {_PLAN}"
_SHARED: Final = f"topics of the destination that are no copies begin with its prefix, too; {_PLAN}"
_DENIED: Final = f"the source has it, but denies everybody a part of it; {_PLAN}"
_SPANNED: Final = f"another ACL that follows the source says the same and more, so it may stay; {_PLAN}"
_NOT_ASKED: Final = f"the source has it, but the rules of the mirror do not ask for it now, so it stays; {_PLAN}"


def reasons(
    left: Iterable[AclBinding],
    wanted: Wanted,
    read: tuple[MayFollow, AclsFound, Acls],
    topics: Mapping[str, str],
) -> Iterator[tuple[AclBinding, Outcome, str]]:
    """Each of `left`, which are not `wanted`, with its verdict and reason. `read`: what was decided from."""
    mirror, found, source = read
    if not (left := tuple(left)):
        return
    asked = Wanted.of(mirror, found, source, topics, all_rules=True).bindings
    standing = _Standing(mirror, source)
    foreign = strangers(mirror, found)
    follow = _by_who(wanted.bindings)
    for each in left:
        if not standing.named(each):
            yield each, Outcome.CONFLICT, _RENAMED if standing.unnamed(each) else _GONE
        elif _spanned(each, each, follow):
            yield each, Outcome.SKIPPED, _SPANNED
        elif each in asked or each.permission == AclPermission.DENY:
            yield each, Outcome.SKIPPED, _NOT_ASKED
        elif is_prefix_of_topics(each) and any(name.startswith(each.resource_name) for name in foreign):
            yield each, Outcome.CONFLICT, _SHARED
        else:
            yield each, Outcome.CONFLICT, _DENIED


class _Standing:
    """The ACLs of the source by all but their names: with the names of principals here, and without."""

    def __init__(self, mirror: MayFollow, source: Acls) -> None:
        self._names = mirror.spec.names
        table = acl_principals(mirror.spec.acl_principals)
        taken = taken_names(table, {each.principal for each in source.bindings})
        plain = [
            each._replace(operation=int(operation)) for each in source.bindings for operation in operations_of(each)
        ]
        here = (each for each in plain if each.principal not in taken)
        self._unnamed = _by_who(plain)
        self._named = _by_who(each._replace(principal=table.get(each.principal, each.principal)) for each in here)

    def named(self, each: AclBinding) -> bool:
        """Whether the source has it still."""
        return self._any(each, self._named)

    def unnamed(self, each: AclBinding) -> bool:
        """Whether the source has it for a principal of that very name."""
        return self._any(each, self._unnamed)

    def _any(self, each: AclBinding, kept: _ByWho) -> bool:
        name = self._names.topic_at_source(each.resource_name) if of_one_topic(each) else each.resource_name
        return _spanned(each, each._replace(resource_name=name), kept)


def _all_but_name(each: AclBinding) -> tuple[int | str, ...]:
    return each.resource_type, each.principal, each.host, each.operation, each.permission


def _by_who(some: Iterable[AclBinding]) -> _ByWho:
    """By all but their names: the names, and those that are about more than one."""
    found: dict[tuple[int | str, ...], tuple[set[str], list[AclBinding]]] = defaultdict(lambda: (set(), []))
    for each in some:
        names, broad = found[_all_but_name(each)]
        if each.pattern_type == AclPattern.LITERAL and each.resource_name != EVERY_RESOURCE:
            names.add(each.resource_name)
        else:
            broad.append(each)
    return found


def _spanned(each: AclBinding, there: AclBinding, kept: _ByWho) -> bool:
    """Whether one that says the same spans what is called `there` where it is."""
    names, broad = kept.get(_all_but_name(each), ((), ()))
    exact = there.pattern_type == AclPattern.LITERAL and there.resource_name in names
    return exact or any(other.spans(there) for other in broad)
