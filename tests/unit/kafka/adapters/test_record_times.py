"""Records by their timestamps, from logs of batches as brokers have them, compared with a model of the same logs."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.broker_errors import NotLeader
from tanist.domain.errors import TanistError, TimedOut
from tanist.domain.log_ends import LogEnds
from tanist.domain.names import EpochMs, MirrorPartition
from tanist.domain.record_times import FirstSince, ReadLimits, TimestampType, UnreadLog
from tanist.kafka.adapters import log_reader, record_times
from tanist.kafka.adapters.record_times import KafkaRecordTimes
from tanist.kafka.protocol.batch import BatchHeader, assembled
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End, first_since
from tanist.ports.clock import Deadline
from tests.fakes.times import ALL, MemoryLog, MemoryTimes
from tests.unit.kafka.adapters.test_log_reader import Cluster, Log
from tests.unit.kafka.protocol.batches import CONTROL, GZIP, LOG_APPEND_TIME, TRANSACTIONAL, encode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.fakes.times import Entry

AT, OTHER, BY = MirrorPartition("orders", 0), MirrorPartition("orders", 1), Deadline(1e12)
LATER, COMMIT = 10**12, b"\0\0\0\1"


def batch(base: int, end: int, entries: Mapping[int, Entry], attributes: int = 0, producer: int = -1) -> bytes:
    """The offsets [base, end), of which some may hold nothing any more."""
    there = [(offset, entries[offset]) for offset in range(base, end) if offset in entries]
    first = there[0][1].timestamp if there else 0
    body = b"".join(
        encode_record(
            offset - base,
            COMMIT if entry.content is None else None,
            (entry.content or "").encode(),
            entry.timestamp - first,
        )
        for offset, entry in there
    )
    if attributes & GZIP:
        body = zlib.compress(body, wbits=31)
    most = max((entry.timestamp for _, entry in there), default=0)
    header = BatchHeader(base, 0, 0, 2, 0, attributes, end - base - 1, first, most, producer, 0, 0, len(there))
    return bytes(assembled(header, body)[1])


def as_batches(rng: random.Random, log: MemoryLog) -> Log:
    """Markers and aborted records are batches of their own; open transactions begin with a batch."""
    found, aborted, offset = Log(log.end, last_stable=log.stable), list[tuple[int, int]](), 0
    while offset < log.end:
        entry = log.entries.get(offset)
        if entry is not None and not entry.is_visible:
            producer = 1000 + offset
            attributes = TRANSACTIONAL if entry.aborted else TRANSACTIONAL | CONTROL
            aborted += [(producer, offset)] if entry.aborted else []
            found.batches[offset] = batch(offset, offset + 1, log.entries, attributes, producer)
            offset += 1
            continue
        end = offset + 1
        while end < log.end and end != log.stable and end - offset < 7 and rng.random() < 0.7:
            following = log.entries.get(end)
            if following is not None and not following.is_visible:
                break
            end += 1
        if any(each in log.entries for each in range(offset, end)) or rng.random() < 0.5:
            found.batches[offset] = batch(offset, end, log.entries, rng.choice([0, GZIP]))
        offset = end
    found.aborted = tuple(aborted)
    return found


def drawn(rng: random.Random, size: int = 40) -> MemoryLog:
    log, now = MemoryLog(), 1_000
    for number in range(rng.randrange(1, size)):
        now += rng.choice([0, 0, 1, 3])
        if rng.random() < 0.15:
            log.add(LATER + number)
        log.add(max(0, now + rng.randint(-3, 3)), f"record {number}", aborted=rng.random() < 0.1)
    for offset in list(log.entries):
        if rng.random() < 0.15:
            del log.entries[offset]
    log.start = rng.choice([0, rng.randrange(log.end)])
    log.stable = rng.choice([None, rng.randrange(log.start, log.end + 1)])
    return log


@dataclass
class Broker(Cluster):
    """Of several partitions, each with its model. `failing`: by partition, whatever is asked of it."""

    models: Any = None
    failing: Any = None

    @classmethod
    def of(cls, rng: random.Random, models: Mapping[MirrorPartition, MemoryLog]) -> Broker:
        return cls({at: as_batches(rng, log) for at, log in models.items()}, models=models, failing={})

    def _each(self, partitions: Iterable[MirrorPartition], answer: Any) -> dict[MirrorPartition, Any]:
        return {at: self.failing.get(at) or answer(at) for at in partitions}

    def readable_ends(self, _router: object, partitions: Iterable[MirrorPartition], _by: Deadline) -> Any:
        def ends(at: MirrorPartition) -> LogEnds:
            log = self.models[at]
            return LogEnds(start=log.start, last_stable=log.last_stable, high_watermark=log.end)

        return self._each(partitions, ends)

    def list_offsets(self, _router: object, ends: Mapping[MirrorPartition, End], _by: Deadline) -> Any:
        return self._each(ends, lambda at: self.models[at].last_stable)

    def first_since(self, _router: object, times: Mapping[MirrorPartition, int], _by: Deadline) -> Any:
        def offset(at: MirrorPartition) -> int:
            found = MemoryTimes(self.models).since({at: [EpochMs(times[at])]}, ALL, BY)[at]
            assert not isinstance(found, TanistError)
            first = found[EpochMs(times[at])]
            return -1 if first is None else first.offset

        return self._each(times, offset)


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the port over a broker that has these logs."""

    def over(broker: Broker) -> KafkaRecordTimes:
        monkeypatch.setattr(log_reader, "fetch", broker.fetch)
        monkeypatch.setattr(record_times, "readable_ends", broker.readable_ends)
        monkeypatch.setattr(record_times, "list_offsets", broker.list_offsets)
        monkeypatch.setattr(record_times, "first_since", broker.first_since)
        return KafkaRecordTimes(broker)  # type: ignore[arg-type]  # of a router, it is asked for pauses only

    return over


def plain(log: UnreadLog | TanistError) -> dict[int, tuple[object, ...]]:
    """Without digests, which the model makes otherwise."""
    return {
        at: (
            each.record and each.record[:2],
            each.missing,
            each.earliest and each.earliest[:2],
            each.until,
            each.whole,
        )
        for at, each in value(log).unread.items()
    }


def test_what_is_read_of_a_log_is_what_it_holds(reached: Any) -> None:
    rng = random.Random(5)
    for _ in range(60):
        models = {at: drawn(rng) for at in (AT, OTHER)}
        times = reached(Broker.of(rng, models))
        wanted = {at: rng.sample(range(log.end + 1), rng.randrange(1, log.end + 1)) for at, log in models.items()}
        expected = MemoryTimes(models).unread(wanted, ALL, BY)
        for at, found in times.unread(wanted, ALL, BY).items():
            assert plain(found) == plain(expected[at]), models[at]
            assert set(value(expected[at]).offsets.values()) <= set(value(found).offsets.values())
        before = times.before(wanted, ALL, BY)
        model = MemoryTimes(models).before(wanted, ALL, BY)
        for at in wanted:
            assert {p: r and r[:2] for p, r in value(before[at]).items()} == {
                p: r and r[:2] for p, r in value(model[at]).items()
            }


def since(found: FirstSince | None) -> object:
    return found and (found.offset, found.record and found.record[:2], [each[:2] for each in found.following[:1]])


def test_the_first_record_since_a_time_is_the_one_that_the_log_has(reached: Any) -> None:
    rng = random.Random(6)
    for _ in range(60):
        models = {at: drawn(rng) for at in (AT, OTHER)}
        wanted = {at: [EpochMs(rng.randrange(990, 1_090)) for _ in range(5)] for at in models}
        found = reached(Broker.of(rng, models)).since(wanted, ALL, BY)
        expected = MemoryTimes(models).since(wanted, ALL, BY)
        for at in wanted:
            assert {t: since(e) for t, e in value(found[at]).items()} == {
                t: since(e) for t, e in value(expected[at]).items()
            }
            assert all(each is None or each.certain for each in value(found[at]).values())


def test_behind_a_marker_of_a_later_time_the_record_is_bisected_for(
    reached: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a copy made in transactions the first marker is later than all old records."""
    monkeypatch.setattr(record_times, "SCAN_BYTES", 0)
    rng, log = random.Random(7), MemoryLog()
    for number in range(2_000):
        log.add(1_000 + number - number % 3, f"record {number}")
        if number % 10 == 9:
            log.add(LATER + number)
    broker = Broker.of(rng, {AT: log})
    monkeypatch.setattr("tanist.kafka.adapters.record_times.part_of", small_parts)
    asked = [EpochMs(each) for each in (1_500, 2_001, 2_998, 2_999)]
    found = value(reached(broker).since({AT: asked}, ALL, BY)[AT])
    expected = value(MemoryTimes({AT: log}).since({AT: asked}, ALL, BY)[AT])
    for time in asked:
        assert since(found[time]) == since(expected[time])
    assert not found[EpochMs(2_001)].certain
    assert broker.asked < 60, "it was read, not searched"


def small_parts(span: Any, isolation: Any, _size: int = 0) -> Any:
    from tanist.kafka.adapters.concurrent_reading import part_of  # noqa: PLC0415  # the one before the patch

    return part_of(span, isolation, 1)


def test_what_may_be_read_is_spent_near_the_end_and_each_position_has_its_record(reached: Any) -> None:
    rng, log = random.Random(8), MemoryLog()
    for number in range(400):
        log.add(1_000 - number, "".join(rng.choices("0123456789", k=2_000)))
    broker = Broker.of(rng, {AT: log})
    found = value(reached(broker).unread({AT: [0, 100, 390]}, ReadLimits(unread_bytes=20_000), BY)[AT])
    assert [(found.unread[at].record or log)[0] for at in (0, 100, 390)] == [0, 100, 390]  # type: ignore[index]
    assert [found.unread[at].whole for at in (0, 100, 390)] == [False, False, True]
    assert found.unread[100].until < 390
    assert found.unread[390].earliest is not None
    assert found.unread[390].earliest.offset == 399


def test_positions_in_one_batch_share_a_request(reached: Any) -> None:
    log = MemoryLog()
    for number in range(7):
        log.add(1_000 + number, f"record {number}")
    broker = Broker({AT: Log(7, {0: batch(0, 7, log.entries)})}, models={AT: log}, failing={})
    reached(broker).unread({AT: range(8)}, ALL, BY)
    assert broker.asked == 1


def test_a_batch_larger_than_what_was_asked_for_comes_whole_when_more_is_asked_for(reached: Any) -> None:
    """Of one answer only the first partition's does (KIP-74): a byte each would bring one partition after the other."""
    models = {MirrorPartition("orders", n): MemoryLog() for n in range(5)}
    for log in models.values():
        log.add(1_000, "r" * 100_000)
    broker = Broker.of(random.Random(9), models)
    found = reached(broker).unread({at: [0] for at in models}, ALL, BY)
    assert all(value(each).unread[0].record is not None for each in found.values())
    assert broker.asked == 2


def test_an_error_is_of_its_partition_alone(reached: Any) -> None:
    models = {at: MemoryLog() for at in (AT, OTHER)}
    for log in models.values():
        log.add(1_000, "record")
    broker = Broker.of(random.Random(9), models)
    broker.failing = {OTHER: NotLeader("orders-1")}
    times = reached(broker)
    for found in (
        times.unread({AT: [0], OTHER: [0]}, ALL, BY),
        times.before({AT: [1], OTHER: [1]}, ALL, BY),
        times.since({AT: [EpochMs(5)], OTHER: [EpochMs(5)]}, ALL, BY),
    ):
        assert not isinstance(found[AT], TanistError)
        assert isinstance(found[OTHER], NotLeader)
    late = times.unread({AT: [0]}, ReadLimits(poll_timeout_ms=0), Deadline(0))
    assert isinstance(late[AT], TimedOut)


def test_records_that_the_broker_has_stamped_have_the_time_of_their_batch(reached: Any) -> None:
    log = MemoryLog()
    for number in range(3):
        log.add(1_000 + number, f"record {number}")
    broker = Broker({AT: Log(3, {0: batch(0, 3, log.entries, LOG_APPEND_TIME)})}, models={AT: log}, failing={})
    found = value(reached(broker).unread({AT: [0]}, ALL, BY)[AT])
    assert found.unread[0].record is not None
    assert found.unread[0].record.timestamp == 1_002
    assert found.unread[0].record.type is TimestampType.LOG_APPEND


def test_a_time_that_would_mean_the_end_of_the_log_is_not_asked_for() -> None:
    with pytest.raises(ValueError, match="orders-0"):
        first_since(None, {AT: -1}, BY)  # type: ignore[arg-type]
