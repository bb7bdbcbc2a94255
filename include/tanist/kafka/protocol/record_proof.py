"""Whether two positions, one in the source's log and one in its copy, are before the same record. Bytes decide.

What a reader gets at a position is the first record at or after it that is neither a marker nor aborted. A copy made
batch by batch has the same batch there, byte for byte behind its header, and the record has the same place in it. Where
batches were cut otherwise (small ones merged, compaction, another engine) the records themselves are compared.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.copying import AbortedTransaction
from tanist.domain.errors import TanistError
from tanist.domain.translation import Proof
from tanist.kafka.protocol.batch import HEADER_SIZE, BatchHeader, ControlType, control_type, same_records, walk
from tanist.kafka.protocol.compression import decompressed
from tanist.kafka.protocol.record_set import Record, records_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class RecordFound(NamedTuple):
    """The batch that holds what is read at `position`."""

    position: int
    header: BatchHeader
    batch: memoryview

    @property
    def record(self) -> int:
        """How many offsets of the batch lie before the position."""
        return max(0, self.position - self.header.base_offset)


class RecordSeen(NamedTuple):
    """The batches that a reader of committed records sees; `until`: the offset behind the whole fetch (None: empty)."""

    batches: list[tuple[BatchHeader, memoryview]]
    until: int | None

    def find(self, position: int) -> RecordFound | None:
        """What is read at `position`, which must not lie before the fetch."""
        hit = next(((header, batch) for header, batch in self.batches if header.last_offset >= position), None)
        return None if hit is None else RecordFound(position, *hit)


def visible(records: memoryview, aborted: Iterable[tuple[int, int]]) -> RecordSeen:
    """What a fetch of committed records has brought; `aborted` as its answer tells it.

    Raises:
        CorruptBatch, UnsupportedBatch: as `walk`.
    """
    seen: list[tuple[BatchHeader, memoryview]] = []
    until = None
    for header, batch, is_seen in judged(walk(records), aborted):
        until = header.next_offset
        if is_seen:
            seen.append((header, batch))
    return RecordSeen(seen, until)


def judged(
    batches: Iterable[tuple[BatchHeader, memoryview]], aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
    """Each batch of one fetch, and whether a reader of committed records sees it; `aborted` as the answer tells it."""
    begins = sorted((AbortedTransaction(*each) for each in aborted), key=lambda each: each.first_offset, reverse=True)
    open_ids: set[int] = set()
    for header, batch in batches:
        while begins and begins[-1].first_offset <= header.last_offset:
            open_ids.add(begins.pop().producer_id)
        if header.is_control and control_type(batch) is ControlType.ABORT:
            open_ids.discard(header.producer_id)
        aborts = header.is_transactional and header.producer_id in open_ids
        yield header, batch, not (header.is_control or aborts)


class Comparer:
    """Compares positions of two logs. Of each log it keeps the last batch: neighbours, in order, share its records."""

    def __init__(self) -> None:
        self._ours, self._theirs = _Decoded(), _Decoded()

    def compare(self, source: RecordFound, copy: RecordFound) -> tuple[Proof, str]:
        """Whether both readers get the same record next, and what was seen.

        Raises:
            CorruptBatch, UnsupportedBatch.
        """
        if same_records(source.batch, copy.batch):
            if source.record == copy.record:
                return Proof.MATCH, f"record {source.record} of the same batch"
            return (
                Proof.MISMATCH,
                f"the same batch, but record {source.record} of it here and record {copy.record} there",
            )
        ours, theirs = self._ours.record(source), self._theirs.record(copy)
        if ours is None or theirs is None:
            return Proof.NONE, "compaction removed the record"
        if ours.same(theirs):
            return Proof.MATCH, "the same record, in differently split batches"
        if ours.offset - source.position != theirs.offset - copy.position:
            return Proof.NONE, "compaction removed the record from one of both logs"
        why = f"destination offset {theirs.offset} and source offset {ours.offset} hold different records"
        return Proof.MISMATCH, why

    def are_held(self, source: RecordFound, copy: RecordFound) -> bool:
        """Whether each log holds a record at the position itself. Raises CorruptBatch, UnsupportedBatch."""
        records = (self._ours.record(source), source), (self._theirs.record(copy), copy)
        return all(record is not None and record.offset == found.position for record, found in records)


class _Decoded:
    """The records of one batch, as far as they were needed."""

    def __init__(self) -> None:
        self._batch: memoryview | None = None
        self._rest: Iterator[Record] = iter(())
        self._records: list[Record] = []

    def record(self, found: RecordFound) -> Record | None:
        """The record that is read at the position; None: the batch has none there. Raises as `Comparer.compare`."""
        if found.batch is not self._batch:
            self._batch, self._records = None, []
            self._rest = records_in(found.header, decompressed(found.header.codec, found.batch[HEADER_SIZE:]))
        try:
            while not self._records or self._records[-1].offset < found.position:
                self._records.append(next(self._rest))
        except StopIteration:
            pass
        except TanistError:
            self._batch = None  # what is broken is read, and refused, again
            raise
        self._batch = found.batch
        index = bisect_left(self._records, found.position, key=lambda record: record.offset)
        return self._records[index] if index < len(self._records) else None
