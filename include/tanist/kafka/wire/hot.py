"""The copy path: fetches and appends on connections of their own, several in flight, no batch ever copied."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import BrokerError, MalformedFrame
from tanist.kafka.protocol.frames import (
    BY_ID,
    BY_NAME,
    FETCH,
    FETCH_BY_EPOCH,
    FETCH_BY_ID,
    FETCH_BY_NAME,
    PRODUCE,
    FetchAnswer,
    ProduceAnswer,
    SessionFetch,
    correlation_id,
    fetch_request,
    parse_fetch,
    parse_produce,
    produce_request,
)
from tanist.kafka.wire.connection import ReceiveBuffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tanist.kafka.protocol.fetch_session import FetchSession
    from tanist.kafka.protocol.frames import FetchLimits, FetchPosition, FetchVersion, ProduceBatch, ProduceVersion
    from tanist.kafka.wire.connection import Connection
    from tanist.ports.clock import Deadline


def fetch_version(connection: Connection, *, with_ids: bool = True) -> FetchVersion:
    """The version of a fetch whose positions all have topic ids, or (`with_ids=False`) not all of them."""
    if with_ids and connection.speaks(FETCH, FETCH_BY_ID.number):
        return FETCH_BY_ID
    return FETCH_BY_EPOCH if connection.speaks(FETCH, FETCH_BY_EPOCH.number) else FETCH_BY_NAME


def produce_version(connection: Connection, *, with_ids: bool = True) -> ProduceVersion:
    """The version of an append whose batches all have topic ids, or (`with_ids=False`) not all of them."""
    return BY_ID if with_ids and connection.speaks(PRODUCE, BY_ID.number) else BY_NAME


_NOTHING_SEEN: Final = FetchAnswer(0, [], looked=False)


class _Pipeline:
    """Requests in flight on one connection, answered in their order."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._expected: deque[int] = deque()

    @property
    def in_flight(self) -> int:
        return len(self._expected)

    @property
    def readable(self) -> bool:
        """Whether collecting an answer would not wait long."""
        return bool(self._expected) and self.connection.readable

    def _post(self, number: int, views: Sequence[bytes | memoryview], by: Deadline) -> None:
        self.connection.send(views, by)
        self._expected.append(number)

    def _take(self, buffer: ReceiveBuffer, by: Deadline) -> memoryview:
        frame = self.connection.receive(buffer, by)
        number = self._expected.popleft()
        if correlation_id(frame) != number:
            self.connection.close()
            raise MalformedFrame(f"{self.connection.peer}: answer {correlation_id(frame)} to request {number}")
        return frame


class Fetches(_Pipeline):
    """Post a fetch, do something else, receive it later.

    Where the broker can (3.1), and all positions have a topic id, topics of these ids alone are read. `session`:
    fetches follow each other, one at a time, and an answer leaves out positions of which the broker has no news.
    """

    def __init__(self, connection: Connection, session: FetchSession | None = None) -> None:
        super().__init__(connection)
        self._session = session
        self._versions: deque[FetchVersion] = deque()
        """Of each fetch in flight."""
        self._names: dict[str | bytes, str] = {}
        """Of the topics that were asked for, by what a version calls them."""

    def post(
        self,
        positions: Sequence[FetchPosition],
        limits: FetchLimits,
        by: Deadline,
        forgotten: Iterable[tuple[str, int]] | None = None,
    ) -> None:
        """`forgotten`: as `FetchSession.next` has it."""
        number = self.connection.next_correlation_id()
        session = self._session
        with_ids = all(each.topic_id is not None for each in positions)
        if session is not None and forgotten is not None:
            with_ids = with_ids and session.takes_ids
        version = fetch_version(self.connection, with_ids=with_ids)
        fetch = SessionFetch(0, -1, positions) if session is None else session.next(version, positions, forgotten)
        self._post(number, [fetch_request(version, number, self.connection.client_id, fetch, limits)], by)
        self._names |= {version.topic_of(each): each.topic for each in fetch.positions}
        self._versions.append(version)
        self.connection.totals.fetches += 1

    def receive(self, buffer: ReceiveBuffer, by: Deadline) -> FetchAnswer:
        """The oldest fetch in flight. Its records lie in `buffer`, until that is used again."""
        frame = self._take(buffer, by)
        version = self._versions.popleft()
        if self._session is None:
            return self._throttled(parse_fetch(version, frame, self._names))
        try:
            answer = self._throttled(parse_fetch(version, frame, self._names))
        except BrokerError:
            going_on = self._session.goes_on
            self._session.ended()
            if not going_on:
                raise
            return _NOTHING_SEEN  # the session alone may be what it refuses: the next fetch begins another one
        self._session.answered(answer.session_id)
        return answer

    def _throttled(self, answer: FetchAnswer) -> FetchAnswer:
        self.connection.totals.throttled_ms += answer.throttle_ms
        return answer


class Appends(_Pipeline):
    """Post batches, several requests in flight, and collect the answers in the order of the posts.

    Where the broker can (4.1), and all batches of a request have a topic id, it is for topics of these ids alone.
    `replication_ms` is how long a leader waits for its followers before it answers REQUEST_TIMED_OUT.
    `transactional_id`: of the transaction that all batches are in; they are for topics by name then, because Produce 12
    and later turn on the newer protocol of transactions (KIP-890).
    """

    def __init__(self, connection: Connection, replication_ms: int = 30_000, transactional_id: str = "") -> None:
        super().__init__(connection)
        self._transactional_id = transactional_id
        self._replication_ms = replication_ms
        self._buffer = ReceiveBuffer()
        self._early: deque[ProduceAnswer] = deque()
        self._posted: deque[tuple[ProduceVersion, list[tuple[Any, int]]]] = deque()
        """Of each post in flight: the version, and topic and partition of each batch."""

    @property
    def in_flight(self) -> int:
        """Posts whose answers have not been collected."""
        return len(self._expected) + len(self._early)

    @property
    def early(self) -> bool:
        """Whether an answer was received before it was collected."""
        return bool(self._early)

    @property
    def readable(self) -> bool:
        """Whether collecting an answer would not wait long."""
        return bool(self._early) or super().readable

    def post(self, batches: Sequence[ProduceBatch], by: Deadline) -> None:
        """At least one batch, one for a partition. When this returns the kernel has them, their memory is free."""
        while self._expected and self.connection.login_due:
            self._early.append(self._receive(by))
        number = self.connection.next_correlation_id()
        with_ids = not self._transactional_id and all(each.topic_id is not None for each in batches)
        version = produce_version(self.connection, with_ids=with_ids)
        client_id, wait_ms, owner = self.connection.client_id, self._replication_ms, self._transactional_id
        views = produce_request(version, number, client_id, batches, wait_ms, owner)
        self._post(number, views, by)
        self._posted.append((version, [(version.topic_of(each), each.partition) for each in batches]))

    def collect(self, by: Deadline) -> ProduceAnswer:
        """The oldest answer, its partitions in the order of the batches.

        After any error here nobody knows what was appended: recover.
        """
        return self._early.popleft() if self._early else self._receive(by)

    def _receive(self, by: Deadline) -> ProduceAnswer:
        frame = self._take(self._buffer, by)
        version, places = self._posted.popleft()
        throttle, partitions = parse_produce(version, frame)
        self.connection.totals.throttled_ms += throttle
        found = {(each.topic, each.partition): each for each in partitions}
        try:
            return ProduceAnswer(throttle, [found[place] for place in places])
        except KeyError as missing:
            raise MalformedFrame(f"{self.connection.peer}: a produce answer without {missing}") from missing
