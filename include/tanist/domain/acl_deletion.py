"""The plan to delete ACLs that a mirror has created and that do not follow any more: what an approver accepts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.acls import AclBinding
from tanist.domain.approval.words import PlanHash, canonical, hash_of
from tanist.domain.names import EpochMs, MirrorName  # noqa: TC001  # the codec reads the annotations
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored

if TYPE_CHECKING:
    from tanist.domain.records import MirrorSpec

VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AclDeletion:
    """Exactly these ACLs are deleted, each only while it still does not follow the source."""

    mirror: str
    mirror_id: str
    destination_cluster_id: str
    acls: tuple[AclBinding, ...]

    @classmethod
    def of(cls, spec: MirrorSpec, acls: tuple[AclBinding, ...]) -> AclDeletion:
        return cls(
            mirror=spec.mirror,
            mirror_id=spec.id,
            destination_cluster_id=spec.destination_cluster_id,
            acls=tuple(sorted(acls)),
        )

    @property
    def canonical_plan(self) -> str:
        """Canonical JSON: what an approval binds."""
        words = {"v": VERSION, "delete_acls": self.mirror, "mirror_id": self.mirror_id}
        return canonical({**words, "destination": self.destination_cluster_id, "acls": [[*each] for each in self.acls]})

    @property
    def hash(self) -> PlanHash:
        return hash_of(self.canonical_plan)

    @classmethod
    def read(cls, plan_json: str) -> AclDeletion:
        """Raises ValueError, KeyError or TypeError if this is not the plan of a deletion of ACLs."""
        found: dict[str, Any] = json.loads(plan_json)
        return cls(
            mirror=found["delete_acls"],
            mirror_id=found["mirror_id"],
            destination_cluster_id=found["destination"],
            acls=tuple(AclBinding(*each) for each in found["acls"]),
        )

    def fits(self, spec: MirrorSpec) -> bool:
        """Whether it is of the mirror as it is now."""
        return (self.mirror_id, self.destination_cluster_id) == (spec.id, spec.destination_cluster_id)


@stored("acls_deleted", "mirror", "plan", policy=RecordPolicy(stays=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class AclsDeleted(MirrorRecord):
    """A plan that was carried out: `approval` is used up. One that failed in part is not, so that it can go on."""

    mirror: MirrorName
    plan: str
    approval: str
    approver: str
    at: EpochMs
    mirror_id: str = ""

    @property
    def status(self) -> str:
        return "COMPLETED"

    @property
    def reason(self) -> str:
        return ""
