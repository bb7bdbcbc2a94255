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
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode, named
from tanist.domain.failover.facts import ESTIMATE_MS
from tanist.domain.failover.plan import Limitation
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.failover.facts import Facts, PartitionFacts
    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import BrokerId, TopicPartition

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
MOST_RESERVED: Final = 100_000_000
"""Offsets of one leader: almost an hour."""
_BUDGET: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)(ms|s|m)?")
_PER_UNIT: Final = {"ms": MARKERS_PER_SECOND / 1000, "s": MARKERS_PER_SECOND, "m": 60 * MARKERS_PER_SECOND, None: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReserve:
    """`wanted`: offsets behind the end of the copy that the source may have used; None: unknown.

    `granted`: how many of them the budget allows. `end`: where the reserve ends; None: where the copy ends is unknown.
    """

    partition: TopicPartition
    wanted: int | None
    granted: int
    end: DestinationOffset | None

    @property
    def fits(self) -> bool:
        """Whether every offset that the source may have used is reserved."""
        return self.wanted == self.granted


@dataclass(frozen=True, slots=True)
class Reserve:
    """All partitions of a plan. `seconds`: of the slowest leader."""

    partitions: tuple[PartitionReserve, ...]
    seconds: float

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

    `dead_since`: when it accepted its last record, as somebody attests; None: it may be alive now.
    """
    if each.foreign is not False or each.longer is not False or each.source_truncated:
        return None
    rate = each.known.rate if each.known else 0.0
    if each.live is not None:
        return SourceOffset(each.live.end + _grown(rate, MARGIN_MS))
    if each.known is None:
        return None
    if dead_since is None and now - max(each.known.at, each.looked_at or each.known.at) > ESTIMATE_MS:
        return None
    until = now if dead_since is None else dead_since
    return each.known.grown(EpochMs(max(until, each.known.at) + MARGIN_MS))


def reserve(intent: Intent, facts: Facts) -> Reserve:
    """What is reserved, within the budget of each leader: small reserves first, so that most partitions have theirs.

    In a planned failover, which drains to the true end, only behind a near fence.
    """
    planned = intent.mode is Mode.PLANNED
    if planned and facts.source.authorizer is not False:
        return Reserve((), 0.0)
    budget = DEFAULT_RESERVE if planned else intent.reserve
    ours = frozenset(intent.partitions)
    wanted = {each.partition: _wanted(intent, facts, each) for each in facts.partitions if each.partition in ours}
    left: defaultdict[BrokerId | None, int] = defaultdict(lambda: budget)
    found = []
    for each in sorted(facts.partitions, key=lambda each: (wanted.get(each.partition) or 0, each.partition)):
        if each.partition in ours:
            granted = min(wanted[each.partition] or 0, left[each.leader])
            left[each.leader] -= granted
            end = None if each.end is None else DestinationOffset(each.end + granted)
            found.append(
                PartitionReserve(partition=each.partition, wanted=wanted[each.partition], granted=granted, end=end)
            )
    most = max((budget - rest for rest in left.values()), default=0)
    return Reserve(tuple(sorted(found, key=lambda each: each.partition)), most / MARKERS_PER_SECOND)


def reserve_words(of: Reserve) -> str:
    """For people."""
    return f"{of.offsets} offsets that the source may have used or may still use, about {of.seconds:.1f} s"


def of_reserve(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """The limitations that concern the reserve."""
    planned = intent.mode is Mode.PLANNED
    if not planned and intent.dead_since is not None and (seen := _seen_later(intent.dead_since, facts)):
        why = f"--source-dead-since says {intent.dead_since} ms, but the source has answered later: {named(seen, ', ')}"
        yield Limitation("SOURCE_SEEN_LATER", why, blocks=True)
    if without := [each for each in reserve(intent, facts).partitions if not each.fits]:
        names = tuple(str(each.partition) for each in without)
        missing = named(map(_missing, without), ", ")
        why = (
            f"new records may get offsets that refused transactional producers still use at the source: {missing}; "
            "stop these producers first, or fail over fewer topics at a time (--topic)"
            if planned
            else f"new records may get offsets that the old source has used: {missing}; "
            "a larger --reserve, or --source-dead-since, may reserve them"
        )
        yield Limitation("OFFSETS_MAY_BE_REUSED", why, about=names)


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
    return f"{each.partition} ({each.wanted - each.granted} of {each.wanted})"
