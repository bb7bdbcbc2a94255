"""A source of three brokers, without an authorizer: what its logs hold uncommitted, and who goes on trying."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tanist.domain.names import MirrorPartition
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import End, list_offsets
from tanist.kafka.wire.router import Router
from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.spec import ClusterSpec
from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter
from tests.kafka.failover.conftest import COMMAND_SECONDS, KafkaSide, Pair, running
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
SOON = SystemClock().deadline
STALLED = 3
STALLED_SECONDS = 4.0
SOURCE = ClusterSpec(
    name="east",
    brokers=3,
    heap_mb=384,
    properties={
        "broker.session.timeout.ms": "60000",  # who is frozen stays in the cluster: only its fetches stall
        "replica.lag.time.max.ms": "120000",  # and in the replicas in sync, however slow this machine is
    },
)


@pytest.fixture(scope="module")
def trio(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home: Path = tmp_path_factory.mktemp("source-of-three")
    with running(guardian, client_config, home, source=SOURCE) as pair:
        pair.worker()
        yield pair


def led_by_the_first(side: KafkaSide, name: str, partitions: int) -> None:
    """A topic whose partitions broker 1 leads, the others follow."""
    client = AdminClient(side.client())
    replicas = [[1, 2, STALLED]] * partitions
    client.create_topics([NewTopic(name, partitions, replica_assignment=replicas)])[name].result(20)


def mirrored(pair: Pair, name: str, partitions: int) -> str:
    """A mirror of a topic of that name, with all it has, and the hash of a plan of its failover that is approved."""
    led_by_the_first(pair.east, name, partitions)
    assert pair.east.writes(name, range(10), partitions=partitions)
    pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name)
    pair.tanist("mirrors", "wait", name, "--for", "lag=0", "--timeout", "200s")
    return pair.approved(name)


def ends(side: KafkaSide, name: str, partitions: int, which: End) -> list[int]:
    with Router(side.cluster.endpoint(), "tanist-test") as router:
        found = list_offsets(router, {MirrorPartition(name, n): which for n in range(partitions)}, SOON(20))
        return [each for each in found.values() if isinstance(each, int)]


class Writer(LogWriter):
    """Remembers what was acknowledged."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        super().__init__(configuration)
        self.acknowledged: set[bytes] = set()

    def writes(self, topic: str, partition: int, values: range) -> None:
        self.write(topic, (FlowRecord(partition, value=b"%d" % n) for n in values), self._note)

    def _note(self, record: FlowRecord, error: object, _message: object) -> None:
        if error is None:
            self.acknowledged.add(record.value or b"")


@contextmanager
def frozen(pair: Pair, broker: int) -> Iterator[None]:
    pair.east.cluster.pause(broker)
    try:
        yield
    finally:
        pair.east.cluster.unpause(broker)


def test_what_was_acknowledged_above_a_watermark_that_stands_still_is_drained(trio: Pair) -> None:
    """An in-sync follower stalls: with acks=1 records above the watermark are acknowledged, with acks=all they wait.

    The drain waits for the leader's true end, until the follower has caught up.
    """
    plan = mirrored(trio, "stalled", 2)
    one = Writer(trio.east.client(acks="1", linger_ms="5"))
    # a request that is asked again meets the fence
    patient = {"request_timeout_ms": "120000", "socket_timeout_ms": "125000", "message_timeout_ms": "130000"}
    every = Writer(trio.east.client(acks="all", linger_ms="5", **patient))
    one.writes("stalled", 0, range(999, 1000))
    every.writes("stalled", 1, range(1999, 2000))
    assert one.producer.flush(30) == every.producer.flush(30) == 0  # who asks the broker that stalls waits as long
    with frozen(trio, STALLED):
        one.writes("stalled", 0, range(1000, 1500))
        every.writes("stalled", 1, range(2000, 2300))
        assert one.producer.flush(45) == 0
        assert len(one.acknowledged) == 501
        assert ends(trio.east, "stalled", 1, End.HIGH_WATERMARK) < ends(trio.east, "stalled", 1, End.LOG_END)
        asked = ("failover", "run", "stalled", "--plan", plan, "--fence-proof", "1s", "--drain", "90s", "--json")
        trio.tanist(*asked, "--until", "fence")
        draining = forks.Command(forks.COMMANDS, (*asked, "--destination", "west"), trio.environment(), trio.home)
        SystemClock().wait(STALLED_SECONDS)
        assert draining.alive, draining.wait(1)
    ended = draining.wait(COMMAND_SECONDS)
    assert ended.code == 0, ended
    assert json.loads(ended.out)["items"][0]["status"] == "DONE"
    every.producer.flush(60)
    there = {value for _, _, value in trio.west.read("stalled") if value is not None}
    assert len(one.acknowledged - there) == 0
    assert len(every.acknowledged - there) == 0
    assert len(every.acknowledged) > 1


@contextmanager
def trying(side: KafkaSide, topic: str) -> Iterator[list[bytes]]:
    """A transactional producer that never gives up; what it has committed."""
    committed: list[bytes] = []
    stop, ready = threading.Event(), threading.Event()

    def work() -> None:
        producer = Producer(side.client(transactional_id=f"never-{topic}", linger_ms="0"))
        producer.init_transactions(30)
        n = 0
        while not stop.is_set():
            value = b"%d" % (n := n + 1) + b"x" * 100
            try:
                producer.begin_transaction()
                producer.produce(topic, value, partition=0)
                producer.commit_transaction(20)
            except KafkaException:
                producer.abort_transaction(20)
            else:
                committed.append(value)
                if len(committed) == 20:
                    ready.set()
            stop.wait(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(60)
        yield committed
    finally:
        stop.set()
        thread.join()


def read_committed(side: KafkaSide, topic: str) -> list[bytes]:
    consumer = Consumer(side.client(group_id="look", enable_partition_eof="true", auto_offset_reset="earliest"))
    consumer.assign([At(topic, 0, 0)])
    found: list[bytes] = []
    while (message := consumer.poll(20)) is not None and not message.error():
        found.append(message.value() or b"")
    consumer.close()
    return found


def test_a_transactional_producer_that_never_gives_up_holds_no_drain(trio: Pair) -> None:
    """Behind max.message.bytes each of its transactions spends an offset on the marker of its abort."""
    plan = mirrored(trio, "retried", 1)
    asked = ("failover", "run", "retried", "--plan", plan, "--fence-proof", "3s", "--drain", "20s", "--json")
    with trying(trio.east, "retried") as committed:
        trio.tanist(*asked, "--until", "fence")
        before = ends(trio.east, "retried", 1, End.HIGH_WATERMARK)
        SystemClock().wait(1)
        assert ends(trio.east, "retried", 1, End.HIGH_WATERMARK) > before, "it has given up"
        assert trio.tanist(*asked).item["status"] == "DONE"
    written = [value for value in read_committed(trio.west, "retried") if value.endswith(b"x")]
    assert written == committed


def test_what_the_old_source_takes_past_a_near_fence_is_told_for_as_long_as_it_is_there(trio: Pair) -> None:
    """Acknowledged at the source after everything was done: small records pass `max.message.bytes`."""
    plan = mirrored(trio, "leaky", 1)
    trio.tanist("failover", "run", "leaky", "--plan", plan, "--fence-proof", "1s", "--drain", "60s")

    def left_behind() -> dict[str, str]:
        item = trio.tanist("status", "leaky", "--json", expected=None).item
        (found,) = (each for each in item["checks"] if each["check"] == "left_behind")
        return dict(found)

    assert left_behind()["verdict"] == "PASS"
    late = Writer(trio.east.client(acks="all"))
    late.writes("leaky", 0, range(2))
    assert late.producer.flush(20) == 0
    assert len(late.acknowledged) == 2, "they pass the fence"
    assert left_behind()["verdict"] == "FAIL"
    assert "leaky-0: the old source has 2 offsets that the new primary does not have" in left_behind()["reason"]


def recorded_end(pair: Pair, mirror: str) -> int:
    """The true end of the only partition, as a worker has recorded it; 0: it has not."""
    lines = pair.tanist("state", "dump", "--key", f"ends/{mirror}/", "--json").out
    found = [end for row in json.loads(lines)["items"] for end in row["value"]["ends"]]
    return max((end["log_end"] or 0 for end in found), default=0)


def test_a_reserve_begins_at_the_true_end_of_a_source_that_died_above_its_watermark(trio: Pair) -> None:
    """Five hundred records were acknowledged with acks=1 while a follower stalled: clients know their offsets.

    The last test of the file: the source does not come back.
    """
    mirrored(trio, "above", 1)
    one = Writer(trio.east.client(acks="1", linger_ms="5"))
    with frozen(trio, STALLED):
        one.writes("above", 0, range(1000, 1500))
        assert one.producer.flush(45) == 0
        true_end = ends(trio.east, "above", 1, End.LOG_END)[0]
        assert ends(trio.east, "above", 1, End.HIGH_WATERMARK) < [true_end]
        until(lambda: recorded_end(trio, "above") == true_end, 40)
        trio.east.cluster.kill()
    plan = trio.tanist("failover", "plan", "above", "--mode", "unplanned", "--json", expected=None).item
    assert plan["reserve"]["offsets"] >= 500
