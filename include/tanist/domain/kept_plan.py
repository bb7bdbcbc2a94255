"""The record of the words of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from tanist.domain.names import EpochMs, MirrorName  # noqa: TC001  # the codec reads the annotations
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored


@stored("plan", "mirror", "plan", policy=RecordPolicy(saved=False))
@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlan(MirrorRecord):
    """The words of a plan, as somebody was shown them. It permits nothing; `domain.failover.kept_plans` has its rules.

    It is not exported, and does not move with the mirror: plan again there.
    """

    mirror: MirrorName
    plan: str
    plan_json: str
    at: EpochMs
    mirror_id: str = ""
