"""What becomes of the records of divergent tails: their classes, and the plan that an approver accepts.

A class is determined when a record is replayed, not when the plan is made: the new primary goes on writing. So a plan
says what becomes of each class, and a key that gets a newer value in the meantime is a conflict.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import Refused
from tanist.domain.failover.plan import PlanHash, canonical, hash_of
from tanist.domain.names import MirrorName

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec
    from tanist.domain.tails import TopicTails

VERSION: Final = 1


class TailClass(StrEnum):
    """Of a rescued record."""

    CONFLICT = "conflict"
    """The new primary has a newer record with its key."""
    SAFE = "safe"
    """The new primary has no newer record with its key."""
    UNORDERED = "unordered"
    """It has no key, so nobody knows what it belongs before or after."""
    EXPIRED = "expired"
    """Retention of the new primary would delete it."""


class TailAction(StrEnum):
    """What becomes of a class: left in quarantine, or appended to its topic."""

    DROP, REPLAY = "drop", "replay"


class ClassesMissing(Refused):
    name = "CLASSES_NOT_DECIDED"
    operator_action = "give each class with --replay or --drop: conflict, safe, unordered, expired; nothing was changed"


class NothingToDecide(Refused):
    name = "NOTHING_TO_DECIDE"
    operator_action = "see `tanist status`; `tanist failback rescue` comes before; nothing was changed"


def classify(
    key: bytes | None, time: int, newer: Container[bytes], retention_ms: int | None, now: EpochMs
) -> TailClass:
    """The class of a record. `newer`: keys that the new primary has written itself. `retention_ms`: None: unlimited."""
    if retention_ms is not None and time < now - retention_ms:
        return TailClass.EXPIRED
    if key is None:
        return TailClass.UNORDERED
    return TailClass.CONFLICT if key in newer else TailClass.SAFE


@dataclass(frozen=True, slots=True, order=True)
class DecidedTail:
    """One partition of a plan: exactly these rescued records."""

    topic: str
    partition: int
    promotion_epoch: int
    begin: int
    end: int
    records: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPlan:
    """What an approver accepts. `actions`: by class, all of them."""

    mirror: MirrorName
    mirror_id: str
    source_cluster_id: str
    destination_cluster_id: str
    tails: tuple[DecidedTail, ...]
    actions: Mapping[TailClass, TailAction]

    @property
    def canonical_plan(self) -> str:
        """As canonical JSON: what an approval binds."""
        words = {
            "mirror": self.mirror,
            "mirror_id": self.mirror_id,
            "clusters": [self.source_cluster_id, self.destination_cluster_id],
            "tails": [
                [t.topic, t.partition, t.promotion_epoch, t.begin, t.end, t.records, t.digest] for t in self.tails
            ],
            "actions": {str(name): str(action) for name, action in self.actions.items()},
        }
        return canonical({"v": VERSION, "decision": words})

    @property
    def hash(self) -> PlanHash:
        return hash_of(self.canonical_plan)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.topic for each in self.tails))

    @classmethod
    def read(cls, shown: str) -> DecisionPlan:
        """Raises ValueError, KeyError or TypeError where these are not the words of such a plan."""
        stored: dict[str, Any] = json.loads(shown)["decision"]
        source, destination = stored["clusters"]
        return cls(
            mirror=MirrorName(stored["mirror"]),
            mirror_id=stored["mirror_id"],
            source_cluster_id=source,
            destination_cluster_id=destination,
            tails=tuple(DecidedTail(*each) for each in stored["tails"]),
            actions={each: TailAction(stored["actions"][each]) for each in TailClass},
        )


def decided_tails(tails: Sequence[TopicTails]) -> tuple[DecidedTail, ...]:
    """The partitions of `tails` that have rescued records, as a plan names them."""
    return tuple(
        sorted(
            DecidedTail(of.topic, t.partition, of.promotion_epoch, t.common_end, t.end, t.records, t.digest)
            for of in tails
            for t in of.with_records()
        )
    )


def make_decision(
    spec: MirrorSpec, tails: Sequence[TopicTails], actions: Mapping[TailClass, TailAction]
) -> DecisionPlan:
    """The plan for `tails`, which are rescued."""
    return DecisionPlan(
        mirror=spec.mirror,
        mirror_id=spec.id,
        source_cluster_id=spec.source_cluster_id,
        destination_cluster_id=spec.destination_cluster_id,
        tails=decided_tails(tails),
        actions=actions,
    )
