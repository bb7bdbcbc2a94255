"""A writer of load whose producer breaks."""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.verify.flows import Flow
from tanist_testkit.verify.writing import LoadWriter

FLOW = Flow(topic="orders", partitions=1, rate=1_000, transactional=True)


class Fenced:
    """A producer that hears among its callbacks that it has been fenced, as confluent-kafka tells it then."""

    def __init__(self) -> None:
        self.fatal = KafkaException(KafkaError(KafkaError._FENCED, fatal=True))

    def begin_transaction(self) -> None:
        pass

    def flush(self, seconds: float) -> None:
        del seconds
        raise SystemError("a callback returned a result with an exception set") from self.fatal


class Written:
    """In place of a `LogWriter`."""

    def __init__(self) -> None:
        self.producer = Fenced()

    def write(self, *_: object) -> None:
        pass


def test_a_producer_that_hears_of_its_fence_among_callbacks_is_replaced(monkeypatch: Any) -> None:
    """Its thread died of the SystemError, and with it a storm that had lost nothing."""
    replaced, made = threading.Event(), list[Written]()

    def transactional(_: LoadWriter) -> Written:
        made.append(Written())
        if len(made) > 1:
            replaced.set()
        return made[-1]

    monkeypatch.setattr(LoadWriter, "_transactional", transactional)
    writer = LoadWriter("nowhere:9092", FLOW, 0, SystemClock(), 1)
    writer.start()
    assert replaced.wait(20)
    writer.stop()
    writer.join(20)
    assert writer.died is None
