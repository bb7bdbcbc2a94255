"""Who may read a group and its topics at the source and may not at the destination, as far as ACLs show.

ACLs list neither super users nor what other authorizers decide by (roles, IAM): who is allowed by those is not named
where that is at the destination, and not looked for where that is at the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import ANY_HOST
from tanist.domain.acls import AclIndex, AclOperation, AclPermission, AclResource, Acls, permitted_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_READ: Final = AclOperation.READ


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """`lacking`: who may not read at the destination, and what, in words. `unknown`: why that is not known."""

    lacking: tuple[str, ...] = ()
    unknown: str = ""
    groups: int = 0

    def __bool__(self) -> bool:
        """Whether there is anything to say: without groups nobody reads."""
        return bool(self.groups or self.unknown)


NO_READERS: Final = Readers()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingGroups:
    """The groups of a mirror: `topics` at the source by group, `copies` by topic.

    `principals`: their names at the destination, where these differ; `spared`: those of the mirror itself.
    """

    topics: Mapping[str, Collection[str]]
    copies: Mapping[str, str]
    principals: Mapping[str, str]
    spared: Collection[str] = ()


def readers(groups: ReadingGroups, source: Acls, destination: Acls) -> Readers:
    """Each principal that may read at the source and not here, by group."""
    count = len(groups.topics)
    if not count or not destination.authorizer:
        return Readers(groups=count)
    if not source.authorizer:
        return Readers(unknown="the source has no authorizer, so no ACL says who reads there", groups=count)
    return Readers(lacking=tuple(_lacking(groups, AclIndex(source), AclIndex(destination))), groups=count)


def _lacking(groups: ReadingGroups, there: AclIndex, here: AclIndex) -> Iterator[str]:
    for group, topics in sorted(groups.topics.items()):
        at_source = there.about(AclResource.GROUP, group)
        allowed = {(each.principal, each.host) for each in at_source if each.permission == AclPermission.ALLOW}
        for principal, host in sorted(allowed):
            if principal in groups.spared or not permitted_by(at_source, _READ, principal, host):
                continue
            name = groups.principals.get(principal, principal)
            read = [topic for topic in sorted(topics) if _may_read(there, topic, principal, host)]
            shut = [copy for topic in read if not _may_read(here, copy := groups.copies[topic], name, host)]
            in_group = permitted_by(here.about(AclResource.GROUP, group), _READ, name, host)
            if read and not (in_group and not shut):
                what = ", ".join(([] if in_group else [f"group {group}"]) + [f"topic {copy}" for copy in shut])
                yield f"{name}{'' if host == ANY_HOST else f' from {host}'} (group {group}): {what}"


def _may_read(acls: AclIndex, topic: str, principal: str, host: str) -> bool:
    return permitted_by(acls.about(AclResource.TOPIC, topic), _READ, principal, host) is True
