"""The one writer of logs, and producers that remember what the source has acknowledged, and keep at it."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer

from tanist.domain.errors import TimedOut
from tanist_testkit.verify.clients import delete_before, settings
from tanist_testkit.verify.flows import Flow, FlowRecord, records
from tanist_testkit.verify.reading import ReadRecord
from tanist_testkit.verify.traces import Place, Trace, Traces, merged, total
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Message

    from tanist.ports.clock import Clock, Deadline

_TICK_SECONDS: Final = 0.05
_AGAIN_SECONDS: Final = 0.3
_CALL_SECONDS: Final = 30.0
_DELIVERY_MS: Final = 120_000
_TRANSACTION_MS: Final = 20_000
_IN_A_TRANSACTION: Final = 40
_ABORTED: Final = 0.3
_UNANSWERED: Final = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._TRANSPORT})  # noqa: SLF001

Note: TypeAlias = "Callable[[FlowRecord, KafkaError | None, Message], None]"
"""Hears what became of a record; None: brokers have acknowledged it, the message tells where."""

log = logging.getLogger(__name__)


class LogWriter:
    """One producer of librdkafka's: demo, storm, bench and tests write their records with it. Not thread-safe.

    `producer`: to flush, and for transactions.
    """

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        """`configuration`: librdkafka's, with where to connect."""
        self.producer = Producer(dict(configuration))

    def write(self, topic: str, records: Iterable[FlowRecord], note: Note | None = None) -> None:
        """Returns when the producer has all of them, waiting while its queue is full.

        `note` is called in here, and while the producer is flushed; None: nobody asks.

        Raises:
            KafkaException: the producer knows by itself that brokers will refuse.
        """
        for record in records:
            self._produce(topic, record, None if note is None else partial(note, record))
        self.producer.poll(0)

    def write_values(self, topic: str, partition: int, values: Iterable[bytes]) -> None:
        """The same for values without anything else, in one call, so that whoever fills a log is not the slowest."""
        pending = [{"value": value} for value in values]
        while pending:
            self.producer.produce_batch(topic, pending, partition=partition)
            pending = [message for message in pending if message.pop("_error", None) is not None]
            self.producer.poll(_TICK_SECONDS if pending else 0)

    def _produce(
        self, topic: str, record: FlowRecord, notify: Callable[[KafkaError | None, Message], None] | None
    ) -> None:
        while True:
            try:
                self.producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp=record.timestamp_ms,
                    headers=None if record.headers is None else list(record.headers),
                    on_delivery=notify,
                )
            except BufferError:
                self.producer.poll(_TICK_SECONDS)
            else:
                return


@contextmanager
def _fatal_errors() -> Iterator[None]:
    """Raises a fatal error of the producer as the KafkaException that it is.

    librdkafka tells it among the callbacks that a call serves. confluent-kafka sets the exception there and calls the
    next callback nevertheless, so that the call ends with a SystemError whose cause is the exception.
    """
    try:
        yield
    except SystemError as masked:
        if isinstance(masked.__cause__, KafkaException):
            raise masked.__cause__ from None
        raise


class LoadWriter(threading.Thread):
    """One producer of one flow. `acknowledged` is complete once the thread has ended.

    A record whose fate is not known (its transaction's commit was not answered) is not among the acknowledged ones; the
    comparison of the two logs looks at it all the same. Once the thread has ended, each record that was `sent` is
    acknowledged, `refused` by brokers, `unanswered`, or in a transaction that was `aborted` on purpose.
    """

    def __init__(
        self, bootstrap: str, flow: Flow, number: int, clock: Clock, seed: int, *, call_seconds: float = _CALL_SECONDS
    ) -> None:
        """`call_seconds`: how long a call that ends a transaction may take."""
        super().__init__(name=f"writer-{flow.topic}-{number}", daemon=True)
        self.flow = flow
        self.acknowledged: Traces = defaultdict(Trace)
        self.latest: dict[Place, dict[bytes, ReadRecord]] = defaultdict(dict)
        """Of a flow with `keys`: the last one of each key that was acknowledged."""
        self.sent = self.aborted = self.refused = self.unanswered = 0
        self._servers = bootstrap
        self._number = number
        self._clock = clock
        self._dice = Random(f"{seed}/fate/{flow.topic}/{number}")  # noqa: S311 -- load, not secrets
        self._records = records(flow, number, clock, seed)
        self._stopping = threading.Event()
        self._call_seconds = call_seconds
        self.died: BaseException | None = None
        self.pace = 1.0
        """Share of the flow's rate; may be changed from any thread."""

    def stop(self) -> None:
        """What has been handed to the producer is still delivered, or its transaction ended."""
        self._stopping.set()

    def run(self) -> None:
        """Writes until it is stopped; what it dies of is in `died`."""
        try:
            self._write_transactions() if self.flow.transactional else self._write_plain()
        except BaseException as bug:
            log.exception("%s died", self.name)
            self.died = bug

    # ── plain ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _write_plain(self) -> None:
        writer = self._writer(enable_idempotence=self.flow.idempotent)
        for count in self._paced():
            writer.write(self.flow.topic, self._counted(islice(self._records, count)), self._note)
        writer.producer.flush(_DELIVERY_MS / 1000)

    def write_exactly(self, count: int) -> None:
        """In the calling thread: `count` records to each partition, acknowledged on return."""
        writer, partitions = self._writer(enable_idempotence=True), self.flow.partitions
        numbered = enumerate(islice(self._records, count * partitions))
        spread = (record._replace(partition=number % partitions) for number, record in numbered)
        writer.write(self.flow.topic, self._counted(spread), self._note)
        writer.producer.flush(_CALL_SECONDS)

    def _note(self, record: FlowRecord, problem: KafkaError | None, message: Message) -> None:
        if problem is None:
            place, offset = Place(self.flow.topic, record.partition), message.offset()
            self.acknowledged[place].add(offset, record.digest)
            if self.flow.keys and record.key is not None and offset is not None:
                self.latest[place][record.key] = ReadRecord(offset, record.digest)
        elif problem.code() in _UNANSWERED:
            self.unanswered += 1
        else:
            self.refused += 1

    def _counted(self, sent: Iterable[FlowRecord]) -> Iterator[FlowRecord]:
        for record in sent:
            self.sent += 1
            yield record

    def _paced(self) -> Iterable[int]:
        """How many records are due now, until stopped."""
        last, owed = self._clock.monotonic(), 0.0
        while not self._stopping.wait(_TICK_SECONDS):
            now = self._clock.monotonic()
            owed += min(now - last, 1.0) * self.pace * self.flow.rate / self.flow.writers  # after a stall no flood
            last = now
            yield int(owed)
            owed %= 1

    # ── transactions ──────────────────────────────────────────────────────────────────────────────────────────────

    def _write_transactions(self) -> None:
        writer: LogWriter | None = None
        owed = 0
        for count in self._paced():
            owed += count
            if owed < _IN_A_TRANSACTION // 2:
                continue
            try:
                writer = writer or self._transactional()
                while owed > 0 and not self._stopping.is_set():
                    owed -= self._transaction(writer)
            except KafkaException as problem:
                log.info("%s begins anew: %s", self.name, problem)
                if not self._aborts(writer, problem):
                    writer = None  # the next one with this id ends what this one left open
                self._clock.wait(_AGAIN_SECONDS)

    def _aborts(self, writer: LogWriter | None, problem: KafkaException) -> bool:
        """Whether `writer` has aborted what was refused: else its transaction stays open until its timeout."""
        if writer is None or not problem.args[0].txn_requires_abort():
            return False
        try:
            with _fatal_errors():
                writer.producer.abort_transaction(self._call_seconds)
        except KafkaException:
            return False
        return True

    def _transactional(self) -> LogWriter:
        writer = self._writer(
            transactional_id=self.name, transaction_timeout_ms=_TRANSACTION_MS, delivery_timeout_ms=_TRANSACTION_MS
        )
        writer.producer.init_transactions(self._call_seconds)
        return writer

    def _transaction(self, writer: LogWriter) -> int:
        """One transaction from begin to end; its records."""
        wanted = list(self._counted(islice(self._records, self._dice.randint(1, _IN_A_TRANSACTION))))
        try:
            with _fatal_errors():
                self._written(writer, wanted)
        except KafkaException:
            self.unanswered += len(wanted)
            raise
        return len(wanted)

    def _written(self, writer: LogWriter, wanted: Sequence[FlowRecord]) -> None:
        seen: list[tuple[FlowRecord, int | None]] = []

        def note(record: FlowRecord, problem: KafkaError | None, message: Message) -> None:
            if problem is None:
                seen.append((record, message.offset()))

        producer = writer.producer
        producer.begin_transaction()
        writer.write(self.flow.topic, wanted, note)
        producer.flush(self._call_seconds)  # an abort with unsent messages fails
        if self._dice.random() < _ABORTED:
            producer.abort_transaction(self._call_seconds)
            self.aborted += len(wanted)
            return
        producer.commit_transaction(self._call_seconds)
        for record, offset in seen:
            self.acknowledged[Place(self.flow.topic, record.partition)].add(offset, record.digest)

    def _writer(self, **more: object) -> LogWriter:
        common: dict[str, object] = {
            "linger_ms": 5,
            "compression_type": self.flow.compression,
            "queue_buffering_max_messages": 200_000,
        }
        if self.flow.in_a_batch:
            common["batch_num_messages"] = self.flow.in_a_batch
        return LogWriter(settings(self._servers, **{"delivery_timeout_ms": _DELIVERY_MS} | common | more))


class Load:
    """All writers of all flows."""

    def __init__(
        self, bootstrap: str, flows: Sequence[Flow], clock: Clock, seed: int, *, call_seconds: float = _CALL_SECONDS
    ) -> None:
        self._clock = clock
        self.writers = [
            LoadWriter(bootstrap, flow, number, clock, seed, call_seconds=call_seconds)
            for flow in flows
            for number in range(flow.writers)
        ]

    def start(self) -> None:
        """Every writer begins."""
        for writer in self.writers:
            writer.start()

    def ease(self, pace: float) -> None:
        """From now on write at this share of every rate."""
        for writer in self.writers:
            writer.pace = pace

    def until(self, records: int, by: Deadline) -> None:
        """Returns when so many more have been acknowledged than were.

        Raises:
            TimedOut: they have not.
        """
        wanted = self.acknowledged + records
        until(
            lambda: self.acknowledged >= wanted,
            by,
            self._clock,
            lambda: f"producers are still {wanted - self.acknowledged:,} records short",
            _TICK_SECONDS,
        )

    def stop(self, by: Deadline) -> None:
        """Returns when everything that was handed over has been acknowledged or given up.

        Raises:
            TimedOut: a writer still waits for the source. And what the first of `dead` has died of.
        """
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.join(by.left(self._clock.monotonic()))
        if late := [writer.name for writer in self.writers if writer.is_alive()]:
            raise TimedOut(f"the source has not answered {', '.join(late)}")
        for died in self.dead.values():
            raise died

    @property
    def acknowledged(self) -> int:
        """Records so far; from any thread, a moment old."""
        return sum(total(dict(writer.acknowledged)) for writer in self.writers)

    @property
    def dead(self) -> dict[str, BaseException]:
        """Writers that have died of a bug, and of what; from any thread."""
        return {writer.name: writer.died for writer in self.writers if writer.died is not None}

    @property
    def aborted(self) -> int:
        """Records of transactions that were aborted on purpose."""
        return sum(writer.aborted for writer in self.writers)

    @property
    def refused(self) -> int:
        """Records that the cluster did not take, so far."""
        return sum(writer.refused for writer in self.writers)

    @property
    def sent(self) -> int:
        """Records that were handed to producers, so far."""
        return sum(writer.sent for writer in self.writers)

    @property
    def unanswered(self) -> int:
        """Records whose fate their producers do not know, so far."""
        return sum(writer.unanswered for writer in self.writers)

    def traces(self) -> Traces:
        """Everything that was acknowledged; once stopped."""
        return merged([writer.acknowledged for writer in self.writers])


def write_beginnings(bootstrap: str, flows: Sequence[Flow], clock: Clock, seed: int, kept: int = 0) -> Traces:
    """Topics whose logs begin later lose their first records; returns the `kept` ones behind these, by partition."""
    early: Traces = {}
    for flow in (flow for flow in flows if flow.deleted):
        writer = LoadWriter(bootstrap, flow, flow.writers, clock, seed)
        writer.write_exactly(flow.deleted + kept)
        delete_before(bootstrap, dict.fromkeys(writer.acknowledged, flow.deleted))
        for place, trace in writer.acknowledged.items():
            left = early[place] = Trace()
            for offset, digest in zip(trace.offsets, trace.digests, strict=True):
                if offset >= flow.deleted:
                    left.add(offset, digest)
    return early
