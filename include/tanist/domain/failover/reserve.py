"""The reserve of a failover: offsets that the old source may have used, or may use later, stay unused.

Nobody knows where a source ended that does not answer. Its last known end (the true end of its leader's log, if that is
above the high watermark) and its rate tell how far it may have come (`at_most`). As long as its real end is not larger,
no offset names two records, on both clusters together. A planned failover drains to the true end; but behind a near
fence, which refuses records by their size, transactional producers that try again and again go on spending offsets of
the source on the markers of their aborts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode, named
from tanist.domain.failover.facts import ESTIMATE_MS
from tanist.domain.failover.plan import Limitation
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.failover.approving import ReserveEnds
    from tanist.domain.failover.facts import Facts, PartitionFacts
    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import BrokerId
    from tanist.domain.records import CopiedUpTo

MARKERS_PER_SECOND: Final = 30_000
"""Gap markers that a leader takes (measured)."""
DEFAULT_RESERVE: Final = 10 * MARKERS_PER_SECOND
"""Offsets of each leader: ten seconds."""
NEAR_RESERVE: Final = 1_000
"""Offsets of each partition behind a near fence: one producer that is refused ten times a second takes 100 s for it."""
MARGIN_MS: Final = 1_000
"""The last known end is as old as this, or a little older, when it is recorded; and markers follow behind a fence."""
SKEW_MS: Final = 5_000
"""Of the clocks of workers and operators."""
MAY_BE_REUSED: Final = "OFFSETS_MAY_BE_REUSED"
"""The limitation that names partitions without a complete reserve."""
NOTHING_APPROVED: Final[Mapping[TopicPartition, int]] = MappingProxyType({})
MOST_RESERVED: Final = 100_000_000
"""Offsets of one leader: almost an hour."""
_AGE: Final = ESTIMATE_MS // 1000
_BUDGET: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)(ms|s|m)?")
_PER_UNIT: Final = {"ms": MARKERS_PER_SECOND / 1000, "s": MARKERS_PER_SECOND, "m": 60 * MARKERS_PER_SECOND, None: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReserve:
    """`wanted`: offsets behind the end of the copy that the source may have used; None: unknown.

    `granted`: how many are reserved, within the budget. `end`: where the reserve ends; None: where the copy ends is
    unknown. `aged`: nobody has looked at the source for `ESTIMATE_MS`, so `wanted` is an estimate from an old look.
    """

    partition: TopicPartition
    wanted: int | None
    granted: int
    end: DestinationOffset | None
    aged: bool = False

    @property
    def fits(self) -> bool:
        """Whether every offset that the source may have used, by the estimate, is reserved."""
        return self.wanted is not None and self.granted >= self.wanted

    @property
    def covered(self) -> bool:
        """Whether it fits, and the estimate rests on a recent look."""
        return self.fits and not self.aged


@dataclass(frozen=True, slots=True)
class Reserve:
    """All partitions of a plan. `seconds`: of the slowest leader."""

    partitions: tuple[PartitionReserve, ...]
    seconds: float

    @property
    def offsets(self) -> int:
        return sum(each.granted for each in self.partitions)

    @property
    def ends(self) -> ReserveEnds:
        """Where the reserves end, as an approval has them."""
        topics: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for each in self.partitions:
            if each.granted and each.end is not None:
                topics[each.partition.topic][each.partition.partition] = each.end
        return tuple((topic, tuple(ends.get(n, 0) for n in range(max(ends) + 1))) for topic, ends in topics.items())


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

    An old look makes the estimate larger, not unknown: `aged` tells how old it is.
    `dead_since`: when the source accepted its last record, as somebody attests; None: it may be alive now.
    """
    if each.foreign is not False or each.longer is not False or each.source_truncated:
        return None
    rate = each.known.rate if each.known else 0.0
    if each.live is not None:
        return SourceOffset(each.live.end + _grown(rate, MARGIN_MS))
    if each.known is None:
        return None
    until = now if dead_since is None else dead_since
    return each.known.grown(EpochMs(max(until, each.known.at) + MARGIN_MS))


def aged(each: PartitionFacts, dead_since: EpochMs | None, now: EpochMs) -> bool:
    """Whether the source may be alive and nobody has looked at it for `ESTIMATE_MS`: its rate may have risen since."""
    if each.live is not None or each.known is None or dead_since is not None:
        return False
    return now - max(each.known.at, each.looked_at or each.known.at) > ESTIMATE_MS


def reserve(intent: Intent, facts: Facts, approved: Mapping[TopicPartition, int] = NOTHING_APPROVED) -> Reserve:
    """What is reserved, within the budget of each leader.

    What was approved comes first: `approved` has the ends of these reserves, so that a run reserves no less than its
    approver has seen. Then small reserves, so that most partitions have theirs, and estimates from old looks last.
    In a planned failover, which drains to the true end, offsets are reserved only behind a near fence.
    """
    planned = intent.mode is Mode.PLANNED
    if planned and facts.source.authorizer is not False and not approved:
        return Reserve((), 0.0)
    budget = DEFAULT_RESERVE if planned else intent.reserve
    ours = frozenset(intent.partitions)
    partitions = [each for each in facts.partitions if each.partition in ours]
    wanted = {each.partition: _wanted(intent, facts, each) for each in partitions}
    old = {e.partition: not planned and aged(e, intent.dead_since, facts.now) for e in partitions}
    granted = {each.partition: 0 for each in partitions}
    left: defaultdict[BrokerId | None, int] = defaultdict(lambda: budget)

    def grant(each: PartitionFacts, offsets: int) -> None:
        more = min(max(0, offsets - granted[each.partition]), left[each.leader])
        granted[each.partition] += more
        left[each.leader] -= more

    seen = {each.partition: approved.get(each.partition, 0) - (each.end or 0) for each in partitions}
    for each in sorted(partitions, key=lambda each: (seen[each.partition], each.partition)):
        grant(each, 0 if each.end is None else seen[each.partition])
    for each in sorted(partitions, key=lambda e: (old[e.partition], wanted[e.partition] or 0, e.partition)):
        grant(each, wanted[each.partition] or 0)
    found = (
        PartitionReserve(
            partition=each.partition,
            wanted=wanted[each.partition],
            granted=granted[each.partition],
            end=None if each.end is None else DestinationOffset(each.end + granted[each.partition]),
            aged=old[each.partition],
        )
        for each in partitions
    )
    most = max((budget - rest for rest in left.values()), default=0)
    return Reserve(tuple(sorted(found, key=lambda each: each.partition)), most / MARKERS_PER_SECOND)


def reserve_words(of: Reserve) -> str:
    """For people."""
    return f"{of.offsets} offsets that the source may have used or may still use, about {of.seconds:.1f} s"


def of_reserve(
    intent: Intent, facts: Facts, approved: Mapping[TopicPartition, int] = NOTHING_APPROVED
) -> Iterator[Limitation]:
    """The limitations that concern the reserve. `approved`: as in `reserve`."""
    planned = intent.mode is Mode.PLANNED
    if not planned and intent.dead_since is not None and (seen := _seen_later(intent.dead_since, facts)):
        why = f"--source-dead-since says {intent.dead_since} ms, but the source has answered later: {named(seen, ', ')}"
        yield Limitation("SOURCE_SEEN_LATER", why, blocks=True)
    if without := [each for each in reserve(intent, facts, approved).partitions if not each.covered]:
        names = tuple(str(each.partition) for each in without)
        missing = named(map(_missing, without), ", ")
        why = (
            f"new records may get offsets that refused transactional producers still use at the source: {missing}; "
            "stop these producers first, or fail over fewer topics at a time (--topic)"
            if planned
            else f"new records may get offsets that the old source has used: {missing}; "
            "a larger --reserve, or --source-dead-since, may reserve them"
        )
        yield Limitation(MAY_BE_REUSED, why, about=names)


def named_for_age(intent: Intent, facts: Facts, approved: Mapping[TopicPartition, int]) -> frozenset[str]:
    """The partitions that `MAY_BE_REUSED` names only because nobody has looked: their estimate is reserved."""
    found = reserve(intent, facts, approved).partitions
    return frozenset(str(each.partition) for each in found if each.fits and each.aged)


def unreserved_to(each: PartitionReserve, approved: Mapping[TopicPartition, int]) -> int:
    """The destination offset up to which offsets are not reserved that the source may have used.

    0: all are reserved; -1: nobody knows how far it has come. `approved`: as in `reserve`; an end that was approved and
    is not reached any more counts, too.
    """
    if each.wanted is None or each.end is None:
        return -1
    most = max(each.end - each.granted + each.wanted, approved.get(each.partition, 0))
    return most if most > each.end else 0


def stored_gaps(copied: CopiedUpTo) -> dict[str, str]:
    """The partitions of a run past its point of no return whose reserve is not complete, with the reason."""
    return {
        str(TopicPartition(copied.topic, n)): _gap(most, copied.reserve_to[n] if copied.reserve_to else 0)
        for n, most in enumerate(copied.unreserved_to)
        if most
    }


def _gap(most: int, reserved: int) -> str:
    up_to = f"the reserve ends at offset {reserved}" if reserved else "no offset is reserved"
    if most < 0:
        return f"nobody knows how far the old source has come; {up_to}"
    return f"the old source may have used offsets up to {most}; {up_to}"


def _wanted(intent: Intent, facts: Facts, each: PartitionFacts) -> int | None:
    if intent.mode is Mode.PLANNED:
        return NEAR_RESERVE
    most = at_most(each, intent.dead_since, facts.now)
    return None if most is None or each.copied is None or each.end is None else max(0, most - each.copied)


def _grown(rate: float, ms: int) -> int:
    return ceil(rate * ms / 1000)


def _seen_later(dead_since: EpochMs, facts: Facts) -> list[str]:
    return [
        f"{each.partition} {'now' if each.live else f'at {each.known.at} ms' if each.known else ''}"
        for each in facts.partitions
        if each.live is not None or (each.known is not None and each.known.at > dead_since + SKEW_MS)
    ]


def _missing(each: PartitionReserve) -> str:
    if each.wanted is None:
        return f"{each.partition} (unknown how many)"
    if each.fits:
        return f"{each.partition} ({each.granted} reserved, but nobody has observed the source for {_AGE} s)"
    return f"{each.partition} ({each.wanted - each.granted} of {each.wanted})"
