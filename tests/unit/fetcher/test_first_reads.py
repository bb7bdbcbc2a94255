"""What recovery reads first of many partitions is read together; what is wrong with one of them concerns it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tanist.domain.log_ends import CopyEnds
from tanist.domain.names import DestinationOffset, MirrorPartition, ProducerId, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.writer_identity import ProducerIds
from tanist.fetcher.engines.batches.first_reads import CopyFound, first_reads
from tanist.kafka.protocol.frames import FetchedPartition, FetchLimits, Isolation
from tanist.kafka.wire import requests
from tanist.ports.clock import Deadline
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

SOURCE, DESTINATION = cast("Any", "source"), cast("Any", "destination")
OURS = ProducerId(7)
WRITER = ProducerIds(OURS, ProducerId(8), ProducerId(9))
IDENTICAL = OffsetMap()
COPIED, SHIFTED, EMPTY, DAMAGED, FOREIGN, NO_ROOM, CUT, HOLES, LATER = (MirrorPartition("logs", n) for n in range(9))


def copied(end: int, offsets: OffsetMap = IDENTICAL, *, holes: bool = False) -> CopyFound:
    ends = CopyEnds(DestinationOffset(0), DestinationOffset(end), DestinationOffset(end))
    return CopyFound(ends, offsets.origin, WRITER, SourceOffset(0), holes=holes)


def answer(at: MirrorPartition, records: bytes) -> FetchedPartition:
    return FetchedPartition(at.topic, at.partition, 0, 999, 999, 0, (), memoryview(records))


def test_two_requests_read_the_end_of_every_copy_and_what_its_last_batch_was_made_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Read one by one, each partition of a dead worker cost the round trips of two reads.

    CUT: there was no room for its last batch. HOLES: cleaners take records away, and all of the end is compared. LATER:
    somebody has appended since the ends were read.
    """
    batch = bytes(encode_batch([b"a", b"b"], base_offset=98, producer=(OURS, 0, 0)))
    damaged = batch[:-1] + bytes([batch[-1] ^ 1])
    stranger = bytes(encode_batch([b"a"], base_offset=99, producer=(99, 0, 0)))
    older = bytes(encode_batch([b"a"], base_offset=90, producer=(OURS, 0, 0)))
    late = bytes(encode_batch([b"a"], base_offset=100, producer=(OURS, 0, 0)))
    tails = {COPIED: batch, SHIFTED: batch, DAMAGED: damaged, FOREIGN: stranger, NO_ROOM: b""}
    tails |= {CUT: older, HOLES: older + batch, LATER: batch + late}
    asked: list[tuple[object, Mapping[MirrorPartition, int], Isolation]] = []

    def fetch(
        router: object, offsets: Mapping[MirrorPartition, int], _by: Deadline, limits: FetchLimits, _size: int
    ) -> Mapping[MirrorPartition, FetchedPartition]:
        asked.append((router, offsets, limits.isolation))
        return {at: answer(at, tails[at] if router is DESTINATION else batch) for at in offsets}

    monkeypatch.setattr(requests, "fetch", fetch)
    maps = {SHIFTED: OffsetMap((OffsetRange(SourceOffset(10), DestinationOffset(15)),))}
    copies = {at: copied(100, maps.get(at, IDENTICAL), holes=at is HOLES) for at in tails} | {EMPTY: copied(0)}
    found = first_reads((SOURCE, DESTINATION), copies, Deadline(1e9))
    assert asked == [
        (DESTINATION, dict.fromkeys(tails, 36), Isolation.READ_UNCOMMITTED),
        (SOURCE, {COPIED: 98, SHIFTED: 93, HOLES: 90, LATER: 98}, Isolation.READ_COMMITTED),
    ]
    assert {at: [(key[0], key[1]) for key in reads] for at, reads in found.items()} == {
        COPIED: [(DESTINATION, 36), (SOURCE, 98)],
        SHIFTED: [(DESTINATION, 36), (SOURCE, 93)],
        DAMAGED: [(DESTINATION, 36)],
        FOREIGN: [(DESTINATION, 36)],
        CUT: [(DESTINATION, 36)],
        HOLES: [(DESTINATION, 36), (SOURCE, 90)],
        LATER: [(DESTINATION, 36), (SOURCE, 98)],
    }


def test_copies_without_records_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "fetch", None)
    assert first_reads((SOURCE, DESTINATION), {EMPTY: copied(0)}, Deadline(1e9)) == {}
