"""Consumer groups at work: one whose numbers are carried over, and one that is moved by a failover."""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tanist.domain.errors import TimedOut
from tanist_testkit.verify.clients import consumer
from tanist_testkit.verify.reading import LogExtent, ReadRecord
from tanist_testkit.verify.traces import Place
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from confluent_kafka import Consumer

    from tanist.ports.clock import Clock, Deadline

_WAIT_SECONDS: Final = 0.2
_AT_ONCE: Final = 500
_COORDINATOR_NOT_READY: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Carried:
    """Committed offsets, and the record that each side served next; none where no committed record follows."""

    committed: Mapping[Place, int]
    source_next: Mapping[Place, ReadRecord]
    copy_next: Mapping[Place, ReadRecord]

    @property
    def agreeing(self) -> int:
        """Partitions where the copy served exactly the record, at exactly the offset, that the source would have."""
        return sum(self.copy_next.get(place) == seen for place, seen in self.source_next.items())


def carry(group: str, source: str, copy: str, logs: Mapping[Place, LogExtent], by: Deadline, clock: Clock) -> Carried:
    """Read half of each log at `source` as `group`, commit; commit the same numbers at `copy`, and read on there.

    A log whose second half is empty or aborted is read to its end: no record there says that the half is over.

    Raises:
        TimedOut. KafkaException: a commit was refused.
    """
    committed: dict[Place, int] = {}

    def half(place: Place, seen: ReadRecord) -> bool:
        over = seen.offset >= (logs[place].start + logs[place].end) // 2
        committed[place] = seen.offset if over else seen.offset + 1
        return over

    with closing(consumer(source, group=group)) as client:
        _serve(client, {place: log.start for place, log in logs.items()}, half, by, clock)
        commit(client, committed, by, clock)
    with closing(consumer(copy, group=group)) as client:
        commit(client, committed, by, clock)
    return Carried(committed, *(_next(group, side, committed, by, clock) for side in (source, copy)))


def _next(group: str, bootstrap: str, places: Iterable[Place], by: Deadline, clock: Clock) -> dict[Place, ReadRecord]:
    """What `group` is served first, when it starts from what it has committed there."""
    found: dict[Place, ReadRecord] = {}
    with closing(consumer(bootstrap, group=group)) as client:
        stored = client.committed([TopicPartition(*place) for place in places], timeout=by.left(clock.monotonic()))
        starts = {Place(each.topic, each.partition): each.offset for each in stored}
        _serve(client, starts, lambda place, seen: found.setdefault(place, seen) is not None, by, clock)
    return found


def _serve(
    client: Consumer,
    starts: Mapping[Place, int],
    enough: Callable[[Place, ReadRecord], bool],
    by: Deadline,
    clock: Clock,
) -> None:
    """Reads each partition from its start until a record is `enough`, or to its end."""
    client.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
    going_on = set(starts)
    while going_on:
        for message in client.consume(_AT_ONCE, _WAIT_SECONDS):
            place, problem = Place.of(message), message.error()
            ended = problem is not None and problem.code() == KafkaError._PARTITION_EOF  # noqa: SLF001
            if place in going_on and (ended or (problem is None and enough(place, ReadRecord.of(message)))):
                going_on.discard(place)
        if not by.left(clock.monotonic()):
            raise TimedOut(f"a consumer group was not served {', '.join(map(str, sorted(going_on)))}")


def commit(client: Consumer, positions: Mapping[Place, int], by: Deadline, clock: Clock) -> None:
    """Returns when brokers have confirmed all of them. A coordinator that is not ready yet is asked again.

    Raises:
        TimedOut: it was not ready in time.
        KafkaException: a commit was refused.
    """

    def done() -> bool:
        try:
            _commit(client, positions)
        except KafkaException as refused:
            if refused.args[0].code() not in _COORDINATOR_NOT_READY:
                raise
            return False
        return True

    until(done, by, clock, lambda: "the coordinator of a consumer group is not ready")


def _commit(client: Consumer, positions: Mapping[Place, int]) -> None:
    """Returns when brokers have confirmed all of them. Raises KafkaException."""
    wanted = [TopicPartition(*place, offset) for place, offset in positions.items()]
    for reported in client.commit(offsets=wanted, asynchronous=False) or ():
        if reported.error is not None:
            raise KafkaException(reported.error)


class Member(threading.Thread):
    """It reads, commits what it has read, and remembers where it began.

    `first`: the first record of each partition, `reached`: how far it has read, in offsets to read next.
    `committed`: partitions of which brokers have confirmed a position.
    """

    def __init__(self, group: str, bootstrap: str, topics: Sequence[str], clock: Clock, *, anew: bool = False) -> None:
        """`anew`: the group has no positions yet, it begins at the ends. Otherwise it must have some."""
        super().__init__(name=f"member-{group}", daemon=True)
        self.first: dict[Place, ReadRecord] = {}
        self.reached: dict[Place, int] = {}
        self.committed: set[Place] = set()
        self.read = 0
        self._client = consumer(bootstrap, group=group, without_position="latest" if anew else "error")
        self._topics = list(topics)
        self._clock = clock
        self._stopping = threading.Event()
        self._assigned = threading.Event()

    def run(self) -> None:
        """Reads and commits until it is stopped."""
        with closing(self._client):
            self._client.subscribe(self._topics, on_assign=lambda *_: self._assigned.set())
            while not self._stopping.is_set():
                self._read_some()

    def _read_some(self) -> None:
        positions: dict[Place, int] = {}
        for message in self._client.consume(_AT_ONCE, _WAIT_SECONDS):
            if message.error() is None:
                place, seen = Place.of(message), ReadRecord.of(message)
                self.first.setdefault(place, seen)
                positions[place] = seen.offset + 1
                self.read += 1
        self.reached |= positions
        if not positions:
            return
        try:
            _commit(self._client, positions)
            self.committed |= positions.keys()
        except KafkaException as refused:
            log.info("%s could not commit: %s", self.name, refused)

    def ready(self, by: Deadline) -> None:
        """Returns when it reads. Raises TimedOut."""
        until(self._assigned.is_set, by, self._clock, lambda: f"{self.name} was given no partitions")

    def until(self, places: Iterable[Place], by: Deadline) -> None:
        """Returns when it has read and committed something of each. Raises TimedOut, with those it got nothing of."""
        wanted = set(places)

        def late() -> str:
            return f"{self.name} has read nothing of {', '.join(map(str, sorted(wanted - self.committed)))}"

        until(lambda: wanted <= self.committed, by, self._clock, late)

    def stop(self) -> None:
        """It leaves its group, if anybody still answers; not waited for."""
        self._stopping.set()
