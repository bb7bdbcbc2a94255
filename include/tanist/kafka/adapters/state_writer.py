"""Writers of state topics: operators use transactions, workers do not."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from tanist.domain.errors import CouldNotTell, OperatorFenced, TimedOut
from tanist.domain.records import STATE_TOPIC
from tanist.domain.state_record import partition_of
from tanist.kafka.adapters.librdkafka import (
    TIMED_OUT,
    UNREACHABLE,
    ConnectionErrorTracker,
    Operation,
    cause,
    configuration,
    translate,
)
from tanist.kafka.protocol.stored import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Message

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.errors import TanistError
    from tanist.domain.names import MirrorName
    from tanist.domain.state_record import StateRecord
    from tanist.ports.clock import Deadline

WORKER: Final = "worker"
"""The writer of workers, which is guarded by claims and not by a transactional id."""

_TICK: Final = 0.1
_ABORT: Final = 2.0
_TRANSACTION_MS: Final = 15_000
"""After this time the brokers abort the transaction of a dead operator; until then no reader gets past it."""


def operator_of(mirror: MirrorName, topic: str = STATE_TOPIC) -> str:
    """The transactional id of operators of `mirror`; of two operators, the one that opened first is fenced.

    The mirror's lock rests on that of `__mirror_state`, so writers of other topics have other ids. Mirror names have
    no '/'.
    """
    return f"tanist-{mirror}" if topic == STATE_TOPIC else f"tanist-{mirror}/{topic}"


def confirmed(ends: dict[int, int | None], message: Message) -> None:
    """Record the offset of a written record: None once one of its partition was acknowledged without an offset.

    A broker acknowledges a repeated batch without an offset if it no longer remembers that of the first.
    """
    partition, offset = message.partition(), message.offset()
    if partition is None:
        raise CouldNotTell(f"a record of topic {message.topic()} was acknowledged without a partition")
    before = ends.get(partition, 0)
    ends[partition] = None if offset is None or before is None else max(before, offset + 1)


class StateWriter:
    """Appends records, one call at a time; thread-safe. Transactional unless `writer` is WORKER."""

    def __init__(self, endpoint: Endpoint, topic: str, partitions: int, writer: str) -> None:
        self._endpoint, self._topic, self._partitions, self._writer = endpoint, topic, partitions, writer
        self._transactional = writer != WORKER
        self._errors = ConnectionErrorTracker(endpoint)
        right = f"WRITE on topic {topic}"
        self._doing = Operation(f"write to topic {topic}", right)
        self._opening = Operation(f"open {writer} for changes", f"WRITE on transactional id {writer} and {right}")
        self._turn = threading.Lock()
        self._lost = ""
        self._producer: Producer | None = None

    def open(self, by: Deadline) -> None:
        """An operator fences the earlier operator of its mirror, so it must read the view afterwards.

        For a worker this only spares the first append half a second.

        Raises:
            AuthorizationFailed, TimedOut, Unreachable: nobody was fenced.
        """
        with self._turn:
            self._ready(by)

    def append(self, records: Sequence[StateRecord], by: Deadline) -> dict[int, int | None]:
        """Write, and return the offset after the last record by partition; None if no broker reported it.

        Raises: as the port `StateStore.append`.
        """
        if not self._turn.acquire(timeout=by.left(time.monotonic())):
            raise TimedOut(
                f"{self._doing.what} of {self._endpoint.name}: another append is in progress, nothing was written"
            )
        try:
            return self._append(self._ready(by), records, by)
        except OperatorFenced as fenced:
            self._lost = fenced.reason
            raise
        finally:
            self._turn.release()

    def close(self) -> None:
        with self._turn:
            if self._producer:
                self._producer.purge()
            self._producer = None

    # ── the producer ──────────────────────────────────────────────────────────────────────────────────────────────

    def _ready(self, by: Deadline) -> Producer:
        if self._lost:
            raise OperatorFenced(self._lost)
        if self._producer is None:
            producer = Producer(self._configuration())
            if self._transactional:
                self._until(by, producer, lambda: producer.init_transactions(_TICK), self._opening)
            self._producer = producer
        return self._producer

    def _configuration(self) -> dict[str, object]:
        options: dict[str, object] = {"acks": "all", "enable_idempotence": True, "linger_ms": 0}
        if self._transactional:
            options |= {"transactional_id": self._writer, "transaction_timeout_ms": _TRANSACTION_MS}
        return configuration(self._endpoint, "writer", self._errors, **options)

    def _append(self, producer: Producer, records: Sequence[StateRecord], by: Deadline) -> dict[int, int | None]:
        try:
            return (self._transaction if self._transactional else self._send)(producer, records, by)
        except KafkaException as exception:
            self._give_up(producer)
            raise self._named(cause(exception), self._doing) from exception
        except BaseException:
            self._give_up(producer)
            raise

    def _give_up(self, producer: Producer) -> None:
        """Abort, so that no part of a failed append becomes visible later, after something newer.

        An operator that cannot abort its transaction must not begin again: that would fence an operator that has opened
        the mirror since, on the basis of an old view.
        """
        producer.purge()
        producer.flush(0)
        if self._transactional:
            try:
                producer.abort_transaction(_ABORT)
            except KafkaException as exception:
                self._lost = (
                    self._lost or f"an append failed and could not be aborted ({cause(exception).str()}): open it again"
                )
            else:
                return
        self._producer = None

    def _until(self, by: Deadline, producer: Producer, step: Callable[[], None], doing: Operation) -> None:
        """Repeat a step of the transaction protocol while it may still succeed."""
        while True:
            try:
                step()
            except KafkaException as exception:
                error = cause(exception)
                with contextlib.suppress(KafkaException):  # a fatal error is raised here once more
                    producer.poll(0)
                if login_error := self._errors.login_error(doing):
                    raise login_error from exception
                passing = error.retriable() or error.code() in TIMED_OUT | UNREACHABLE
                if not passing or by.left(time.monotonic()) <= 0:
                    raise self._named(error, doing) from exception
            else:
                return

    def _named(self, error: KafkaError, doing: Operation) -> TanistError:
        if error.code() in TIMED_OUT and (cause := self._errors.likely_cause(doing)):
            return cause
        return translate(error, doing, self._endpoint)

    # ── two ways to write ─────────────────────────────────────────────────────────────────────────────────────────

    def _transaction(self, producer: Producer, records: Sequence[StateRecord], by: Deadline) -> dict[int, int | None]:
        producer.begin_transaction()
        ends = self._send(producer, records, by)
        self._until(by, producer, lambda: producer.commit_transaction(_TICK), self._doing)
        return ends

    def _send(self, producer: Producer, records: Sequence[StateRecord], by: Deadline) -> dict[int, int | None]:
        ends: dict[int, int | None] = {}
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error:
                failures.append(error)
            else:
                confirmed(ends, message)

        for record in records:
            key, value = encode(record)
            producer.produce(
                self._topic, value, key, partition=partition_of(key.decode(), self._partitions), on_delivery=delivered
            )
        self._flush(producer, by, failures)
        return ends

    def _flush(self, producer: Producer, by: Deadline, failures: list[KafkaError]) -> None:
        while producer.flush(min(_TICK, by.left(time.monotonic()))):
            login_error = self._errors.login_error(self._doing)
            if failures or login_error or by.left(time.monotonic()) <= 0:
                break
        if failures:
            raise self._named(failures[0], self._doing)
        if len(producer):
            raise self._errors.likely_cause(self._doing) or TimedOut(
                f"{self._doing.what} of {self._endpoint.name}: not acknowledged, so it may or may not have been written"
            )
