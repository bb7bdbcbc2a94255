"""The ends of a source's logs as workers store them: what is known of a source that does not answer any more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tanist.domain.names import (
    EpochMs,
    MirrorName,
    SourceOffset,
    SourcePartition,
)
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored, stored_since


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Last known ends of a source partition; None: unknown. `rate`: highest recent offsets per second, older ones fade.

    `log_end`: true end, up to `LOG_END_AGE_MS` older. `copied_until`: all before is copied. See also `CopiedRecord`.
    `at`: when the source last answered about this partition; None: by an earlier version, see `SourceEnds.seen`.
    `silent_since`: when a worker first asked about it in vain since then; None: it answers, or nobody has asked.
    `uncopied_at`: the first record that is not copied is of this time or later; None: none is missing, or it is not
    known. `record_bytes`: of an offset that was copied, on average.
    """

    partition: SourcePartition
    high_watermark: SourceOffset
    last_stable: SourceOffset
    rate: float = 0.0
    log_start: SourceOffset | None = None
    caught_up_at: EpochMs | None = None
    copied_until: SourceOffset | None = None
    record_until: SourceOffset | None = None
    record_epoch: int | None = None
    log_end: SourceOffset | None = None
    at: EpochMs | None = None
    silent_since: EpochMs | None = None
    uncopied_at: EpochMs | None = field(default=None, metadata=stored_since(1))
    record_bytes: float | None = field(default=None, metadata=stored_since(1))


@stored("ends", "mirror", "chunk", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEnds(MirrorRecord):
    """The last known ends of the source partitions in one state partition.

    `at`: the source has not answered about any of them before. `caught_up_at`: no copy that was ever complete was so
    before; None: as each end says. `written_at`: what an `EndsConfirmed` calls this record; 0: none names it.
    """

    mirror: MirrorName
    chunk: int
    ends: tuple[SourceEnd, ...]
    at: EpochMs
    mirror_id: str = ""
    written_at: EpochMs = field(default=EpochMs(0), metadata=stored_since(1))
    caught_up_at: EpochMs | None = field(default=None, metadata=stored_since(1))

    def seen(self, end: SourceEnd) -> EpochMs:
        """When the source last answered about `end`, which is one of `ends`."""
        return self.at if end.at is None or end.at < self.at else end.at

    def current(self, end: SourceEnd) -> SourceEnd:
        """`end`, which is one of `ends`, with the times that are known of it by now."""
        at, caught_up_at = self.seen(end), end.caught_up_at
        if caught_up_at is not None and self.caught_up_at is not None:
            caught_up_at = max(caught_up_at, self.caught_up_at)
        if (at, caught_up_at) == (end.at, end.caught_up_at):
            return end
        return replace(end, at=at, caught_up_at=caught_up_at)

    def confirmed(self, by: EndsConfirmed | None) -> SourceEnds:
        """This record with the times of `by`, where that is about it."""
        if by is None or (by.of, by.mirror_id) != (self.written_at, self.mirror_id) or by.at < self.at:
            return self
        return replace(self, at=by.at, caught_up_at=by.caught_up_at)


@stored("ends-confirmed", "mirror", "chunk", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class EndsConfirmed(MirrorRecord):
    """That the source still says of all ends of a state partition what the `SourceEnds` written at `of` has of them.

    A source at rest is confirmed with some bytes, however many partitions it has. `at`, `caught_up_at`: as there.
    """

    mirror: MirrorName
    chunk: int
    of: EpochMs
    at: EpochMs
    caught_up_at: EpochMs | None = None
    mirror_id: str = ""
