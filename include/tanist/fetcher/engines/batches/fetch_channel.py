"""One fetch at a time to one broker of the source, on a connection of its own, over one session (KIP-227)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.names import EpochMs
from tanist.fetcher.engines.batches.decisions import AnswerTimes
from tanist.kafka.protocol.codes import NONE
from tanist.kafka.protocol.fetch_session import FetchSession
from tanist.kafka.wire.connection import ReceiveBuffer
from tanist.kafka.wire.hot import Fetches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.domain.names import BrokerId
    from tanist.kafka.protocol.frames import FetchAnswer, FetchedPartition, FetchLimits, FetchPosition
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock

ANSWER_SECONDS: Final = 15.0


class FetchChannel:
    """Owned by the fetcher thread. `post`, then `take`. Records stay readable until the second `take` after theirs."""

    def __init__(self, source: Router, broker: BrokerId, clock: Clock, name: str) -> None:
        """`name`: of the connection."""
        self._source = source
        self._broker = broker
        self._clock = clock
        self._name = name
        self._session = FetchSession()
        self._fetches: Fetches | None = None
        self._buffers = (ReceiveBuffer(), ReceiveBuffer())
        self._by = clock.deadline(0)
        self._asked_at = clock.now()
        self._wait_ms = 0
        self.turn = 0
        """Counts fetches."""
        self.in_flight = False

    @property
    def connection(self) -> Connection:
        """Of the fetch in flight."""
        assert self._fetches is not None  # noqa: S101  # the caller's contract: after `post`
        return self._fetches.connection

    @property
    def ready(self) -> bool:
        """Whether `take` would return, or fail, at once."""
        if not self.in_flight or self._fetches is None:
            return False
        return self._fetches.readable or not self._by.left(self._clock.monotonic())

    def post(
        self,
        positions: Sequence[FetchPosition],
        limits: FetchLimits,
        forgotten: Iterable[tuple[str, int]] | None = None,
    ) -> None:
        """Send a fetch; `forgotten` as `FetchSession.next` has it.

        Raises:
            TanistError: it was not sent.
        """
        self._by = self._clock.deadline(ANSWER_SECONDS)
        fetches = self._open({each.topic for each in positions})
        self.turn += 1
        self._asked_at, self._wait_ms = self._clock.now(), limits.max_wait_ms
        fetches.post(positions, limits, self._by, forgotten)
        self.in_flight = True

    def _open(self, topics: Iterable[str]) -> Fetches:
        if self._fetches is None or self._fetches.connection.lost:
            if self._broker not in self._source.brokers:
                self._source.refresh(sorted(topics), self._by)
            connection = self._source.connection(self._broker, self._by, channel=self._name)
            self._session.ended()
            self._fetches = Fetches(connection, self._session)
        return self._fetches

    def take(self) -> FetchAnswer:
        """The answer to the fetch in flight.

        Raises:
            TanistError: there is none; then `forget`.
        """
        assert self._fetches is not None  # noqa: S101  # the caller's contract: after `post`
        self.in_flight = False
        return self._fetches.receive(self._buffers[self.turn % 2], self._by)

    def look(self, partitions: Iterable[FetchedPartition]) -> AnswerTimes:
        """When the answer that has just been taken was made, at the earliest.

        It may have waited in the socket of a busy or frozen process since. Without records the leader has waited for
        some as long as it was asked to.
        """
        if any(each.records or each.error_code != NONE or each.diverging is not None for each in partitions):
            return AnswerTimes(self._asked_at, self._asked_at)
        return AnswerTimes(self._asked_at, EpochMs(min(self._clock.now(), self._asked_at + self._wait_ms)))

    def forget(self) -> None:
        """The broker is lost: the next fetch begins with nothing."""
        self.in_flight, self._fetches, self._session = False, None, FetchSession()
