"""The record of ACLs that a mirror has created at its destination, because they are at the source."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.acls import AclBinding, AclOperation, AclPattern, AclPermission, AclResource
from tanist.domain.names import MirrorName  # noqa: TC001  # the codec reads the annotations
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.records import MirrorSpec


@dataclass(frozen=True, slots=True, order=True)
class GivenAcl:
    """One ACL on the resource of its record; operation and permission by Kafka's names."""

    principal: str
    host: str
    operation: str
    permission: str


@stored("acls", "mirror", "resource_type", "pattern_type", "resource_name", policy=RecordPolicy(stays=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class AclsGiven(MirrorRecord):
    """What the mirror has created on one resource; written before it is created. It says nothing of other ACLs."""

    mirror: MirrorName
    resource_type: str
    pattern_type: str
    resource_name: str
    acls: tuple[GivenAcl, ...] = ()
    mirror_id: str = ""

    def bindings(self) -> frozenset[AclBinding]:
        where = (AclResource[self.resource_type], self.resource_name, AclPattern[self.pattern_type])
        return frozenset(
            AclBinding(*where, each.principal, each.host, AclOperation[each.operation], AclPermission[each.permission])
            for each in self.acls
        )


def bindings_of(records: Iterable[AclsGiven]) -> frozenset[AclBinding]:
    """All ACLs of these records."""
    return frozenset(binding for record in records for binding in record.bindings())


def changed_records(
    spec: MirrorSpec, before: Iterable[AclsGiven], after: Iterable[AclBinding]
) -> tuple[AclsGiven, ...]:
    """The records to write so that `after` is on record, and nothing else."""
    wanted: dict[tuple[str, str, str], set[GivenAcl]] = defaultdict(set)
    for each in after:
        where = (AclResource(each.resource_type).name, AclPattern(each.pattern_type).name, each.resource_name)
        operation, permission = AclOperation(each.operation).name, AclPermission(each.permission).name
        wanted[where].add(GivenAcl(each.principal, each.host, operation, permission))
    now = {(each.resource_type, each.pattern_type, each.resource_name): each.acls for each in before}
    due = {where: tuple(sorted(wanted.get(where, ()))) for where in sorted({*wanted, *now})}
    return tuple(
        AclsGiven(
            mirror=spec.mirror,
            mirror_id=spec.mirror_id,
            resource_type=kind,
            pattern_type=pattern,
            resource_name=name,
            acls=acls,
        )
        for (kind, pattern, name), acls in due.items()
        if acls != now.get((kind, pattern, name), ())
    )
