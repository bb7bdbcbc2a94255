"""A member of a consumer group at work: it reads, commits what it has read, and remembers where it began."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import KafkaException, TopicPartition

from tanist.domain.errors import TimedOut
from tanist_testkit.verify.clients import consumer
from tanist_testkit.verify.traces import Place, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka import Consumer, Message

    from tanist.ports.clock import Clock, Deadline

_AT_ONCE: Final = 500
_WAIT_SECONDS: Final = 0.2

log = logging.getLogger(__name__)


class ReadRecord(NamedTuple):
    """A record that a consumer was given."""

    offset: int
    digest: int


class Member(threading.Thread):
    """Of `group`. `first`: the first record of each partition, `reached`: how far it has read, in offsets to read next.

    `committed`: positions that brokers have confirmed.
    """

    def __init__(self, group: str, bootstrap: str, topics: Sequence[str], clock: Clock, *, anew: bool = False) -> None:
        """`anew`: the group has no positions yet, it begins at the ends. Otherwise it must have some."""
        super().__init__(name=f"member-{group}", daemon=True)
        self.first: dict[Place, ReadRecord] = {}
        self.reached: dict[Place, int] = {}
        self.committed: dict[Place, int] = {}
        self.read = 0
        self._client = consumer(bootstrap, group=group, without_position="latest" if anew else "error")
        self._topics = list(topics)
        self._clock = clock
        self._stopping = threading.Event()
        self._assigned = threading.Event()

    def run(self) -> None:
        try:
            self._client.subscribe(self._topics, on_assign=self._on_assign)
            while not self._stopping.is_set():
                self._read_some()
        finally:
            self._client.close()

    def _on_assign(self, _client: Consumer, _partitions: list[TopicPartition]) -> None:
        self._assigned.set()

    def _read_some(self) -> None:
        taken = [message for message in self._client.consume(_AT_ONCE, _WAIT_SECONDS) if message.error() is None]
        positions = dict(map(self._take, taken))
        self.reached |= positions
        self.read += len(taken)
        try:
            self._commit(positions)
        except KafkaException as refused:
            log.info("%s could not commit: %s", self.name, refused)

    def _take(self, message: Message) -> tuple[Place, int]:
        place, offset = Place(str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
        if place not in self.first:
            seen = digest(message.key(), message.value(), message.headers(), message.timestamp()[1])  # type: ignore[arg-type]
            self.first[place] = ReadRecord(offset, seen)
        return place, offset + 1

    def _commit(self, positions: dict[Place, int]) -> None:
        if not positions:
            return
        wanted = [TopicPartition(*place, offset) for place, offset in positions.items()]
        for reported in self._client.commit(offsets=wanted, asynchronous=False) or ():
            if reported.error is None:
                self.committed[Place(reported.topic, reported.partition)] = reported.offset

    def ready(self, by: Deadline) -> None:
        """Returns when it reads. Raises TimedOut."""
        if not self._assigned.wait(by.left(self._clock.monotonic())):
            raise TimedOut(f"{self.name} was given no partitions")

    def until(self, places: Iterable[Place], by: Deadline) -> None:
        """Returns when it has read and committed something of each.

        Raises:
            TimedOut: with the partitions that it got nothing of.
        """
        wanted = set(places)
        while missing := wanted - self.committed.keys():
            if not by.left(self._clock.monotonic()):
                raise TimedOut(f"{self.name} has read nothing of {', '.join(map(str, sorted(missing)))}")
            self._clock.wait(_WAIT_SECONDS)

    def stop(self) -> None:
        """It leaves its group, if anybody still answers; not waited for."""
        self._stopping.set()
