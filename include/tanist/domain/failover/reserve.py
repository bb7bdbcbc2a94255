"""The reserve of a failover: offsets that the old source may have used, or may use later, stay unused.

Nobody knows where a source ended that does not answer. Its last known end (the true end of its leader's log, if that is
above the high watermark) and its rate tell how far it may have come (`at_most`). As long as its real end is not larger,
no offset names two records, on both clusters together. A planned failover drains to the true end; but behind a near
fence, which refuses records by their size, transactional producers that try again and again go on spending offsets of
the source on the markers of their aborts.

The reserve is best effort. Its budget is approved; its size is decided once, directly before the point of no return.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode, named
from tanist.domain.failover.facts import SKEW_MS, TransactionalProducers, is_final, open_until
from tanist.domain.limitation import Limitation
from tanist.domain.names import DestinationOffset, EpochMs, MirrorPartition, SourceOffset, iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tanist.domain.failover.facts import Facts, PartitionFacts
    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import BrokerId

MARKERS_PER_SECOND: Final = 30_000
"""Gap markers that a leader takes (measured)."""
DEFAULT_RESERVE: Final = 10 * MARKERS_PER_SECOND
"""Offsets of each leader: ten seconds."""
NEAR_RESERVE: Final = 1_000
"""Offsets of a partition behind a near fence that transactional producers write to: one that is refused ten times a
second takes 100 s for it."""
NEAR_SECONDS: Final = 3.0
"""By the clock, for the reserves of all partitions behind near fences: clients are refused on both sides meanwhile."""
UNSEEN_RESERVE: Final = 200
"""Offsets of each partition whose end nobody saw, as far as the budget lasts: an idle one may have got records.

And of each one behind a near fence that no transactional producer is known to write to, while the source knows some.
"""
MARGIN_MS: Final = 1_000
"""The last known end is as old as this, or a little older, when it is recorded; and markers follow behind a fence."""
MAY_BE_REUSED: Final = "OFFSETS_MAY_BE_REUSED"
"""The limitation that names partitions of which it is unknown how far the source has come, and near fences."""
SEEN_LATER: Final = "SOURCE_SEEN_LATER"
COMPLETE, ALL, UNKNOWN = -1, -2, -3
"""Of `PartitionReserve.covers_ms`, beside times."""
MOST_RESERVED: Final = 100_000_000
"""Offsets of one leader: almost an hour."""
HOUR_MS: Final = 3_600_000
"""What lasts longer is not told apart."""
_NEAR: Final = {
    TransactionalProducers.NONE: 0,
    TransactionalProducers.ELSEWHERE: UNSEEN_RESERVE,
    TransactionalProducers.HERE: NEAR_RESERVE,
    TransactionalProducers.UNKNOWN: NEAR_RESERVE,
}
_BUDGET: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)(ms|s|m)?")
_PER_UNIT: Final = {"ms": MARKERS_PER_SECOND / 1000, "s": MARKERS_PER_SECOND, "m": 60 * MARKERS_PER_SECOND, None: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReserve:
    """`wanted`: offsets behind the end of the copy that the source may have used; None: unknown.

    `granted`: how many are reserved, within the budget. `end`: where the reserve ends; None: where the copy ends is
    unknown. `final`: the end of the source was seen, so the estimate is none. `rate`: of the source when it was seen
    last, offsets per second. `seen`: offsets of `wanted` that the source had used then.
    """

    partition: MirrorPartition
    wanted: int | None
    granted: int
    end: DestinationOffset | None
    final: bool = False
    rate: float = 0.0
    seen: int = 0

    def with_grant(self, offsets: int) -> PartitionReserve:
        """The same, with `offsets` granted; nothing was before."""
        return replace(self, granted=offsets, end=None if self.end is None else DestinationOffset(self.end + offsets))

    @property
    def fits(self) -> bool:
        """Whether every offset that the source may have used, by the estimate, is reserved."""
        return self.wanted is not None and self.granted >= self.wanted

    @property
    def complete(self) -> bool:
        """Whether no offset can name two records: it fits, and the end of the source was seen."""
        return self.fits and self.final

    @property
    def covers_ms(self) -> int:
        """How long after its last answer the source may have continued at its rate, for the reserve to suffice.

        COMPLETE: its end was seen. ALL: it accepted no records when it answered last. UNKNOWN: how far it has come.
        """
        if self.wanted is None:
            return UNKNOWN
        if self.complete:
            return COMPLETE
        if self.rate <= 0:
            return ALL if self.fits else 0
        return max(0, int((self.granted - self.seen) / self.rate * 1000))


@dataclass(frozen=True, slots=True)
class Reserve:
    """All partitions of a plan. `near`: behind a near fence, which is no estimate.

    `seconds`: at the rate that was measured at the last failover of the mirror; else of the slowest leader.

    `lasts_ms`: how long after its last answer the source may have continued at its rate for the budget to suffice, at
    the leader where it lasts shortest; an hour: that or longer. Unlike an estimate it does not grow with time.
    """

    partitions: tuple[PartitionReserve, ...]
    seconds: float
    near: bool = False
    lasts_ms: int = HOUR_MS

    @property
    def offsets(self) -> int:
        return sum(each.granted for each in self.partitions)


def budget_of(text: str) -> int:
    """The offsets that each leader may spend: `none`, a time (`10s`: as many as it takes in that time), or a number.

    Raises:
        ValueError: it is none of them.
    """
    words = text.strip()
    if words == "none":
        return 0
    match = _BUDGET.fullmatch(words)
    offsets = ceil(float(match[1]) * _PER_UNIT[match[2]]) if match else -1
    if not 0 < offsets <= MOST_RESERVED:
        raise ValueError(f"{text!r} is not a reserve: none, a time (10s, 500ms, 1m) or a number up to {MOST_RESERVED}")
    return offsets


def time_of(text: str) -> EpochMs:
    """A time in ISO 8601, with its zone.

    Raises:
        ValueError: it is not one.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(f"{text!r} is not a time with its zone, as 2026-11-23T02:14:00Z")
    return EpochMs(round(found.timestamp() * 1000))


def at_most(each: PartitionFacts, dead_since: EpochMs | None, now: EpochMs) -> SourceOffset | None:
    """The offset up to which the source may have used offsets; None: unknown.

    An old look makes the estimate larger, not unknown. `dead_since`: when the source accepted its last record, as
    somebody attests; None: it may be alive now.
    """
    if each.foreign is not False or each.longer is not False or each.source_truncated:
        return None
    rate = each.known.rate if each.known else 0.0
    if each.live is not None:
        return SourceOffset(each.live.end + _grown(rate, MARGIN_MS))
    if each.known is None:
        return None
    return each.known.grown(EpochMs(max(open_until(each, dead_since, now), each.known.at) + MARGIN_MS))


def reserve(intent: Intent, facts: Facts) -> Reserve:
    """What is reserved, within the budget of each leader, whose partitions share it as `_granted` says.

    In a planned failover, which drains to the true end, offsets are reserved only behind a near fence. With mapped
    offsets none are: an offset of the copy never named a record of the source.
    """
    if facts.is_mapped:
        return Reserve((), 0.0)
    planned = intent.mode is Mode.PLANNED
    ours = frozenset(at for at in intent.partitions if not planned or facts.source.fences_near(at.topic))
    if planned and not ours:
        return Reserve((), 0.0)
    budget = DEFAULT_RESERVE if planned else intent.reserve
    leaders: defaultdict[BrokerId | None, list[PartitionReserve]] = defaultdict(list)
    for each in sorted(facts.partitions, key=lambda each: each.partition):
        if each.partition in ours:
            leaders[each.leader].append(_nothing_granted(intent, facts, each))
    shares = [_granted(wanted, budget) for wanted in leaders.values()]
    most = max((sum(each.granted for each in share) for share in shares), default=0)
    found = sorted((each for share in shares for each in share), key=lambda each: each.partition)
    lasts = min((_lasts(wanted, budget) for wanted in leaders.values()), default=HOUR_MS)
    measured = facts.markers_per_second
    seconds = sum(each.granted for each in found) / measured if measured else most / MARKERS_PER_SECOND
    return Reserve(tuple(found), seconds, near=planned, lasts_ms=lasts)


def _nothing_granted(intent: Intent, facts: Facts, each: PartitionFacts) -> PartitionReserve:
    planned, wanted = intent.mode is Mode.PLANNED, _wanted(intent, facts, each)
    return PartitionReserve(
        partition=each.partition,
        wanted=wanted,
        granted=0,
        end=None if each.end is None else DestinationOffset(each.end),
        final=wanted == 0 if planned else is_final(each, intent.dead_since),
        rate=0.0 if planned or each.known is None else each.known.rate,
        seen=0 if planned else min(wanted or 0, _seen(each)),
    )


def _granted(wanted: Sequence[PartitionReserve], budget: int) -> list[PartitionReserve]:
    """The partitions of one leader with their shares of its budget.

    What the source was seen to use comes first, small shares before large ones. Then all partitions have what it would
    use in the same time after that; what is left of the budget goes to the smallest. Last comes `UNSEEN_RESERVE`.
    """
    left, grants = budget, {each.partition: 0 for each in wanted}

    def grant(target: Callable[[PartitionReserve], int]) -> None:
        nonlocal left
        for each in sorted(wanted, key=lambda each: (target(each), each.partition)):
            more = min(max(0, target(each) - grants[each.partition]), left)
            grants[each.partition] += more
            left -= more

    grant(lambda each: each.seen)
    ms = _longest(wanted, grants, left)
    grant(lambda each: min(each.wanted or 0, each.seen + int(each.rate * ms / 1000)))
    grant(lambda each: each.wanted or 0)
    grant(lambda each: 0 if each.final or each.wanted is None else max(each.wanted, UNSEEN_RESERVE))
    return [each.with_grant(grants[each.partition]) for each in wanted]


def _longest(wanted: Sequence[PartitionReserve], grants: Mapping[MirrorPartition, int], budget: int) -> int:
    """For how many ms the budget covers what the source would use at the rates of all partitions, up to an hour."""

    def needed(ms: int) -> int:
        return sum(
            max(0, min(each.wanted or 0, each.seen + int(each.rate * ms / 1000)) - grants[each.partition])
            for each in wanted
        )

    return _most_ms(needed, budget)


def _lasts(wanted: Sequence[PartitionReserve], budget: int) -> int:
    """For how many ms the budget of a leader lasts, whatever the estimate says by now, up to an hour."""

    def needed(ms: int) -> int:
        return sum((each.wanted or 0) if each.final else each.seen + int(each.rate * ms / 1000) for each in wanted)

    return _most_ms(needed, budget)


def _most_ms(needed: Callable[[int], int], budget: int) -> int:
    low, high = 0, HOUR_MS
    if needed(high) <= budget:  # nearly always: of thousands of partitions each try is work
        return high
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed(middle) <= budget else (low, middle - 1)
    return low


def reserve_words(of: Reserve) -> str:
    """For people: an estimate, and how long the budget lasts."""
    offsets = f"{of.offsets} offsets that the source may have used or may still use"
    times = [each.covers_ms for each in of.partitions]
    if of.near and not of.offsets:
        return "nothing: the source knows no transactional producer"
    if of.near:
        return f"{offsets}; producers that a near fence refuses may use more"
    if UNKNOWN in times:
        return f"{offsets}; how far the source has come is unknown for {times.count(UNKNOWN)} partition(s)"
    if times and all(ms == COMPLETE for ms in times):
        return f"{offsets}; the end of the source was seen"
    lasts = "an hour or more" if of.lasts_ms == HOUR_MS else f"the first {of.lasts_ms / 1000:.0f} s"
    return f"{offsets}; an estimate; the budget lasts for {lasts} after its last answer" if times else offsets


def of_reserve(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """The limitations that concern the reserve: what nobody knows. What an estimate says is forecast."""
    planned = intent.mode is Mode.PLANNED
    if not planned and intent.dead_since is not None and (seen := _seen_later(intent.dead_since, facts)):
        last = max(each.known.at for each in facts.partitions if each.known)
        why = (
            f"--source-dead-since says {iso_time(intent.dead_since)}, but the source has answered later: "
            f"{named(seen, ', ')}; give --source-dead-since {iso_time(last)}, or leave it out"
        )
        yield Limitation(SEEN_LATER, why, blocks=True)
    if planned:
        without = [each.partition for each in reserve(intent, facts).partitions if not each.fits]
    else:  # which offsets are wanted does not depend on the budget, so nothing is shared out
        ours = frozenset(() if facts.is_mapped else intent.partitions)
        asked = [each for each in facts.partitions if each.partition in ours]
        without = sorted(each.partition for each in asked if _wanted(intent, facts, each) is None)
    if without:
        missing = named(without, ", ")
        why = (
            f"new records may get offsets that refused transactional producers still use at the source: {missing}; "
            "stop these producers first, or fail over fewer topics at a time (--topic)"
            if planned
            else f"new records may get offsets that the old source has used; how far it has come is unknown: {missing}"
        )
        yield Limitation(MAY_BE_REUSED, why, about=tuple(map(str, without)))


def unreserved_to(each: PartitionReserve) -> int:
    """The destination offset up to which offsets are not reserved that the source may have used, by the estimate.

    0: all are reserved; -1: nobody knows how far it has come.
    """
    if each.wanted is None or each.end is None:
        return -1
    most = each.end - each.granted + each.wanted
    return most if most > each.end else 0


def covers(ms: int) -> str:
    """What a reserve covers, for people. `ms`: `PartitionReserve.covers_ms`."""
    if ms == COMPLETE:
        return "the end of the source was seen"
    if ms == UNKNOWN:
        return "how long it covers the source is not known"
    if ms == ALL:
        return "the source accepted no records when it answered last"
    return f"covers the first {ms / 1000:.0f} s after its last answer"


def _wanted(intent: Intent, facts: Facts, each: PartitionFacts) -> int | None:
    if intent.mode is Mode.PLANNED:
        return _NEAR[each.transactional]
    most = at_most(each, intent.dead_since, facts.now)
    return None if most is None or each.copied is None or each.end is None else max(0, most - each.copied)


def _grown(rate: float, ms: int) -> int:
    return ceil(rate * ms / 1000)


def _seen(each: PartitionFacts) -> int:
    """Offsets behind the copy that the source had used when it answered last."""
    end = each.live.end if each.live else max(each.known.high_watermark, each.known.log_end or 0) if each.known else 0
    return max(0, end - (each.copied or 0))


def _seen_later(dead_since: EpochMs, facts: Facts) -> list[str]:
    """By what is on record: a source that answers again does not contradict it before its answer is."""
    late = (each for each in facts.partitions if each.known is not None and each.known.at > dead_since + SKEW_MS)
    return [f"{each.partition} at {iso_time(each.known.at)}" for each in late if each.known is not None]
