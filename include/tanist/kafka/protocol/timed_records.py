"""The records of a fetch with their timestamps and digests, and where markers and cleaned records leave holes."""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.names import EpochMs
from tanist.domain.record_times import TimedRecord, TimestampType
from tanist.kafka.protocol.batch import walk
from tanist.kafka.protocol.record_proof import judged
from tanist.kafka.protocol.records_left import records_left

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.kafka.protocol.batch import BatchHeader

_TIME: Final = Struct(">q")
_DIGEST_BYTES: Final = 16


class TimedBatch(NamedTuple):
    """One batch. `visible`: readers of committed records see it; a marker has no records here.

    `dense`: none of its records was cleaned away.
    """

    base: int
    next_offset: int
    visible: bool
    dense: bool
    records: tuple[TimedRecord, ...]


def timed_batches(records: memoryview, aborted: Iterable[tuple[int, int]]) -> Iterator[TimedBatch]:
    """All batches of one fetch; `aborted` as its answer tells it (none: all are visible).

    Raises:
        CorruptBatch, UnsupportedBatch: as `walk` and `records_left`.
    """
    for header, batch, is_seen in judged(walk(records), aborted):
        found = () if header.is_control else tuple(_timed(header, batch))
        yield TimedBatch(header.base_offset, header.next_offset, is_seen, header.is_control or header.is_dense, found)


def visible(batches: Iterable[TimedBatch], begin: int) -> Iterator[TimedRecord]:
    """The records at or after `begin` that readers of committed records see."""
    return (each for batch in batches if batch.visible for each in batch.records if each.offset >= begin)


def _timed(header: BatchHeader, batch: memoryview) -> Iterator[TimedRecord]:
    """A record of a topic with LogAppendTime has the time of its batch (DefaultRecordBatch)."""
    stamped = header.is_log_append_time
    kind = TimestampType.LOG_APPEND if stamped else TimestampType.CREATE
    for each in records_left(header, batch):
        time = header.max_timestamp if stamped else header.base_timestamp + each.time
        digest = blake2b(_TIME.pack(time) + each.rest, digest_size=_DIGEST_BYTES).digest()
        yield TimedRecord(each.offset, EpochMs(time), digest, kind)
