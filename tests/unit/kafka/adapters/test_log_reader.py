"""When a span of a log has been read: one rule for all that reads logs, whatever a broker leaves out of an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import CorruptBatch, CouldNotTell, TanistError, TimedOut
from tanist.domain.log_ends import LogEnds
from tanist.domain.names import DestinationOffset, MirrorPartition, ProducerId
from tanist.kafka.adapters import durable_fences, log_reader
from tanist.kafka.adapters.committed_records import committed, judged_batches
from tanist.kafka.adapters.durable_fences import copied_ends
from tanist.kafka.adapters.log_reader import EMPTY_ANSWERS, TransactionStillOpen, UnreadSpan, parts_of, read_on
from tanist.kafka.adapters.logs import KafkaLogs
from tanist.kafka.protocol.frames import FetchedPartition, FetchLimits, Isolation
from tanist.kafka.wire.requests import ActiveProducer
from tanist.ports.clock import Deadline
from tests.unit.kafka.protocol.batches import TRANSACTIONAL, encode_batch, encode_marker

if TYPE_CHECKING:
    from collections.abc import Mapping

AT, OTHER, BY = MirrorPartition("orders", 0), MirrorPartition("orders", 1), Deadline(1e9)
DATA, ABORT, COMMIT = 7, 0, 1


@dataclass
class Log:
    """`batches` by their base offsets. `blind`: so many answers have nothing although there is something."""

    end: int
    batches: dict[int, bytes] = field(default_factory=dict)
    last_stable: int | None = None
    aborted: tuple[tuple[int, int], ...] = ()
    blind: int = 0

    def add(self, base: int, values: int = 1, size: int = 1, attributes: int = 0) -> None:
        content = [b"v" * size] * values
        batch = encode_batch(content, base_offset=base, attributes=attributes, producer=(DATA, 0, base))
        self.batches[base] = bytes(batch)

    def mark(self, base: int, kind: int) -> None:
        self.batches[base] = bytes(encode_marker(base, kind, (DATA, 0, -1)))

    def stable(self) -> int:
        return self.end if self.last_stable is None else self.last_stable


@dataclass
class Cluster:
    """One leader. As brokers do it, only the first batch of an answer comes whole whatever its size (KIP-74)."""

    logs: dict[MirrorPartition, Log]
    asked: int = 0
    pauses: int = 0
    writers: tuple[ActiveProducer, ...] | TanistError = ()

    def producers(
        self, _router: object, partitions: Mapping[MirrorPartition, object], _by: Deadline
    ) -> dict[MirrorPartition, tuple[ActiveProducer, ...] | TanistError]:
        return dict.fromkeys(partitions, self.writers)

    def fetch(
        self, _router: object, offsets: Mapping[MirrorPartition, int], _by: Deadline, limits: FetchLimits, size: int
    ) -> dict[MirrorPartition, FetchedPartition | TanistError]:
        self.asked += 1
        found: dict[MirrorPartition, FetchedPartition | TanistError] = {}
        first = True
        for at, offset in offsets.items():
            log = self.logs[at]
            until = log.end if limits.isolation is Isolation.READ_UNCOMMITTED else log.stable()
            records = b"" if log.blind else self._records(log, range(offset, until), size, whole=first)
            log.blind = max(0, log.blind - 1)
            first = first and not records
            found[at] = FetchedPartition(
                at.topic, at.partition, 0, log.end, log.stable(), 0, log.aborted, memoryview(records)
            )
        return found

    @staticmethod
    def _records(log: Log, offsets: range, size: int, *, whole: bool) -> bytes:
        found = b""
        for base, batch in sorted(log.batches.items()):
            last = base + int.from_bytes(batch[23:27], "big")
            if last < offsets.start or base >= offsets.stop:
                continue
            if len(found) + len(batch) > size and not (whole and not found):
                break
            found += batch
        return found

    def pause(self, _seconds: float, _by: Deadline) -> None:
        self.pauses += 1


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Also the router: what is asked of it is a pause."""
    cluster = Cluster({AT: Log(10), OTHER: Log(10)})
    monkeypatch.setattr(log_reader, "fetch", cluster.fetch)
    monkeypatch.setattr(log_reader, "describe_producers", cluster.producers)
    return cluster


def offsets(cluster: Any, begin: int, end: int) -> list[int]:
    return [record.offset for record in committed(cluster, AT, begin, end, BY)]


def test_an_empty_answer_below_the_end_is_asked_for_again(cluster: Any) -> None:
    """A leader that does not know where in its files its end is has nothing, although there is something."""
    cluster.logs[AT].add(0, 10)
    cluster.logs[AT].blind = EMPTY_ANSWERS - 1
    assert offsets(cluster, 0, 10) == [*range(10)]
    assert cluster.pauses == EMPTY_ANSWERS - 1


def test_only_empty_answers_in_a_row_are_counted(cluster: Any) -> None:
    for base in range(10):
        cluster.logs[AT].add(base, size=300_000)
    read = []
    for part in parts_of(cluster, AT, UnreadSpan(0, 10), BY, first_bytes=1):
        read.append(part.begin)
        cluster.logs[AT].blind = EMPTY_ANSWERS - 1
    assert read == [0, 1, 4, 7]


def test_a_span_whose_rest_a_cleaner_has_removed_has_been_read(cluster: Any) -> None:
    cluster.logs[AT].add(0, 4)
    assert offsets(cluster, 0, 10) == [0, 1, 2, 3]
    assert cluster.asked == 1 + EMPTY_ANSWERS
    assert cluster.pauses == EMPTY_ANSWERS - 1
    assert list(parts_of(cluster, AT, UnreadSpan(6, 10), BY)) == []


def test_a_transaction_that_is_open_below_the_end_is_told_at_once(cluster: Any) -> None:
    """Who reads uncommitted records reads over it."""
    cluster.logs[AT].add(0, 4)
    cluster.logs[AT].add(4, 6, attributes=TRANSACTIONAL)
    cluster.logs[AT].last_stable = 4
    with pytest.raises(CouldNotTell, match=r"orders-0 ends at offset 4 for readers, not at 10") as found:
        offsets(cluster, 0, 10)
    assert found.value.retriable
    assert (cluster.asked, cluster.pauses) == (2, 0)
    assert len(list(parts_of(cluster, AT, UnreadSpan(4, 10), BY, Isolation.READ_UNCOMMITTED))) == 1


def test_an_open_transaction_is_named_with_its_producer_and_what_ends_it(cluster: Any) -> None:
    """It was UNKNOWN: restore access to the service that did not answer."""
    cluster.logs[AT].last_stable = 4
    idle, writing = (ActiveProducer(number, 0, 0, 1_700_000_000_000, 0, start) for number, start in ((5, -1), (77, 4)))
    cluster.writers = (idle, writing)
    with pytest.raises(TransactionStillOpen) as found:
        offsets(cluster, 4, 10)
    assert found.value.reason == (
        "orders-0 ends at offset 4 for readers, not at 10: a transaction is open there, of producer id 77, which has "
        "written last at 2023-11-14T22:13:20.000Z"
    )
    assert (found.value.name, found.value.exit_code, found.value.retriable) == ("OPEN_TRANSACTION", 3, True)
    assert "restore access" not in str(found.value)
    assert "abort-transactions" in str(found.value)
    cluster.writers = TimedOut("no answer")
    with pytest.raises(TransactionStillOpen, match="not at 10: a transaction is open there \\("):
        offsets(cluster, 4, 10)


def test_a_leader_that_does_not_know_its_high_watermark_has_no_open_transaction(cluster: Any) -> None:
    cluster.logs[AT].end = 4
    with pytest.raises(CouldNotTell, match="ends at offset 4 for readers, not at 10") as found:
        offsets(cluster, 4, 10)
    assert not isinstance(found.value, TransactionStillOpen)


def test_an_aborted_transaction_at_the_end_is_read_and_not_seen(cluster: Any) -> None:
    cluster.logs[AT].add(0, 4)
    cluster.logs[AT].add(4, 5, attributes=TRANSACTIONAL)
    cluster.logs[AT].mark(9, ABORT)
    cluster.logs[AT].aborted = ((DATA, 4),)
    assert offsets(cluster, 0, 10) == [0, 1, 2, 3]
    seen = [(header.base_offset, is_seen) for header, _, is_seen in judged_batches(cluster, AT, 2, 10, BY)]
    assert seen == [(0, True), (4, False), (9, False)]
    assert cluster.pauses == 0


def test_a_new_leader_that_does_not_know_its_high_watermark_yet_is_told_at_once(cluster: Any) -> None:
    cluster.logs[AT].end = 6
    with pytest.raises(CouldNotTell):
        list(parts_of(cluster, AT, UnreadSpan(6, 10), BY, Isolation.READ_UNCOMMITTED))
    assert cluster.asked == 1


def test_bytes_that_are_no_batch_are_not_taken_for_what_a_cleaner_has_left(cluster: Any) -> None:
    """A length that is damaged looks like a batch that was cut."""
    cluster.logs[AT].add(0, 10, size=100)
    cluster.logs[AT].batches[0] = cluster.logs[AT].batches[0][:200]
    with pytest.raises(CorruptBatch, match="200 bytes at offset 0"):
        offsets(cluster, 0, 10)


def test_what_another_partition_has_kept_out_of_an_answer_is_not_counted_as_removed(cluster: Any) -> None:
    """Of a batch that is larger than what was asked for nothing comes, unless it is the first of the answer."""
    for log in cluster.logs.values():
        for base in range(10):
            log.add(base, size=1_000)
    spans = {at: UnreadSpan(0, 10) for at in cluster.logs}
    read: dict[MirrorPartition, int] = dict.fromkeys(spans, 0)
    while left := {at: span for at, span in spans.items() if not span.is_read}:
        for at, part in read_on(cluster, left, BY, Isolation.READ_UNCOMMITTED, 100).items():
            assert not isinstance(part, TanistError)
            read[at] += part.until - part.begin
    assert read == {AT: 10, OTHER: 10}
    assert cluster.pauses == 0


def test_a_partition_that_fails_does_not_stop_others(cluster: Any) -> None:
    cluster.logs[AT].end, cluster.logs[AT].last_stable = 4, 4
    cluster.logs[OTHER].add(0, 10)
    found = read_on(cluster, {at: UnreadSpan(4, 10) for at in cluster.logs}, BY, Isolation.READ_COMMITTED)
    assert isinstance(found[AT], CouldNotTell)
    other = found[OTHER]
    assert not isinstance(other, TanistError)
    assert (other.begin, other.until) == (4, 10)


def test_nothing_is_asked_for_after_the_time_is_over(cluster: Any) -> None:
    with pytest.raises(TimedOut, match="from offset 0 to 10 in time"):
        list(committed(cluster, AT, 0, 10, Deadline(0)))
    assert cluster.asked == 0


def test_offsets_that_a_cleaner_has_removed_are_not_proved_to_be_markers(cluster: Any) -> None:
    logs = KafkaLogs(cluster)
    for base in range(8):
        cluster.logs[AT].mark(base, COMMIT)
    assert logs.only_control({AT: (0, 8)}, BY) == {AT: True}
    assert logs.only_control({AT: (0, 10)}, BY) == {AT: False}
    cluster.logs[AT].end = 8
    assert isinstance(logs.only_control({AT: (0, 10)}, BY)[AT], CouldNotTell)


def test_the_batch_of_an_offset_that_a_cleaner_has_removed_is_not_known(cluster: Any) -> None:
    logs = KafkaLogs(cluster)
    cluster.logs[AT].add(0, 4, size=100_000)
    cluster.logs[OTHER].add(2, 4, size=100_000)
    assert logs.producers({AT: 3, OTHER: 2}, BY) == {AT: DATA, OTHER: DATA}
    found = logs.producers({AT: 5, OTHER: 1}, BY)
    assert [type(each) for each in found.values()] == [CouldNotTell, CouldNotTell]


def test_the_end_of_what_was_copied_is_found_before_a_rest_that_a_cleaner_has_removed(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for that rest until its time was over: a failover could not go on."""
    ends = {at: LogEnds(start=0, last_stable=log.end, high_watermark=log.end) for at, log in cluster.logs.items()}
    monkeypatch.setattr(durable_fences, "readable_ends", lambda _router, _partitions, _by: ends)
    cluster.logs[AT].add(0, 4)
    for base in range(10):
        cluster.logs[OTHER].mark(base, COMMIT)
    ids = dict.fromkeys(cluster.logs, ProducerId(DATA))
    assert copied_ends(cluster, ids, BY, {}) == {AT: DestinationOffset(4), OTHER: DestinationOffset(0)}
