"""What the last answer of a source is worth. A source that does not answer stands still: only its answers are looks.

The clock makes an estimate of what nobody has seen larger. It changes nothing that is approved.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Final

from tanist.domain.names import EpochMs

if TYPE_CHECKING:
    from tanist.domain.failover.facts import PartitionFacts

SKEW_MS: Final = 5_000
"""Of the clocks of workers and operators: an answer from further ahead says nothing."""
RECENT_MS: Final = 30_000
"""A last look that is not older than this, when the source fell silent or now, is usual in an unplanned failover."""


def open_until(each: PartitionFacts, dead_since: EpochMs | None, now: EpochMs) -> EpochMs:
    """Until when the source may have accepted records that nobody has seen, ms since 1970.

    `dead_since`: when the source accepted its last record, as somebody attests; None: nobody does.
    """
    ends = (end for end in (dead_since, each.fenced_since) if end is not None)
    return EpochMs(min((now, *ends)))


def is_final(each: PartitionFacts, dead_since: EpochMs | None) -> bool:
    """Whether the end that was seen last is the end of the source's records.

    It was seen after the source is attested to have died, or when a source fence was proved, or later. A source may die
    just after an answer, so one at the attested time itself says nothing.
    """
    if each.fenced_since is not None and (each.live is not None or _seen_at(each) >= each.fenced_since):
        return True
    return each.live is None and dead_since is not None and _seen_at(each) > dead_since


def is_recent(each: PartitionFacts, dead_since: EpochMs | None, now: EpochMs) -> bool:
    """Whether little can have come since the last look: the source was asked in vain soon after it, or it is recent."""
    if each.live is not None or is_final(each, dead_since):
        return True
    if each.known is None:
        return False
    until = open_until(each, dead_since, now)
    if each.known.silent_since is not None:
        until = min(until, each.known.silent_since)
    return -SKEW_MS <= until - each.known.at <= RECENT_MS


def unseen(each: PartitionFacts, dead_since: EpochMs | None, now: EpochMs, until: EpochMs) -> int:
    """Offsets that the source would use between its last answer and `until`, at its last rate; an estimate."""
    if each.known is None or is_final(each, dead_since):
        return 0
    seen = each.known.at if each.live is None else now
    ms = max(0, open_until(each, dead_since, until) - seen)
    return ceil(each.known.rate * ms / 1000)


def _seen_at(each: PartitionFacts) -> EpochMs:
    return EpochMs(-1) if each.known is None else each.known.at


def iso_time(at: EpochMs) -> str:
    """A time as `--source-dead-since` takes it: ISO 8601 in UTC, with ms."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
