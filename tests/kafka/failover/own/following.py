"""Groups that follow the primary, from the positions that the product has committed at each cluster."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.verify.clients import consumer
from tanist_testkit.verify.groups import commit
from tanist_testkit.verify.reading import ReadRecord
from tanist_testkit.verify.traces import Place
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Message

SECONDS = 60.0
_AT_ONCE = 50
_POLL_SECONDS = 0.2


class FollowingGroup:
    """A group with one member, which commits behind each poll.

    `delivered`: how often it was given each record, by identity. `unsettled`: the same of polls that it has not
    committed, or committed only after it was told of the move. `latest`: of compacted topics, which are in no count.
    """

    def __init__(self, name: str, topics: Sequence[str], compacted: Sequence[str]) -> None:
        self.name = name
        self.delivered: Counter[int] = Counter()
        self.unsettled: Counter[int] = Counter()
        self.latest: dict[Place, dict[bytes, int]] = {}
        self.topics, self._compacted = [*topics, *compacted], frozenset(compacted)
        self._member: _Member | None = None
        self._stays = 0

    @property
    def member(self) -> _Member:
        assert self._member is not None
        if self._member.died is not None:
            raise self._member.died
        return self._member

    def read_at(self, bootstrap: str) -> None:
        """From now on: at its first cluster from the first record, at others only if the group has positions there."""
        self._member = _Member(self, bootstrap, "error" if self._stays else "earliest")
        self._stays += 1
        self._member.start()

    def expect_move(self) -> None:
        """What is delivered from now on the next primary may deliver again."""
        self.member.moving.set()

    def leave(self, *, dies: bool = False, drained: bool = False) -> None:
        """Returns when it has left its cluster. `dies`: after a poll that it does not commit; `drained`: at the end."""
        self.member.dies, self.member.drains = dies, drained
        self.member.leaving.set()
        self.member.join(SECONDS)
        assert not self.member.is_alive()

    def must_get(self, wanted: Counter[int]) -> None:
        """Returns when each record of `wanted` was delivered. AssertionError: says how many were not."""
        self._wait(lambda: sum((wanted - self.delivered).values()))

    def must_get_more(self, records: int) -> None:
        """Returns when so many more were delivered."""
        enough = self.delivered.total() + records
        self._wait(lambda: max(0, enough - self.delivered.total()))

    def _wait(self, lacking: Callable[[], int]) -> None:
        """Raises what its member has died of."""

        def has_all() -> bool:
            assert self.member.is_alive()
            return not lacking()

        until(has_all, SECONDS, lambda: f"{self.name} lacks {lacking()} records")

    def take(self, messages: Sequence[Message], *, unsettled: bool) -> None:
        found: Counter[int] = Counter()
        for message in messages:
            place, record = Place.of(message), ReadRecord.of(message)
            if place.topic in self._compacted:
                self.latest.setdefault(place, {})[bytes(message.key() or b"")] = record.digest
            else:
                found[record.digest] += 1
        self.delivered = self.delivered + found
        if unsettled:
            self.unsettled = self.unsettled + found


class _Member(threading.Thread):
    """Of one group, at one cluster."""

    def __init__(self, group: FollowingGroup, bootstrap: str, without_position: str) -> None:
        super().__init__(name=f"{group.name} at {bootstrap}", daemon=True)
        self.moving, self.leaving = threading.Event(), threading.Event()
        self.dies = self.drains = False
        self.died: BaseException | None = None
        self._group, self._clock = group, SystemClock()
        self._client = consumer(bootstrap, group=group.name, without_position=without_position)

    def run(self) -> None:
        try:
            with closing(self._client):
                self._client.subscribe(self._group.topics)
                while self._reads_on():
                    pass
        except BaseException as bug:  # noqa: BLE001 -- raised by whoever asks for the member
            self.died = bug

    def _reads_on(self) -> bool:
        leaves, moves = self.leaving.is_set(), self.moving.is_set()
        messages = [each for each in self._client.consume(_AT_ONCE, _POLL_SECONDS) if _is_record(each)]
        dies = leaves and self.dies and bool(messages)
        self._group.take(messages, unsettled=moves or dies)
        if dies:
            return False
        if messages:
            behind = {Place.of(each): (each.offset() or 0) + 1 for each in messages}
            commit(self._client, behind, self._clock.deadline(SECONDS), self._clock)
        return not leaves or self.dies or (self.drains and bool(messages))


def _is_record(message: Message) -> bool:
    """Raises KafkaException: an error that does not pass, such as a partition without a position of the group."""
    error = message.error()
    if error is None:
        return True
    if error.code() == KafkaError._AUTO_OFFSET_RESET or error.fatal():
        raise KafkaException(error)
    return False
