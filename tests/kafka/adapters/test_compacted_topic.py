"""What can go wrong with a database that is a topic, each on a real broker."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tanist.domain.answers import answered
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.errors import StateLogLost, TanistError, Unreachable, UnsafeStateTopic
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.records import Claim, PartitionObserved, PromotionEpoch
from tanist.domain.source_ends import SourceEnds
from tanist.domain.state_record import state_partition_of
from tanist.domain.states import MirrorState
from tanist.kafka.adapters import state_reader
from tanist.kafka.adapters.bounds import LogBoundsReader
from tanist.kafka.adapters.compacted_topic import WORKER, CompactedTopic, Shared, TopicLayout
from tanist.kafka.adapters.state_reader import Follower
from tanist.kafka.adapters.state_writer import StateWriter, confirmed
from tanist.kafka.adapters.tail import BRIEF_MS, Tail
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.protocol.stored import encode
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.router import Router
from tanist.ports.topics import NewTopic
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Message

    from tanist.kafka.adapters.tail import Burst
    from tanist.ports.clock import Deadline
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.conftest import ClusterFactory

SMALL = TopicLayout(partitions=6, allow_small=True)
CLOCK = SystemClock()
SOON = CLOCK.deadline
MIRROR = MirrorName("m")


@pytest.fixture
def east(clusters: Mapping[str, SandboxCluster]) -> Endpoint:
    return clusters["east"].endpoint()


def open_topic(
    endpoint: Endpoint, topic: str, writer: str | None = None, layout: TopicLayout = SMALL
) -> CompactedTopic:
    return CompactedTopic.open(endpoint, topic, SOON(20), layout=layout, writer=writer, create=True)


def producer(endpoint: Endpoint, **options: Any) -> Producer:
    return Producer({"bootstrap.servers": ",".join(map(str, endpoint.bootstrap)), **options})


def generation(count: int) -> PromotionEpoch:
    return PromotionEpoch(mirror=MIRROR, topic="t", count=count)


def states(count: int) -> list[PartitionObserved]:
    return [
        PartitionObserved(
            mirror=MIRROR, partition=MirrorPartition("t", n), state=MirrorState.MIRRORING, row=102, at=EpochMs(1)
        )
        for n in range(count)
    ]


@dataclass
class Confirmed:
    """A report of delivery; no broker can be made to forget an offset."""

    at: int | None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int | None:
        return self.at


def test_a_record_that_was_written_at_an_unknown_offset_was_not_written_at_0() -> None:
    """It counted as the first of its partition: who had written it did not wait until it was read back."""
    ends: dict[int, int | None] = {}
    for offset, end in ((0, 1), (7, 8), (None, None), (9, None)):
        confirmed(ends, cast("Message", Confirmed(offset)))
        assert ends == {3: end}


def test_who_writes_at_an_unknown_offset_reads_it_back_all_the_same(
    east: Endpoint, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the topic is asked for instead."""
    written = StateWriter.append
    monkeypatch.setattr(StateWriter, "append", lambda *args: dict.fromkeys(written(*args)))
    with open_topic(east, topic_name, WORKER) as store:
        for count in (1, 2):
            assert store.append([generation(count)], SOON(10))[generation(0).key] == generation(count)


def test_many_who_make_it_at_once_all_find_it(east: Endpoint, topic_name: str) -> None:
    """Who comes second is told that it exists before every broker knows of it: that is no missing topic."""
    with ThreadPoolExecutor(8) as pool:
        for n in range(5):
            opened = [pool.submit(open_topic, east, f"{topic_name}-{n}") for _ in range(8)]
            for each in opened:
                each.result(30).close()


def test_ready_although_the_topic_ends_with_an_aborted_transaction(east: Endpoint, topic_name: str) -> None:
    with open_topic(east, topic_name, WORKER) as store:
        store.append([generation(1)], SOON(10))
        failing = producer(east, **{"transactional.id": topic_name})
        failing.init_transactions(10)
        failing.begin_transaction()
        key, value = encode(generation(2))
        failing.produce(topic_name, value, key, partition=0)
        failing.flush(10)
        failing.abort_transaction(10)
        assert store.catch_up(SOON(5))[generation(1).key] == generation(1)
        with open_topic(east, topic_name) as another:
            assert another.view()[generation(1).key] == generation(1)


def test_an_open_transaction_of_somebody_else_does_not_block_readers(east: Endpoint, topic_name: str) -> None:
    with open_topic(east, topic_name, WORKER) as store:
        store.append([generation(1)], SOON(10))
        hanging = producer(east, **{"transactional.id": topic_name})
        hanging.init_transactions(10)
        hanging.begin_transaction()
        key, value = encode(generation(2))
        hanging.produce(topic_name, value, key, partition=0)
        hanging.flush(10)
        assert store.catch_up(SOON(5))[generation(1).key] == generation(1)
        hanging.abort_transaction(10)


@pytest.mark.parametrize(
    ("configs", "layout", "flaw"),
    [
        ({}, SMALL, "cleanup.policy is delete"),
        ({"cleanup.policy": "compact,delete"}, SMALL, "must be compact"),
        ({"cleanup.policy": "compact"}, TopicLayout(partitions=6), "replication factor is 1, required is 3"),
        ({"cleanup.policy": "compact"}, TopicLayout(partitions=50, allow_small=True), "it has 6 partitions"),
    ],
)
def test_an_unsafe_state_topic_is_refused(
    east: Endpoint, topic_name: str, configs: Mapping[str, str], layout: TopicLayout, flaw: str
) -> None:
    with over(KafkaTopics, east) as topics:
        topics.create([NewTopic(name=topic_name, partitions=6, replication_factor=1, configs=configs)], SOON(20))
    with pytest.raises(UnsafeStateTopic, match=flaw):
        open_topic(east, topic_name, layout=layout)


def test_a_missing_topic_is_named_and_not_made_by_a_reader(east: Endpoint, topic_name: str) -> None:
    with pytest.raises(UnknownTopicOrPartition, match=topic_name):
        CompactedTopic.open(east, topic_name, SOON(10), layout=SMALL)


def test_twenty_thousand_records_are_replayed_in_seconds(east: Endpoint, topic_name: str) -> None:
    """Of the processor: how long it takes depends on what else the machine does."""
    with open_topic(east, topic_name, WORKER) as store:
        store.append(states(20_000), SOON(60))
    began = time.process_time()
    with open_topic(east, topic_name) as store:
        assert len(store.view()) == 20_000
    assert time.process_time() - began < 5


def test_an_almost_empty_topic_of_fifty_partitions_opens_at_once(east: Endpoint, topic_name: str) -> None:
    layout = TopicLayout(allow_small=True)
    with open_topic(east, topic_name, WORKER, layout) as store:
        store.append([Claim(state_partition=n, epoch=1, worker="w") for n in range(50)], SOON(10))
    began = CLOCK.monotonic()
    with open_topic(east, topic_name, layout=layout) as store:
        assert len(store.view()) == 50
    assert CLOCK.monotonic() - began < 15, "half a second for each partition"


def test_one_bad_record_does_not_take_the_control_plane_down(east: Endpoint, topic_name: str) -> None:
    with open_topic(east, topic_name, WORKER) as store:
        vandal = producer(east)
        for key, value in ((b"claim/1", b"{"), (b"nonsense", b"\xff"), (b"claim/2", b'{"v":99}')):
            vandal.produce(topic_name, value, key, partition=1)
        vandal.flush(10)
        view = store.append([generation(1)], SOON(10))
        store.catch_up(SOON(10))
        assert dict(view) == {generation(1).key: generation(1)}
        assert [(each.key, bool(each.why)) for each in store.problems()] == [
            ("claim/1", True),
            ("claim/2", True),
            ("nonsense", True),
        ]
        store.append([Claim(state_partition=1, epoch=1, worker="w")], SOON(10))
        assert "claim/1" not in [each.key for each in store.problems()]


def test_a_record_lies_in_the_partition_of_its_slice(east: Endpoint, topic_name: str) -> None:
    record = next(each for each in states(50) if state_partition_of(MIRROR, each.partition, 6) == 4)
    ends = SourceEnds(mirror=MIRROR, chunk=0, ends=(), at=EpochMs(1))
    with open_topic(east, topic_name, WORKER) as store:
        for each, partition in ((record, 4), (Claim(state_partition=3, epoch=1, worker="w"), 3), (ends, 0)):
            before = store._bounds.ends(SOON(10))
            store.append([each], SOON(10))
            after = store._bounds.ends(SOON(10))
            assert {n for n in after if after[n] != before[n]} == {partition}


def test_many_threads_share_the_question_for_the_end(east: Endpoint, topic_name: str) -> None:
    with open_topic(east, topic_name) as store:
        asked = store._bounds._started
        together = threading.Barrier(64)

        def look() -> None:
            together.wait(10)
            store.catch_up(SOON(10))

        threads = [threading.Thread(target=look) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert 1 <= store._bounds._started - asked < 64


def test_a_topic_that_a_broker_has_not_heard_of_yet_is_waited_for(east: Endpoint, topic_name: str) -> None:
    """A worker that made the state topics ended at once where the broker that it asked next did not know them."""
    bounds = LogBoundsReader(Router(east, "tanist-test"), topic_name, 1)
    with ThreadPoolExecutor() as pool, closing(bounds):
        reported = pool.submit(bounds.starts, SOON(20))
        CLOCK.wait(0.5)
        with over(KafkaTopics, east) as topics:
            topics.create([NewTopic(name=topic_name, partitions=1, replication_factor=1)], SOON(20))
        assert reported.result(20) == {0: 0}
    with (
        closing(LogBoundsReader(Router(east, "tanist-test"), "no-such-topic", 1)) as nothing,
        pytest.raises(UnknownTopicOrPartition),
    ):
        nothing.ends(SOON(20))


def test_a_topic_deleted_under_it_is_named_at_once(east: Endpoint, topic_name: str) -> None:
    with open_topic(east, topic_name, WORKER) as store:
        store.append([generation(1)], SOON(10))
        admin = AdminClient({"bootstrap.servers": ",".join(map(str, east.bootstrap))})
        admin.delete_topics([topic_name])[topic_name].result(10)
        assert isinstance(lost(store, SOON(10)), UnknownTopicOrPartition | StateLogLost)
        assert store.ended() is None, "it may come back: brokers tell of a topic a moment late"
        open_topic(east, topic_name, WORKER).close()
        by = SOON(20)
        while store.ended() is None:
            assert by.left(CLOCK.monotonic()), "it goes on as if it were the topic that it was"
            CLOCK.wait(0.1)


def lost(store: CompactedTopic, by: Deadline) -> TanistError | None:
    """What a store says whose topic was deleted: the brokers do so a little later than the controller tells."""
    while by.left(CLOCK.monotonic()):
        try:
            store.catch_up(by)
        except TanistError as error:
            return error
    return None


def test_a_restarted_broker_costs_time_but_no_record(cluster_factory: ClusterFactory, topic_name: str) -> None:
    cluster = cluster_factory("lonely", brokers=1)
    with open_topic(cluster.endpoint(), topic_name, WORKER) as store:
        operator = open_topic(cluster.endpoint(), topic_name, f"tanist-{topic_name}")
        store.append([generation(1)], SOON(10))
        cluster.kill()
        restart = threading.Thread(target=cluster.start)
        restart.start()
        view = store.append(states(10), SOON(40))
        restart.join()
        assert len(view) == 11
        assert len(operator.catch_up(SOON(30))) == 11
        assert operator.append([generation(2)], SOON(30))[generation(2).key] == generation(2)
        operator.close()


def test_a_consumer_that_stops_for_ever_is_replaced_and_no_record_is_missed(
    east: Endpoint, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads of librdkafka waited for each other: what was written meanwhile was not seen any more."""
    monkeypatch.setattr(state_reader, "STUCK_SECONDS", 1.0)
    burst, stopped = Tail.burst, list[Tail | None]()

    def stop(tail: Tail, seconds: float) -> dict[str, Burst]:
        found = burst(tail, seconds)
        return {} if tail in stopped else found

    monkeypatch.setattr(Tail, "burst", stop)
    with closing(open_topic(east, topic_name, "a")) as store:
        store.append([generation(1)], SOON(20))
        stopped.append(store._reader._follower._tail)
        with closing(open_topic(east, topic_name, "b")) as other:
            other.append([generation(2), *states(20)], SOON(20))
        by, view = SOON(20), None
        while view is None and by.left(CLOCK.monotonic()):
            view = answered(lambda: store.catch_up(SOON(0.7)))
        assert view is not None
        assert view.promotions(MIRROR, "t") == 2
        assert len(view.all_observed()) == 20
        assert store._reader._follower._tail not in stopped


def test_an_address_where_nobody_listens_is_named_within_seconds(topic_name: str) -> None:
    nowhere = Endpoint(name="nowhere", bootstrap=(Address("127.0.0.1", 9),))
    began = CLOCK.monotonic()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        open_topic(nowhere, topic_name)
    assert CLOCK.monotonic() - began < 15, "the time-out is 20 s"


def test_a_topic_that_is_opened_later_is_read_without_waiting_for_the_next_second(
    east: Endpoint, topic_name: str
) -> None:
    """Each command that reads two state topics took a second longer: librdkafka looks for leaders once a second."""
    topics = [f"{topic_name}-{n}" for n in range(2)]
    for topic in topics:
        with closing(open_topic(east, topic, WORKER)) as store:
            store.append(states(3), SOON(20))

    def seconds() -> float:
        shared = Shared(Router(east, "test"), Follower(east, BRIEF_MS))
        with closing(shared.router), closing(shared.follower), ExitStack() as opened:
            began = 0.0
            for topic in topics:
                began = time.monotonic()
                store = CompactedTopic.open(east, topic, SOON(20), layout=SMALL, within=shared)
                opened.enter_context(closing(store))
            return time.monotonic() - began

    assert min(seconds() for _ in range(5)) < 0.5
