"""What a worker knows of the leaders of a source, and since when it does not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.errors import TimedOut
from tanist.domain.names import BrokerId, EpochMs, SourcePartition
from tanist.fetcher import sources
from tanist.fetcher.source_ends import Contact
from tanist.fetcher.sources import LOOK_EVERY_SECONDS, SourceLeaders, SourceTopic
from tanist.kafka.wire.router import PartitionInfo, TopicInfo
from tests.builders import a_mirror
from tests.fakes.clock import JumpingClock
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.ports.clock import Deadline

FIRST, SECOND = (SourcePartition("orders", n) for n in range(2))
SPEC = a_mirror()


class Metadata:
    """A source that names leaders: of `orders`, by partition; None: there is none."""

    def __init__(self) -> None:
        self.leaders: list[int | None] = [1, 1]
        self.answers = threading.Event()
        """It does not answer until this is set."""
        self.answers.set()
        self.asked = 0

    def refresh(self, topics: Sequence[str], by: Deadline) -> None:
        """The next `topics` has what is so now."""
        self.asked += 1
        if not self.answers.wait(20):
            raise TimedOut("no answer")

    def interrupt(self) -> None:
        self.answers.set()

    def close(self) -> None: ...

    def topics(self) -> Mapping[str, TopicInfo]:
        some = (BrokerId(1),)
        parts = (
            PartitionInfo(n, None if leader is None else BrokerId(leader), 0, some, some, ())
            for n, leader in enumerate(self.leaders)
        )
        return {"orders": TopicInfo("orders", None, internal=False, partitions=tuple(parts), error=None)}


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Metadata:
    found = Metadata()
    monkeypatch.setattr(sources, "Router", lambda *_: found)
    return found


@pytest.fixture
def leaders(source: Metadata, clock: JumpingClock) -> Iterator[SourceLeaders]:
    found = SourceLeaders(lambda: Endpoint(name="east", bootstrap=(Address("127.0.0.1", 1),)), "t", clock)
    yield found
    found.close()


def test_a_partition_without_a_leader_is_silent_since_it_was_first_seen_so(
    leaders: SourceLeaders, source: Metadata, clock: JumpingClock
) -> None:
    """The cluster answers, the partition does not: its last look must not move with those of the others."""

    def look() -> EpochMs:
        clock.jump(LOOK_EVERY_SECONDS)
        leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(5), stale=True)
        return clock.now()

    led = look()
    assert leaders.contact(FIRST) == leaders.contact(SECOND) == Contact(led)
    source.leaders = [None, 1]
    lost = look()
    assert (leaders.contact(FIRST), leaders.contact(SECOND)) == (Contact(led, lost), Contact(lost))
    later = look()
    assert (leaders.contact(FIRST), leaders.contact(SECOND)) == (Contact(led, lost), Contact(later))
    source.leaders = [1, 1]
    again = look()
    assert leaders.contact(FIRST) == leaders.contact(SECOND) == Contact(again)


def leader(leaders: SourceLeaders) -> int | None:
    key = leaders.thread_key(SPEC, FIRST)
    return None if key is None else key.broker


def test_while_a_source_does_not_answer_all_stays_as_it_was_and_its_answer_is_taken_once_it_comes(
    leaders: SourceLeaders, source: Metadata, clock: JumpingClock
) -> None:
    wanted = {"orders": SourceTopic(2)}
    leaders.look(SPEC, wanted, clock.deadline(5), stale=True)
    before = leaders.looks, leaders.contact(FIRST), leader(leaders)
    source.answers.clear()
    source.leaders = [2, 2]
    clock.jump(1)
    leaders.look(SPEC, wanted, clock.deadline(0.05), stale=True)
    assert (leaders.looks, leaders.contact(FIRST), leader(leaders)) == before
    assert before[2] == 1
    source.answers.set()

    def moved() -> bool:
        leaders.look(SPEC, wanted, clock.deadline(0), stale=True)
        return leader(leaders) == 2

    until(moved, 5)
    assert leaders.looks == before[0] + 1


def test_an_answer_about_a_topic_that_was_replaced_in_the_mirror_meanwhile_is_not_taken(
    leaders: SourceLeaders, source: Metadata, clock: JumpingClock
) -> None:
    """It may be of the topic before: a new one would be taken for deleted, or for another than it is."""
    leaders.look(SPEC, {"orders": SourceTopic(2, "one")}, clock.deadline(5), stale=True)
    source.answers.clear()
    clock.jump(1)
    leaders.look(SPEC, {"orders": SourceTopic(2, "one")}, clock.deadline(0.05), stale=True)
    leaders.look(SPEC, {"orders": SourceTopic(2, "two")}, clock.deadline(0), stale=True)
    looks = leaders.looks
    source.answers.set()

    def looked() -> bool:
        leaders.look(SPEC, {"orders": SourceTopic(2, "two")}, clock.deadline(0), stale=True)
        return leaders.looks > looks

    until(looked, 5)
    assert source.asked == 3
