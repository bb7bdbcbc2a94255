"""The ends of a source's logs as workers store them: what is known of a source that does not answer any more."""

from __future__ import annotations

from dataclasses import dataclass, field

from tanist.domain.names import (  # noqa: TC001 -- the codec reads the annotations
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
    """The last known ends of the source partitions in one state partition. `at`: the oldest of their times."""

    mirror: MirrorName
    chunk: int
    ends: tuple[SourceEnd, ...]
    at: EpochMs
    mirror_id: str = ""

    def seen(self, end: SourceEnd) -> EpochMs:
        """When the source last answered about `end`, which is one of `ends`."""
        return self.at if end.at is None else end.at
