"""The lag of a mirror partition, in source offsets, and the last known end of its source."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Diverged, ForeignWrite, SourceTruncated
from tanist.domain.lag_amounts import lag_text, longest, total
from tanist.domain.losses import OnLoss, UncopiedRecordsDeleted
from tanist.domain.names import EpochMs, SourceOffset
from tanist.domain.offset_map import OffsetMap
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.losses import LostOffsets, TombstonesMissed
    from tanist.domain.names import DestinationOffset, MirrorName, MirrorPartition, SourcePartition
    from tanist.domain.records import MirrorSpec, PartitionObserved
    from tanist.domain.source_ends import SourceEnd
    from tanist.domain.state_view import StateView
    from tanist.domain.states import DesiredState

DETACHED_STATE: Final = "DETACHED"
"""What a partition of a detached topic is shown as: none of the state machine, as no worker looks after it."""
FOLLOWED_STATE: Final = "FOLLOWED"
"""What a partition is shown as that somebody else copies."""
LOG_END_AGE_MS: Final = 5_000
"""How much older the true end of a log may be that is recorded with a high watermark."""
_NO_COPY: Final = frozenset({ForeignWrite.name, Diverged.name, SourceTruncated.name})


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """The source's high watermark, and when the source last answered about this partition (`at`).

    `rate`: its growth until then, offsets per second. `log_start`: the source's log start offset then; None: not
    recorded. `log_end`: the true end of its leader's log, up to `LOG_END_AGE_MS` before; None: not recorded.
    `silent_since`: when a worker first asked in vain since `at`; None: it answers, or nobody has asked.
    `uncopied_at`: what a worker has not copied is of this time or later. `record_bytes`: of an offset that it has
    copied, on average. None: not recorded.
    """

    high_watermark: SourceOffset
    at: EpochMs
    rate: float = 0.0
    log_start: SourceOffset | None = None
    log_end: SourceOffset | None = None
    silent_since: EpochMs | None = None
    uncopied_at: EpochMs | None = None
    record_bytes: float | None = None

    def grown(self, until: EpochMs) -> SourceOffset:
        """How far the log may have come by `until`, at the rate that it had; never below what was seen."""
        missed = max(0, until - self.at)
        ends = [self.high_watermark + ceil(self.rate * missed / 1000)]
        if self.log_end is not None and self.log_end > self.high_watermark:
            ends.append(self.log_end + ceil(self.rate * (missed + LOG_END_AGE_MS) / 1000))
        return SourceOffset(max(ends))


@dataclass(frozen=True, slots=True)
class KnownLag:
    """The lag of a partition in offsets, as a `PartitionRow` had it, with what makes its size and its age.

    None: not known.
    """

    offsets: int | None = None
    source: KnownEnd | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One line of `tanist mirrors describe`; None where unknown. `error`: why an offset is."""

    mirror: MirrorName
    partition: MirrorPartition
    desired: DesiredState
    state: MirrorState
    source: KnownEnd | None
    destination_end: DestinationOffset | None
    observed: PartitionObserved | None
    map: OffsetMap = field(default_factory=OffsetMap)
    lost: LostOffsets | None = None
    """What the source deleted before it was copied; None: nothing."""
    source_error: str | None = None
    destination_error: str | None = None
    tombstones_missed: TombstonesMissed | None = None
    log_append_time: bool = False
    """The source's brokers stamp its records; the copy has the producers' times."""

    resume_requested: bool = False
    """A person has resumed it after it FAILED, or accepted the loss it FAILED for, and no worker has followed since."""
    detached: str = ""
    """Why it is in no mirror: its topic was detached; empty: it is in one."""
    followed: str = ""
    """Who copies it, and what is wrong with the copy; empty: Tanist copies it."""
    at_source: SourcePartition | None = None
    """Its name at the source; None: the same."""

    @property
    def shown_state(self) -> str:
        """Its state for people and machines."""
        return FOLLOWED_STATE if self.followed else DETACHED_STATE if self.detached else str(self.state)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The names of what differs between source and copy although the partition is copied."""
        return (
            *((self.tombstones_missed.name,) if self.tombstones_missed else ()),
            *(("LOG_APPEND_TIME_NOT_COPIED",) if self.log_append_time else ()),
        )

    @property
    def lag(self) -> int | None:
        """Offsets of the source that are not copied yet; None also for a log that is not identical any more.

        Nor of what somebody else copies: how its offsets relate to those of the source is another question.
        """
        if self.followed:
            return None
        seen = self.observed
        if seen is not None and seen.state_of_copy is MirrorState.FAILED and seen.error in _NO_COPY:
            return None
        return lag(self.source, self.destination_end, self.map)

    @property
    def unread(self) -> str:
        """Why it is not known how far a copy is that has offsets of its own; empty: it is, or it has no record."""
        return self.map.unread if self.destination_end else ""

    @property
    def lag_ms(self) -> int | None:
        """How old the first record that is not copied is at most, when the source last answered; 0: none is missing."""
        return self.lag and lag_ms(self.source, self.source.at if self.source else EpochMs(0))

    @property
    def lag_bytes(self) -> int | None:
        """Its lag in bytes, estimated by what was copied of it; 0: nothing is missing."""
        return self.lag and lag_bytes(self.lag, self.source)

    @property
    def mode(self) -> str:
        """`identical`, or `mapped` and by how many offsets it is ahead at its end; or `unknown`."""
        return "unknown" if self.followed else mode(self.destination_end, self.map)


@dataclass(frozen=True, slots=True)
class RowCounts:
    """`states`: how many partitions are in each state, by name. `lag`: the sum of what is known, in offsets."""

    states: Mapping[str, int]
    lag: int
    unknown: int
    """Partitions whose lag is not in the sum, because nobody knows it."""
    bytes: int | None = 0
    """The same in bytes, estimated; None: not known of any that lags."""
    ms: int | None = 0
    """How old the first record that is not copied is at most; None: not known of any that lags."""

    def __str__(self) -> str:
        states = ", ".join(f"{count:,} {state}" for state, count in self.states.items()) or "none"
        least = f", unknown for {self.unknown:,}" if self.unknown else ""
        return f"{states}; lag {lag_text(self.lag, self.bytes, self.ms)}{least}"


def counted(rows: Collection[PartitionRow]) -> RowCounts:
    """The states of `rows`, in the order of their names, and their lag."""
    states = MappingProxyType(dict(sorted(Counter(row.shown_state for row in rows).items())))
    behind = [row for row in rows if row.lag]
    return RowCounts(
        states,
        sum(row.lag or 0 for row in rows),
        sum(row.lag is None for row in rows),
        total(row.lag_bytes for row in behind),
        longest(row.lag_ms for row in behind),
    )


def lag_ms(source: KnownEnd | None, now: EpochMs) -> int | None:
    """How old the first record that is not copied is at most, of a partition that lags. None: not known."""
    if source is None or source.uncopied_at is None or not now:
        return None
    return max(0, now - source.uncopied_at)


def lag_bytes(offsets: int, source: KnownEnd | None) -> int | None:
    """So many offsets in bytes, by the average of those that were copied. None: no worker has copied any."""
    return None if source is None or source.record_bytes is None else round(offsets * source.record_bytes)


def asked_again(known: KnownEnd | None, high_watermark: SourceOffset, at: EpochMs) -> KnownEnd:
    """The end that the source has just reported, with what workers have recorded of the partition."""
    if known is None:
        return KnownEnd(high_watermark, at)
    return KnownEnd(high_watermark, at, uncopied_at=known.uncopied_at, record_bytes=known.record_bytes)


def lag(source: KnownEnd | None, destination_end: DestinationOffset | None, offsets: OffsetMap) -> int | None:
    """Offsets behind, never negative: the mirror partition may have been read after the source.

    None also where it is not known how far a copy is that has offsets of its own, unless its log is empty.
    """
    if source is None or destination_end is None or (offsets.unread and destination_end > 0):
        return None
    return max(0, source.high_watermark - offsets.origin(destination_end))


def mode(destination_end: DestinationOffset | None, offsets: OffsetMap) -> str:
    """`identical` or `mapped(+3)`, at the end of the log (at the last range if that is unknown).

    `mapped` of a mirror whose offsets are never identical, though they may be the same ones now.
    """
    if not offsets.runs:
        return "mapped" if offsets.is_mapped else "identical"
    shift = offsets.runs[-1].shift
    if destination_end is not None:
        shift = offsets.shift_at(offsets.origin(destination_end))
    return f"mapped({shift:+d})" if shift or offsets.is_mapped else "identical"


def is_loss_accepted(spec: MirrorSpec, observed: PartitionObserved) -> bool:
    """Whether the mirror is now allowed to continue after what a partition FAILED for, and no worker has followed."""
    failed = observed.state is MirrorState.FAILED and observed.error == UncopiedRecordsDeleted.name
    return failed and spec.on_loss is OnLoss.CONTINUE


def last_known(view: StateView, mirror: MirrorName) -> dict[SourcePartition, KnownEnd]:
    """The source's ends as the workers last recorded them, each with the time of the source's last answer about it."""
    latest: dict[SourcePartition, KnownEnd] = {}
    for record in view.source_ends(mirror):
        for end in record.ends:
            seen = record.seen(end)
            if end.partition not in latest or latest[end.partition].at < seen:
                latest[end.partition] = KnownEnd(
                    end.high_watermark,
                    seen,
                    end.rate,
                    end.log_start,
                    end.log_end,
                    end.silent_since,
                    _uncopied_at(end, seen),
                    end.record_bytes,
                )
    return latest


def _uncopied_at(end: SourceEnd, seen: EpochMs) -> EpochMs | None:
    """What was complete when the source answered lacks later records only."""
    if end.uncopied_at is not None:
        return end.uncopied_at
    return seen if end.copied_until is not None and end.copied_until >= end.last_stable else None
