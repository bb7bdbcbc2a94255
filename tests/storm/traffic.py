"""The clients of one episode: who writes to the source, who tries the destination, and a group that reads."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as At

from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import KafkaError, Message

    from tests.kafka.failover.conftest import KafkaSide

USER = "operator"
"""May write to the topics of the source, and to those of the destination once they have taken over."""
SIZE = 200
"""Bytes of a value: more than the fence of a cluster without an authorizer lets through."""
COMMIT_EVERY = 15
_SECONDS = 6.0
_PAUSE_SECONDS = 0.08


class Acknowledged(NamedTuple):
    """`since`: when it was handed to the producer, by the monotonic clock."""

    topic: str
    partition: int
    offset: int
    value: bytes
    since: float


class Pen(threading.Thread):
    """Writes to each of `topics` in turn, every `pause` seconds, until it is stopped; refusals do not stop it."""

    def __init__(self, side: KafkaSide, topics: Callable[[], Sequence[str]], mark: str, pause: float) -> None:
        super().__init__(name=f"pen-{mark}", daemon=True)
        self.taken: list[Acknowledged] = []
        self.refused = 0
        self.died: BaseException | None = None
        self._side, self._topics, self._mark, self._pause = side, topics, mark, pause
        self._stopping = threading.Event()
        self._number = 0

    def run(self) -> None:
        try:
            writer = self._writer()
            while not self._stopping.wait(self._pause):
                for topic in self._topics():
                    self._write(writer, topic)
            writer.producer.flush(_SECONDS)
        except BaseException as bug:  # noqa: BLE001 -- reported by whoever looks at `died`
            self.died = bug

    def once(self) -> list[Acknowledged]:
        """In the calling thread: one record to each of its topics, and what was acknowledged of them."""
        writer = self._writer()
        for topic in self._topics():
            self._write(writer, topic)
        writer.producer.flush(_SECONDS)
        return self.taken

    def _writer(self) -> LogWriter:
        return LogWriter(self._side.client(USER, acks="all", message_timeout_ms="4000", linger_ms="2"))

    def _write(self, writer: LogWriter, topic: str) -> None:
        self._number += 1
        value = f"{self._mark}/{topic}/{self._number}".encode().ljust(SIZE, b".")
        record = FlowRecord(key=b"%d" % self._number, value=value)
        try:
            writer.write(topic, [record], partial(self._note, topic, time.monotonic()))
        except KafkaException:  # known by now to be refused
            self.refused += 1

    def _note(self, topic: str, since: float, record: FlowRecord, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused += 1
            return
        taken = Acknowledged(topic, message.partition() or 0, message.offset() or 0, record.value or b"", since)
        self.taken.append(taken)

    def stop(self) -> None:
        self._stopping.set()
        self.join(2 * _SECONDS)


_PROBES = count()


def probe(side: KafkaSide, topic: str, mark: str) -> list[Acknowledged]:
    """One record by USER, unlike all others, as a list: empty where it is refused."""
    return Pen(side, lambda: [topic], f"{mark}-{next(_PROBES)}", 0.0).once()


class Reader(threading.Thread):
    """A group with one member, which commits what it has read; at the source, and after `move` at the destination."""

    def __init__(self, sides: tuple[KafkaSide, KafkaSide], topics: Sequence[str], group: str) -> None:
        super().__init__(name=f"reader-{group}", daemon=True)
        self.read = 0
        self.furthest: dict[tuple[str, int], int] = {}
        """At the source: behind the last record read there, by topic and partition."""
        self.moved = threading.Event()
        self._here, self._there = sides
        self._wanted, self._group = list(topics), group
        self._stopping = threading.Event()
        self.died: BaseException | None = None

    def run(self) -> None:
        try:
            self._read(self._here, self.moved)
            if not self._stopping.is_set():
                self._read(self._there, self._stopping)
        except BaseException as bug:  # noqa: BLE001 -- reported by whoever looks at `died`
            self.died = bug

    def move(self) -> None:
        self.moved.set()

    def stop(self) -> None:
        self._stopping.set()
        self.moved.set()
        self.join(2 * _SECONDS)

    def _read(self, side: KafkaSide, until: threading.Event) -> None:
        options = {"group_id": self._group, "auto_offset_reset": "earliest", "enable_auto_commit": "false"}
        consumer = Consumer(side.client(USER, session_timeout_ms="6000", **options))
        try:
            consumer.subscribe(self._wanted)
            read = 0
            while not until.is_set():
                message = consumer.poll(0.2)
                if message is None or message.error():
                    continue
                read, self.read = read + 1, self.read + 1
                if side is self._here:
                    self.furthest[str(message.topic()), message.partition() or 0] = (message.offset() or 0) + 1
                if read % COMMIT_EVERY == 0:
                    with suppress(KafkaException):  # a rebalance, or a position that a failover is about to commit
                        consumer.commit(asynchronous=False)
        finally:
            consumer.close()


class Watch(threading.Thread):
    """Looks at the group's positions at the destination all the time: each one that became smaller is a violation."""

    def __init__(self, side: KafkaSide, places: Sequence[tuple[str, int]], group: str) -> None:
        super().__init__(name=f"watch-{group}", daemon=True)
        self.backwards: list[str] = []
        self.looks = 0
        self.first: dict[tuple[str, int], int] = {}
        self.last: dict[tuple[str, int], int] = {}
        self.died: BaseException | None = None
        self._side, self._places, self._group = side, list(places), group
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            consumer = Consumer(self._side.client("admin", group_id=self._group, enable_auto_commit="false"))
            while not self._stopping.wait(0.25):
                with suppress(KafkaException):  # a transaction is open on one of them, or there is no coordinator yet
                    self._look(consumer.committed([At(*place) for place in self._places], timeout=2))
            consumer.close()
        except BaseException as bug:  # noqa: BLE001 -- reported by whoever looks at `died`
            self.died = bug

    def _look(self, found: Sequence[At]) -> None:
        self.looks += 1
        for at in found:
            if at.error is not None or at.offset < 0:
                continue
            place = (str(at.topic), at.partition)
            before = self.last.get(place, -1)
            if at.offset < before:
                self.backwards.append(f"group {self._group} on {place[0]}-{place[1]}: {before} to {at.offset}")
            self.first.setdefault(place, at.offset)
            self.last[place] = at.offset

    def stop(self) -> None:
        self._stopping.set()
        self.join(2 * _SECONDS)


@dataclass(frozen=True, slots=True)
class Clients:
    """Of one mirror: who writes on both sides, a group, and who looks at its positions."""

    source: Pen
    destination: Pen
    reader: Reader
    watch: Watch

    @classmethod
    def of(
        cls,
        sides: tuple[KafkaSide, KafkaSide],
        topics: tuple[Sequence[str], Callable[[], Sequence[str]]],
        places: Sequence[tuple[str, int]],
        group: str,
        mark: str,
    ) -> Clients:
        """`topics`: what is written to at the source, and what at the destination. `mark`: in every record."""
        at_source, at_destination = topics
        return cls(
            Pen(sides[0], lambda: at_source, mark, _PAUSE_SECONDS),
            Pen(sides[1], at_destination, f"west-{mark}", 5 * _PAUSE_SECONDS),
            Reader(sides, sorted({topic for topic, _ in places}), group),
            Watch(sides[1], places, group),
        )

    @property
    def all(self) -> tuple[Pen | Reader | Watch, ...]:
        return (self.source, self.destination, self.reader, self.watch)

    def start(self) -> None:
        for client in self.all:
            client.start()

    def stop(self) -> None:
        for client in self.all:
            client.stop()
