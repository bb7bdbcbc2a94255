"""Whether two positions, one in the source's log and one in its copy, are before the same record. Bytes decide.

What a reader gets at a position is the first record at or after it that is neither a marker nor aborted. A copy made
batch by batch has the same batch there, byte for byte behind its header, and the record has the same place in it. Where
batches were cut otherwise (small ones merged, compaction, another engine) the records themselves are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.copying import AbortedTransaction
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

    @property
    def is_held(self) -> bool:
        """Whether the log holds a record at the position itself. Raises CorruptBatch, UnsupportedBatch."""
        record = _record(self)
        return record is not None and record.offset == self.position


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


def compare(source: RecordFound, copy: RecordFound) -> tuple[Proof, str]:
    """Whether both readers get the same record next, and what was seen."""
    if same_records(source.batch, copy.batch):
        if source.record == copy.record:
            return Proof.MATCH, f"record {source.record} of the same batch"
        return Proof.MISMATCH, f"the same batch, but record {source.record} of it here and record {copy.record} there"
    ours, theirs = _record(source), _record(copy)
    if ours is None or theirs is None:
        return Proof.NONE, "compaction removed the record"
    if ours.same(theirs):
        return Proof.MATCH, "the same record, in differently split batches"
    if ours.offset - source.position != theirs.offset - copy.position:
        return Proof.NONE, "compaction removed the record from one of both logs"
    return Proof.MISMATCH, f"destination offset {theirs.offset} and source offset {ours.offset} hold different records"


def _record(found: RecordFound) -> Record | None:
    """The record that is read at the position. Raises CorruptBatch, UnsupportedBatch."""
    records = records_in(found.header, decompressed(found.header.codec, found.batch[HEADER_SIZE:]))
    return next((record for record in records if record.offset >= found.position), None)
