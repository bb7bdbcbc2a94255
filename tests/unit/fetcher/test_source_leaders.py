"""What a worker knows of the leaders of a source, and since when it does not."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.errors import AnotherCluster, TimedOut
from tanist.domain.names import BrokerId, EpochMs, MirrorPartition, SourcePartition, topic_id_text
from tanist.fetcher import sources
from tanist.fetcher.planning import Owned
from tanist.fetcher.source_ends import Contact
from tanist.fetcher.sources import LOOK_EVERY_SECONDS, SourceLeaders, SourceTopic
from tanist.kafka.wire.router import PartitionInfo, TopicInfo
from tests.builders import a_mirror, a_topic
from tests.fakes.clock import JumpingClock
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.errors import BrokerError
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
        self.interrupted = False
        self.refused: Exception | None = None
        self.ends_at_once = True
        """What waits ends when it is interrupted."""
        self.closed_by: threading.Thread | None = None

    def refresh(self, topics: Sequence[str], by: Deadline) -> None:
        """The next `topics` has what is so now."""
        self.asked += 1
        if self.refused is not None:
            raise self.refused
        if not self.answers.wait(20):
            raise TimedOut("no answer")

    def interrupt(self) -> None:
        self.interrupted = True
        if self.ends_at_once:
            self.answers.set()

    def close(self) -> None:
        self.closed_by = threading.current_thread()

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


# ── a topic that left the mirror, was created again at the source, and was added again ────────────────────────────


class Cumulative(Metadata):
    """As a router knows topics: also those that it is not asked for any more."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = {"orders": uuid4(), "bills": uuid4()}
        self.known: dict[str, TopicInfo] = {}
        self.error: BrokerError | None = None

    def refresh(self, topics: Sequence[str], by: Deadline) -> None:
        at_source = dict(self.ids)
        super().refresh(topics, by)
        some = (BrokerId(1),)
        part = PartitionInfo(0, some[0], 0, some, some, ())
        self.known |= {
            name: TopicInfo(
                name, at_source[name], internal=False, partitions=() if self.error else (part,), error=self.error
            )
            for name in topics
        }

    def topics(self) -> Mapping[str, TopicInfo]:
        return dict(self.known)

    def wanted(self, *topics: str) -> dict[str, SourceTopic]:
        return {name: SourceTopic(1, topic_id_text(self.ids[name])) for name in topics}


@pytest.fixture
def source_of_two(source: Metadata, monkeypatch: pytest.MonkeyPatch) -> Cumulative:
    """Instead of `source`."""
    found = Cumulative()
    monkeypatch.setattr(sources, "Router", lambda *_: found)
    return found


def owned(source: Cumulative) -> Owned:
    topic = a_topic("orders", mirror=SPEC.mirror, source_topic_id=topic_id_text(source.ids["orders"]))
    return Owned(SPEC, topic, MirrorPartition("orders", 0), 0)


def test_a_new_topic_of_a_name_is_not_judged_by_what_was_known_of_the_one_before(
    source_of_two: Cumulative, leaders: SourceLeaders, clock: JumpingClock
) -> None:
    """Its source may be slow, or another one has used the time of the round: it would FAIL as re-created."""
    source = source_of_two
    leaders.look(SPEC, source.wanted("orders"), clock.deadline(5), stale=False)
    source.ids["orders"] = uuid4()
    source.answers.clear()
    clock.jump(1)
    leaders.look(SPEC, source.wanted("orders"), clock.deadline(0), stale=False)
    assert leaders.report(owned(source)) is None


@pytest.mark.parametrize("answers", [True, False])
def test_nor_if_it_was_not_in_the_mirror_for_a_while(
    source_of_two: Cumulative, leaders: SourceLeaders, clock: JumpingClock, *, answers: bool
) -> None:
    source = source_of_two
    leaders.look(SPEC, source.wanted("orders", "bills"), clock.deadline(5), stale=False)
    clock.jump(LOOK_EVERY_SECONDS)
    leaders.look(SPEC, source.wanted("bills"), clock.deadline(5), stale=False)
    source.ids["orders"] = uuid4()
    if not answers:
        source.answers.clear()
    clock.jump(1)
    leaders.look(SPEC, source.wanted("orders", "bills"), clock.deadline(0.2), stale=False)
    assert leaders.report(owned(source)) is None


def test_a_late_answer_does_not_make_an_absence_longer(
    source_of_two: Cumulative, leaders: SourceLeaders, clock: JumpingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of_two
    source.error = UnknownTopicOrPartition("orders")
    monkeypatch.setattr(sources, "missing_topics", lambda _router, topics, _by: frozenset(topics))
    for _ in range(2):
        leaders.look(SPEC, source.wanted("orders"), clock.deadline(5), stale=False)
        clock.jump(2)
    source.answers.clear()
    leaders.look(SPEC, source.wanted("orders"), clock.deadline(0), stale=False)
    source.answers.set()
    assert leaders._answer is not None
    wait([leaders._answer])
    clock.jump(8)
    leaders.look(SPEC, source.wanted("orders"), clock.deadline(0), stale=False)
    assert leaders._deletions.looks("orders") == 0, "all three looks are of the same 4 s"


def test_after_an_error_nobody_waits_for_the_source(
    leaders: SourceLeaders, source: Metadata, clock: JumpingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each look at a source that is gone would hold up a round."""
    leaders.error = TimedOut("no answer")
    waited = list[object]()
    monkeypatch.setattr(sources, "wait", lambda *_: waited.append(1))
    source.answers.clear()
    leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(5), stale=True)
    assert not waited


def test_an_answer_is_as_old_as_its_question(leaders: SourceLeaders, source: Metadata, clock: JumpingClock) -> None:
    """A worker that was frozen meanwhile takes it hours later."""
    source.answers.clear()
    leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(0), stale=False)
    until(lambda: source.asked == 1, 5)
    asked = clock.now()
    clock.jump(3600)
    source.answers.set()

    def taken() -> bool:
        leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(0), stale=False)
        return leaders.looks == 1

    until(taken, 5)
    assert leaders.contact(FIRST) == Contact(asked)


def test_a_partition_that_the_source_does_not_name_has_no_leader(
    leaders: SourceLeaders, source: Metadata, clock: JumpingClock
) -> None:
    source.leaders = [1]
    leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(5), stale=False)
    assert leaders.thread_key(SPEC, FIRST) is not None
    assert leaders.thread_key(SPEC, SECOND) is None


def test_nobody_copies_from_another_cluster(
    leaders: SourceLeaders, source: Metadata, clock: JumpingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(5), stale=False)
    assert leaders.thread_key(SPEC, FIRST) is not None

    def elsewhere(*_: object) -> None:
        raise AnotherCluster("'east' leads to cluster x")

    monkeypatch.setattr(source, "refresh", elsewhere)
    clock.jump(LOOK_EVERY_SECONDS)
    leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(5), stale=False)
    assert leaders.thread_key(SPEC, FIRST) is None


def test_what_waits_for_a_source_ends_when_its_mirror_does_and_then_closes_its_connections(
    leaders: SourceLeaders, source: Metadata, clock: JumpingClock
) -> None:
    """A mirror that was deleted left its thread until the worker ended, and whoever closed it waited for it."""
    source.answers.clear()
    clock.jump(LOOK_EVERY_SECONDS)
    leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(0.01), stale=True)
    [waits] = [each for each in threading.enumerate() if each.name == "t-leaders"]
    assert waits.daemon, "a host name that is being resolved kept the process from ending"
    leaders.close()
    assert source.interrupted
    until(lambda: source.closed_by is not None, 5)
    assert source.closed_by is not threading.current_thread()
    until(lambda: not [each for each in threading.enumerate() if each.name == "t-leaders"], 5)


def test_one_thread_at_a_time_asks_a_source(leaders: SourceLeaders, source: Metadata, clock: JumpingClock) -> None:
    """An answer that nobody wants any more may be on its way when a topic was replaced."""
    source.answers.clear()
    clock.jump(LOOK_EVERY_SECONDS)
    leaders.look(SPEC, {"orders": SourceTopic(2, "a")}, clock.deadline(0.01), stale=True)
    until(lambda: source.asked == 1, 5)
    leaders.look(SPEC, {"orders": SourceTopic(2, "b")}, clock.deadline(0.05), stale=True)
    assert (source.asked, leaders.is_waiting) == (1, True)
    source.answers.set()
    until(lambda: source.asked == 2, 5)


def test_a_source_fails_since_the_first_of_the_looks_that_failed(source: Metadata, clock: JumpingClock) -> None:
    """And each of them counts. A look that is answered ends it."""
    failed = list[int]()
    leaders = SourceLeaders(
        lambda: Endpoint(name="east", bootstrap=(Address("127.0.0.1", 1),)), "f", clock, lambda: failed.append(1)
    )

    def look() -> float | None:
        clock.jump(LOOK_EVERY_SECONDS)
        leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(5), stale=False)
        if leaders._answer is not None:  # after an error nobody waits
            wait([leaders._answer])
            leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(5), stale=False)
        return leaders.failing_since

    assert (look(), failed) == (None, [])
    source.refused = TimedOut("no answer")
    since = look()
    assert (since, failed) == (clock.monotonic(), [1])
    assert (look(), failed) == (since, [1, 1])
    source.refused = None
    assert (look(), leaders.error, failed) == (None, None, [1, 1])
    leaders.interrupt()
    assert source.interrupted, "whoever waits for it is to end at once"
    leaders.close()


def test_connections_are_closed_once_the_look_that_uses_them_has_ended(
    leaders: SourceLeaders, source: Metadata, clock: JumpingClock
) -> None:
    source.answers.clear()
    source.ends_at_once = False
    clock.jump(LOOK_EVERY_SECONDS)
    leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(0.01), stale=True)
    until(lambda: source.asked == 1, 5)
    leaders.close()
    assert not source.answers.wait(0.1)
    assert source.closed_by is None
    source.answers.set()
    until(lambda: source.closed_by is not None, 5)


def test_what_nobody_foresaw_comes_out_where_the_answer_is_taken(
    leaders: SourceLeaders, source: Metadata, clock: JumpingClock
) -> None:
    """Else the answer would be waited for, for ever."""
    source.refused = ValueError("a bug")
    clock.jump(LOOK_EVERY_SECONDS)
    with pytest.raises(ValueError, match="a bug"):
        leaders.look(SPEC, {"orders": SourceTopic(2)}, clock.deadline(5), stale=True)
    assert not leaders.is_waiting
