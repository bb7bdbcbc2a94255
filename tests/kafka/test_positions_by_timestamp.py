"""Positions by timestamp, on brokers: the table of seed 000 (rows S0.1 to S0.5), markers, holes, disorder.

Copies are made by an ordinary producer with the timestamps of the source, as MirrorMaker 2 makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest

from tanist.domain.errors import TanistError, Unreachable
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.record_times import ReadLimits
from tanist.domain.translation import Conservative, Exact, Inputs, Unknown
from tanist.domain.translators.by_timestamp import TIMESTAMP
from tanist.kafka.adapters import record_times
from tanist.kafka.wire import requests
from tanist.kafka.wire.clock import SystemClock
from tanist.usecases.groups.times import read_times
from tests.kafka.fetcher.rig import Rig, soon, until, value
from tests.kafka.fetcher.test_compacted import COMPACT, cleaned, has_holes
from tests.kafka.groups.mirrors import Mirrored, run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tanist.domain.names import MirrorPartition
    from tanist.domain.record_times import TimedPosition
    from tanist.domain.translation import Translation
    from tests.kafka.fetcher.rig import RigCluster

__all__ = ["cleaned"]

PATIENT: Final = ReadLimits(poll_timeout_ms=15_000)
SOME: Final = replace(PATIENT, unread_bytes=0)
"""Only the batch at each position is read."""
BEGUN: Final = SystemClock().now() - 3_600_000


@dataclass(frozen=True)
class Written:
    """A record by its number, with its time in ms since `BEGUN`."""

    number: int
    time: int
    key: bytes = b"k"


def write(side: RigCluster, at: MirrorPartition, records: Iterable[Written], **settings: object) -> None:
    """In the order given."""
    producer = side.producer(**settings)
    for each in records:
        producer.produce(at.topic, b"%d" % each.number, each.key, partition=at.partition, timestamp=BEGUN + each.time)
    assert producer.flush(20) == 0


def transactions(
    side: RigCluster, at: MirrorPartition, records: Sequence[Written], size: int, aborted: Collection[int] = ()
) -> None:
    """So many records in each; `aborted`: the numbers of the transactions that are not committed."""
    producer = side.producer(transactional_id=f"t-{uuid4().hex}")
    producer.init_transactions(20)
    for number, first in enumerate(range(0, len(records), size)):
        producer.begin_transaction()
        for each in records[first : first + size]:
            producer.produce(
                at.topic, b"%d" % each.number, each.key, partition=at.partition, timestamp=BEGUN + each.time
            )
        producer.flush(20)
        if number in aborted:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    side.settle([at])


@dataclass
class Found:
    """What was read of one partition, and what it is translated to."""

    seen: Mapping[SourceOffset, TimedPosition]
    answers: Mapping[int, Translation]

    def offset(self, position: int) -> int | None:
        answer = self.answers[position]
        return None if isinstance(answer, Unknown) else answer.offset


def translated(rig: Rig, at: MirrorPartition, positions: Iterable[int], limits: ReadLimits = PATIENT) -> Found:
    mirrored, wanted = Mirrored(rig, (at,)), [SourceOffset(each) for each in positions]
    with mirrored.stack:
        ends = value(mirrored.mirror.destination.logs.ends([at], soon())[at])
        copy = Span(DestinationOffset(ends.start), DestinationOffset(ends.high_watermark))
        seen = value(read_times(mirrored.mirror, {at: wanted}, {at: copy}, run(), limits)[at])
    inputs = Inputs(copy=copy, times=seen)
    return Found(seen, {each: TIMESTAMP.translate(each, inputs) for each in wanted})


def nothing_is_skipped(found: Found, copies: Mapping[int, int]) -> None:
    """`copies`: where the destination has each record of the source. Nor does an answer fall."""
    highest = 0
    for position in sorted(found.answers):
        offset = found.offset(position)
        if offset is not None:
            unread = [d for s, d in copies.items() if s >= position]
            assert offset <= min(unread, default=offset), (position, found.answers[position])
            assert offset >= highest, (position, found.answers[position])
            highest = offset


# ── the table of seed 000 ─────────────────────────────────────────────────────────────────────────────────────────

TABLE: Final = (
    (1001, None, None),
    (1000, 600, 600),
    (990, 580, 580),
    (980, 580, 580),
    (960, 560, 560),
    (900, 500, 500),
    (800, 400, 400),
    (700, 300, 300),
    (600, 200, 200),
    (400, 0, 0),
)
"""S0.2: committed at the source; translated; what MirrorGroupOffsetConnector answers. None: skipped."""


@pytest.fixture(scope="module")
def table(sides: tuple[RigCluster, RigCluster]) -> tuple[Rig, MirrorPartition]:
    """Records 980 to 990 have one timestamp, mirroring began at 400 and has reached 1000, and 1001 is written."""
    rig, name = Rig(*sides), f"table-{uuid4().hex[:8]}"
    [at] = rig.source.create(name)
    rig.destination.create(name)
    records = [Written(n, 10 * (980 if 980 <= n <= 990 else n)) for n in range(1002)]
    write(rig.source, at, records)
    write(rig.destination, at, records[400:1001])
    return rig, at


@pytest.mark.parametrize("limits", [PATIENT, SOME], ids=["all is read", "a batch is read"])
def test_s02_the_table_of_the_connector(table: tuple[Rig, MirrorPartition], limits: ReadLimits) -> None:
    """S0.1, S0.2: also where only the batch at each position is read; then most of the same offsets are not exact."""
    found = translated(*table, [position for position, _, _ in TABLE], limits)
    assert [
        (position, found.offset(position), found.seen[SourceOffset(position)].seed_answer) for position, _, _ in TABLE
    ] == [*TABLE]
    if limits is PATIENT:
        assert {p for p, each in found.answers.items() if isinstance(each, Conservative)} == {990}
    assert "up to 10 record(s) are read again" in str(found.answers[990].why)


def test_s03_what_is_not_mirrored_yet_is_unknown(table: tuple[Rig, MirrorPartition]) -> None:
    """ListOffsets answers -1: never 0, so the group keeps 600."""
    answer = translated(*table, [1001]).answers[1001]
    assert isinstance(answer, Unknown)
    assert answer.why.startswith("not mirrored yet: the mirror partition has no record since 20")


def test_at_the_end_of_the_source_the_last_record_decides(table: tuple[Rig, MirrorPartition]) -> None:
    """S0.3 defers such a position for ever. Behind the end nothing is known."""
    found = translated(*table, [1002, 1003])
    assert isinstance(found.answers[1002], Conservative)
    assert found.offset(1002) == 601
    assert found.seen[SourceOffset(1002)].seed_answer is None
    assert isinstance(found.answers[1003], Unknown)


def test_no_position_of_the_table_skips_a_record(table: tuple[Rig, MirrorPartition]) -> None:
    found = translated(*table, range(1003))
    nothing_is_skipped(found, {400 + n: n for n in range(601)})
    assert sum(isinstance(each, Exact) for each in found.answers.values()) == 591


# ── markers, holes, disorder, stamped times ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scan", [record_times.SCAN_BYTES, 0], ids=["read on", "bisected"])
def test_markers_on_both_sides_are_passed(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, scan: int
) -> None:
    """The markers of the copy are an hour later than its records, so ListOffsets answers with the first of them."""
    monkeypatch.setattr(record_times, "SCAN_BYTES", scan)
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name)
    records = [Written(n, 10 * n) for n in range(60)]
    transactions(rig.source, at, records, 3, aborted={4, 19})
    committed = [each for each in records if each.number // 3 not in {4, 19}]
    transactions(rig.destination, at, committed, 10)
    copies = {n + n // 3: index + index // 10 for index, n in enumerate(each.number for each in committed)}
    found = translated(rig, at, range(81))
    nothing_is_skipped(found, copies)
    assert {s: found.offset(s) for s in copies} == copies
    assert all(isinstance(found.answers[s], Exact) for s in copies)
    assert [found.offset(marker) for marker in (3, 16, 19)] == [copies[4], copies[20], copies[20]]
    end = rig.destination.end(at)
    assert [found.answers[s] for s in (79, 80)] == [Exact(DestinationOffset(end))] * 2
    aborted_tail = found.answers[76]
    assert isinstance(aborted_tail, Conservative), "a copier may read what was aborted"
    assert end - 2 <= aborted_tail.offset < end


def test_an_open_transaction_is_the_end_for_readers(rig: Rig, topic_name: str) -> None:
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name)
    write(rig.source, at, [Written(0, 0)])
    write(rig.destination, at, [Written(0, 0)])
    producer = rig.source.producer(transactional_id=topic_name)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic_name, b"1", b"k", partition=0, timestamp=BEGUN + 10)
    producer.flush(20)
    try:
        assert translated(rig, at, [1, 2]).answers == dict.fromkeys((1, 2), Exact(DestinationOffset(1)))
    finally:
        producer.abort_transaction(20)


def test_a_hole_that_the_cleaner_of_the_source_has_left_skips_nothing(cleaned: Rig, topic_name: str) -> None:
    """The copy still has those records: the record before them decides."""
    [at] = cleaned.source.create(topic_name, config=COMPACT)
    cleaned.destination.create(topic_name)
    records = [Written(n, 300 * n, b"k%d" % (n % 4)) for n in range(40)]
    for first in range(0, 40, 5):
        write(cleaned.source, at, records[first : first + 5])
    write(cleaned.destination, at, records)

    def done() -> bool:
        write(cleaned.source, at, [Written(99, 300 * 99)])
        return has_holes(cleaned.source, [at])

    until(done, 60)
    found = translated(cleaned, at, range(40))
    nothing_is_skipped(found, {n: n for n in range(40)})
    lowered = [each for each in found.answers.values() if each.why and "deleted or cleaned" in each.why]
    assert lowered
    assert all(found.offset(each) is not None for each in range(40))


def test_records_that_the_source_has_deleted_are_not_skipped_in_the_copy(rig: Rig, topic_name: str) -> None:
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name)
    for side in (rig.source, rig.destination):
        write(side, at, [Written(n, 10 * n) for n in range(20)])
    rig.source.delete_before(at, 10)
    rig.destination.delete_before(at, 4)
    assert translated(rig, at, [7]).offset(7) == 4
    rig.destination.delete_before(at, 10)
    assert translated(rig, at, [7]).answers[7] == Exact(DestinationOffset(10))


def test_s05_timestamps_out_of_order_are_named_and_nothing_is_skipped(rig: Rig, topic_name: str) -> None:
    """The copy lacks the record at the position, so the connector finds one behind the next."""
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name)
    records = [Written(n, time) for n, time in enumerate((1000, 5000, 3000, 6000))]
    write(rig.source, at, records)
    write(rig.destination, at, [records[n] for n in (0, 2, 3)])
    found = translated(rig, at, range(4))
    nothing_is_skipped(found, {0: 0, 2: 1, 3: 2})
    assert found.offset(1) == 1
    assert found.seen[SourceOffset(1)].seed_answer == 2
    assert "record 2 is 2000 ms older than 1, and not read yet" in str(found.answers[1].why)
    assert "MirrorGroupOffsetConnector would commit 2" in str(found.answers[1].why)


def test_s05_a_destination_that_stamps_its_own_time_is_refused(rig: Rig, topic_name: str) -> None:
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name, config={"message.timestamp.type": "LogAppendTime"})
    for side in (rig.source, rig.destination):
        write(side, at, [Written(n, 10 * n) for n in range(3)])
    for answer in translated(rig, at, [1, 3]).answers.values():
        assert isinstance(answer, Unknown)
        assert "message.timestamp.type of the mirror topic is LogAppendTime" in answer.why


def test_s05_a_source_that_stamps_its_own_time_is_translated_if_the_copy_keeps_it(rig: Rig, topic_name: str) -> None:
    [at] = rig.source.create(topic_name, config={"message.timestamp.type": "LogAppendTime"})
    rig.destination.create(topic_name)
    for number in range(3):
        write(rig.source, at, [Written(number, 0)])
    stamped = times_of(rig.source, at)
    write(rig.destination, at, [Written(n, time - BEGUN) for n, time in enumerate(stamped)])
    found = translated(rig, at, range(4))
    nothing_is_skipped(found, {n: n for n in range(3)})
    assert found.answers[3] == Exact(DestinationOffset(3))
    assert found.offset(0) == 0


def times_of(side: RigCluster, at: MirrorPartition) -> list[int]:
    """As consumers see them."""
    log = value(record_times.KafkaRecordTimes(side.router).unread({at: range(3)}, PATIENT, soon())[at])
    return [each.record.timestamp for _, each in sorted(log.unread.items()) if each.record is not None]


# ── many partitions, and a source that is not there ───────────────────────────────────────────────────────────────


def test_many_partitions_are_read_together_and_one_byte_each_would_bring_one(rig: Rig, topic_name: str) -> None:
    """A broker answers a batch that is larger than what was asked for only once in an answer (KIP-74)."""
    partitions = rig.source.create(topic_name, 20)
    rig.destination.create(topic_name, 20)
    for at in partitions:
        for side in (rig.source, rig.destination):
            write(side, at, [Written(n, 10 * n) for n in range(3)])
    least = requests.fetch(rig.source.router, dict.fromkeys(partitions, 0), soon(), partition_max_bytes=1)
    assert sum(len(value(each).records) > 0 for each in least.values()) == 1
    mirrored = Mirrored(rig, partitions)
    with mirrored.stack:
        ends = mirrored.mirror.destination.logs.ends(partitions, soon())
        copies = {
            at: Span(DestinationOffset(0), DestinationOffset(value(each).high_watermark)) for at, each in ends.items()
        }
        found = read_times(mirrored.mirror, {at: [SourceOffset(1)] for at in partitions}, copies, run(), PATIENT)
        for at in partitions:
            inputs = Inputs(copy=copies[at], times=found[at])
            assert TIMESTAMP.translate(SourceOffset(1), inputs) == Exact(DestinationOffset(1))
        gone = Unreachable("east")
        dead = read_times(replace(mirrored.mirror, source=gone), {partitions[0]: [SourceOffset(1)]}, copies, run())
    assert dead == {partitions[0]: gone}
    assert isinstance(gone, TanistError)
