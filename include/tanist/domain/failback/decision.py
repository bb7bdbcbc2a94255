"""What becomes of the records of divergent tails: their classes, and the plan that an approver accepts.

A class is determined when a record is replayed, not when the plan is made: the new primary goes on writing. So a plan
says what becomes of each class, and a key that gets a newer value in the meantime is a conflict. Time alone changes no
class: the plan says up to which time records have expired, and the replay judges by that time.

That time is taken from the records, not from a clock: it is when the last of the expired ones did expire, as a whole
minute. So the same records make the same plan until another one expires, and a plan that was shown can be made again
from the records afterwards: there are as many as minutes in which one expires.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.approval.words import PlanHash, canonical, hash_of
from tanist.domain.errors import Refused
from tanist.domain.names import EpochMs, MirrorName

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.domain.tails import TopicTails

VERSION: Final = 1
MINUTE_MS: Final = 60_000
NOTHING_EXPIRED: Final = EpochMs(0)
"""The time of a plan for records of which none had expired."""


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


DEFAULT_ACTIONS: Final[Mapping[TailClass, TailAction]] = MappingProxyType({
    each: TailAction.REPLAY if each is TailClass.SAFE else TailAction.DROP for each in TailClass
})  # fmt: skip
"""What becomes of each class where nobody chooses: nothing is overwritten, and no record is deleted anywhere."""


def every_choice() -> Iterator[dict[TailClass, TailAction]]:
    """Everything that can be said about all classes."""
    for chosen in product(TailAction, repeat=len(TailClass)):
        yield dict(zip(TailClass, chosen, strict=True))


class ClassesMissing(Refused):
    name = "CLASSES_NOT_DECIDED"
    operator_action = (
        "give each class with --replay or --drop: conflict, safe, unordered, expired; or none of them, which replays "
        "what is safe and keeps the rest in quarantine; nothing was changed"
    )


class NothingToDecide(Refused):
    name = "NOTHING_TO_DECIDE"
    operator_action = "see `tanist status`; `tanist failback rescue` comes before; nothing was changed"


class DecisionUnfinished(Refused):
    name = "DECISION_UNFINISHED"
    operator_action = "finish it with `tanist failback replay NAME --plan HASH` first; nothing was changed"

    def __init__(self, plan: str, what: str) -> None:
        super().__init__(f"plan {plan} {what}")
        self.plan = plan


class DecisionApproved(Refused):
    name = "DECISION_APPROVED"
    operator_action = (
        "`tanist failback replay NAME --plan HASH` carries out the approved one, `tanist failback decide NAME` shows "
        "what would be approved now; nothing was changed"
    )

    def __init__(self, approved: str, made: str) -> None:
        super().__init__(f"plan {approved} is approved and not carried out, and the plan is now {made}")
        self.plan = approved


def classify(
    key: bytes | None, time: int, newer: Container[bytes], retention_ms: int | None, expired_at: EpochMs
) -> TailClass:
    """The class of a record. `newer`: keys that the new primary has written itself.

    `retention_ms`: None: unlimited. `expired_at`: the time by which a record has expired or not, see `DecisionPlan`.
    """
    if retention_ms is not None and time < expired_at - retention_ms:
        return TailClass.EXPIRED
    if key is None:
        return TailClass.UNORDERED
    return TailClass.CONFLICT if key in newer else TailClass.SAFE


def expiry(time: int, retention_ms: int | None) -> EpochMs | None:
    """The first whole minute by which a record of this `time` has expired (ms since 1970); None: it never does."""
    return None if retention_ms is None else EpochMs(-(-(time + retention_ms + 1) // MINUTE_MS) * MINUTE_MS)


@dataclass(frozen=True, slots=True)
class ExpiringCounts:
    """How many records have a class until they expire, and when that is; see `expiry`."""

    records: Mapping[tuple[TailClass, EpochMs | None], int]

    def at(self, expired_at: EpochMs) -> Counter[TailClass]:
        """The records by class, with those that have expired by that time."""
        found = Counter[TailClass]()
        for (each, expires), count in self.records.items():
            found[TailClass.EXPIRED if expires is not None and expires <= expired_at else each] += count
        return found


def times_of(counts: Iterable[ExpiringCounts]) -> tuple[EpochMs, ...]:
    """The times that plans for these records can have, the latest one first."""
    found = {expires for each in counts for _, expires in each.records if expires is not None}
    return tuple(sorted(found | {NOTHING_EXPIRED}, reverse=True))


def time_of(times: Iterable[EpochMs], now: EpochMs) -> EpochMs:
    """The one of `times_of` that a plan has which is made `now`."""
    return next((each for each in times if each <= now), NOTHING_EXPIRED)


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
    """What an approver accepts. `actions`: by class, all of them.

    `expired_at`: records that would have been deleted by that time are expired, all others are not, however late they
    are replayed (ms since 1970, `NOTHING_EXPIRED`: none had). None: an earlier version made the plan; the time of its
    approval counts.
    """

    mirror: MirrorName
    mirror_id: str
    source_cluster_id: str
    destination_cluster_id: str
    tails: tuple[DecidedTail, ...]
    actions: Mapping[TailClass, TailAction]
    expired_at: EpochMs | None = None

    @property
    def canonical_plan(self) -> str:
        """As canonical JSON: what an approval binds."""
        words: dict[str, Any] = {
            "mirror": self.mirror,
            "mirror_id": self.mirror_id,
            "clusters": [self.source_cluster_id, self.destination_cluster_id],
            "tails": [
                [t.topic, t.partition, t.promotion_epoch, t.begin, t.end, t.records, t.digest] for t in self.tails
            ],
            "actions": {str(name): str(action) for name, action in self.actions.items()},
        }
        if self.expired_at is not None:
            words["expired_at"] = self.expired_at
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
            expired_at=None if (time := stored.get("expired_at")) is None else EpochMs(int(time)),
        )

    def as_shown(
        self, plan_hash: str, times: Iterable[EpochMs], choices: Iterable[Mapping[TailClass, TailAction]] = ()
    ) -> DecisionPlan | None:
        """This plan with the one of these times with which it has the hash; None: it has it with none of them.

        `choices`: what may have been chosen, where nobody says it again; empty: what this plan says.
        """
        said = tuple(choices) or (self.actions,)
        made = (replace(self, expired_at=time, actions=actions) for time in times for actions in said)
        return next((each for each in made if each.hash == plan_hash), None)


def said(actions: Mapping[TailClass, TailAction], records: Mapping[TailClass, int], into: Iterable[str]) -> str:
    """For people: how many records of which classes are replayed, and how many stay in the topics `into`."""
    named = {action: [f"{records[each]} {each}" for each in TailClass if actions[each] is action and records[each]]
             for action in TailAction}  # fmt: skip
    kept = f"keep in quarantine ({', '.join(sorted(set(into)))})"
    return f"replay {_list(named[TailAction.REPLAY])}; {kept} {_list(named[TailAction.DROP])}"


def _list(named: Sequence[str]) -> str:
    return ", ".join(named) or "nothing"


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
    spec: MirrorSpec, tails: Sequence[TopicTails], actions: Mapping[TailClass, TailAction], expired_at: EpochMs
) -> DecisionPlan:
    """The plan for `tails`, which are rescued."""
    return DecisionPlan(
        mirror=spec.mirror,
        mirror_id=spec.id,
        source_cluster_id=spec.source_cluster_id,
        destination_cluster_id=spec.destination_cluster_id,
        tails=decided_tails(tails),
        actions=actions,
        expired_at=expired_at,
    )
