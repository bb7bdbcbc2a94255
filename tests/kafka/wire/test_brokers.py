"""Every request against a real broker, and the copy path with batches that a real client made."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tanist.domain.broker_errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    OffsetOutOfRange,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import AnotherCluster, TanistError, TimedOut, Unreachable
from tanist.domain.names import BrokerId, MirrorPartition, ProducerId
from tanist.kafka.protocol.batch import ControlType, control_type, filler_batch, patch, same_records, walk
from tanist.kafka.protocol.codes import error_for
from tanist.kafka.protocol.fetch_session import FetchSession
from tanist.kafka.protocol.frames import FetchLimits, FetchPosition, Isolation, ProduceBatch
from tanist.kafka.wire import admin
from tanist.kafka.wire.connection import ReceiveBuffer
from tanist.kafka.wire.hot import Appends, Fetches
from tanist.kafka.wire.identity import identify
from tanist.kafka.wire.requests import (
    End,
    EpochEnd,
    Markers,
    delete_records,
    describe_producers,
    fetch,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    topic_ids,
    write_markers,
)
from tanist.kafka.wire.router import Router
from tanist.kafka.wire.transactions import TransactionalId
from tanist.ports.clock import Deadline
from tests.leading import leads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.conftest import ClusterFactory

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def soon(seconds: float = 20) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def servers(clusters: Mapping[str, SandboxCluster]) -> str:
    return ",".join(map(str, clusters["east"].endpoint().bootstrap))


@pytest.fixture
def router(clusters: Mapping[str, SandboxCluster]) -> Iterator[Router]:
    with Router(clusters["east"].endpoint(), "tanist-test") as router:
        yield router


@pytest.fixture
def create(servers: str, router: Router) -> Callable[..., list[MirrorPartition]]:
    """Make a topic and wait until our router sees its leaders, and they that they lead."""

    def make(name: str, partitions: int = 1, **config: str) -> list[MirrorPartition]:
        topic = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        client = AdminClient({"bootstrap.servers": servers, "log_level": 2})  # must outlive its futures
        client.create_topics([topic])[name].result(20)
        until(router, lambda: leads(router, name, partitions, soon()))
        return [MirrorPartition(name, n) for n in range(partitions)]

    return make


@pytest.fixture
def producer_id(router: Router) -> ProducerId:
    return init_producer_id(router, soon())


def appends(router: Router) -> Appends:
    return Appends(router.connection(BrokerId(1), soon(), "append"))


def append(router: Router, to: MirrorPartition, batch: bytearray | memoryview) -> int:
    """One batch alone; its base offset, or the error of the broker."""
    pipeline = appends(router)
    pipeline.post([ProduceBatch(to.topic, to.partition, memoryview(batch))], soon())
    [answer] = pipeline.collect(soon()).partitions
    if answer.error_code:
        raise error_for(answer.error_code, answer.message)
    return answer.base_offset


def test_a_router_of_one_cluster_asks_no_other(router: Router) -> None:
    """By whatever way it gets a connection; one of its own cluster is used."""
    endpoint = router.endpoint
    router.refresh([], soon())
    with Router(endpoint, "tanist-test", router.cluster_id) as ours, Router(endpoint, "tanist-test", "another") as lost:
        assert identify(ours, soon()) == router.cluster_id
        for ask in (
            lambda: lost.refresh([], soon()),
            lambda: lost.any_connection(soon()),
            lambda: identify(lost, soon()),
        ):
            with pytest.raises(AnotherCluster, match=str(router.cluster_id)):
                ask()


def test_the_router_knows_its_cluster(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str
) -> None:
    at = create(topic_name, 3)
    info = router.topics()[topic_name]
    assert info.topic_id is not None
    assert [(part.partition, part.leader, part.isr, part.offline) for part in info.partitions] == [
        (n, BrokerId(1), (BrokerId(1),), ()) for n in range(3)
    ]
    assert {router.leader(each) for each in at} == {BrokerId(1)} == {router.controller}
    assert router.cluster_id
    with pytest.raises(UnknownTopicOrPartition):
        router.leader(MirrorPartition(topic_name, 3))
    with pytest.raises(Unreachable, match="broker 77"):
        router.connection(BrokerId(77), soon())


def test_lanes_are_connections_of_their_own_and_drop_closes_them_all(router: Router) -> None:
    router.refresh([], soon())
    control, fetching = (router.connection(BrokerId(1), soon(), lane) for lane in ("control", "fetch"))
    assert control is not fetching
    assert router.connection(BrokerId(1), soon()) is control
    router.drop(BrokerId(1))
    assert control.closed
    assert fetching.closed
    assert not router.connection(BrokerId(1), soon()).closed


def test_the_coordinator_of_a_group_is_found(router: Router) -> None:
    found, deadline = None, soon()
    while found is None:
        try:
            found = router.coordinator("some-group", deadline)
        except (CoordinatorNotAvailable, CoordinatorLoading):
            router.pause(0.1, deadline)
    assert found == BrokerId(1)


def test_fillers_count_and_are_compare_and_append(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str, producer_id: ProducerId
) -> None:
    [at] = create(topic_name)
    assert append(router, at, filler_batch(100_000, producer_id, 0, 5, now_ms())) == 0
    assert append(router, at, filler_batch(10, producer_id, 0, 100_005, now_ms())) == 100_000
    assert append(router, at, filler_batch(10, producer_id, 0, 100_005, now_ms())) == 100_000  # a duplicate
    with pytest.raises(OutOfOrderSequence):
        append(router, at, filler_batch(10, producer_id, 0, 100_005 + 11, now_ms()))
    ends = {at: End.LOG_END}
    assert list_offsets(router, ends, soon()) == {at: 100_010}
    assert delete_records(router, {at: 100_009}, soon()) == {at: 100_009}
    assert list_offsets(router, {at: End.EARLIEST}, soon()) == {at: 100_009}
    assert isinstance(fetch(router, {at: 5}, soon())[at], OffsetOutOfRange)


def test_a_batch_for_a_topic_of_another_id_is_refused_and_one_without_an_id_is_not(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str, producer_id: ProducerId
) -> None:
    [at] = create(topic_name)
    its_id = topic_ids(router, [at], soon())[at]
    assert isinstance(its_id, UUID)
    assert its_id == router.topics()[topic_name].topic_id
    pipeline = appends(router)
    codes = []
    for sequence, topic_id in enumerate([its_id, UUID(int=its_id.int ^ 1), None]):
        batch = memoryview(filler_batch(1, producer_id, 0, sequence - (sequence == 2), now_ms()))
        pipeline.post([ProduceBatch(at.topic, at.partition, batch, topic_id)], soon())
        codes += [each.error_code for each in pipeline.collect(soon()).partitions]
    assert codes == [0, UnknownTopicId.code, 0]


def test_deleting_to_minus_one_is_not_possible(router: Router) -> None:
    with pytest.raises(ValueError, match="orders-0"):
        delete_records(router, {MirrorPartition("orders", 0): -1}, soon())


def test_markers_take_one_offset_each_and_are_fenced_by_both_epochs(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str, producer_id: ProducerId
) -> None:
    first, second = create(topic_name, 2)
    assert write_markers(
        router, {first: Markers(producer_id, 1, range(5)), second: Markers(producer_id, 1, [9])}, soon()
    ) == {first: None, second: None}
    refused = write_markers(
        router, {first: Markers(producer_id, 0, [10]), second: Markers(producer_id, 1, [8])}, soon()
    )
    assert isinstance(refused[first], InvalidProducerEpoch)
    assert isinstance(refused[second], TransactionCoordinatorFenced)
    ends = {first: End.HIGH_WATERMARK, second: End.LAST_STABLE}
    assert list_offsets(router, ends, soon()) == {first: 5, second: 1}
    found = fetch(router, {first: 0}, soon())[first]
    assert not isinstance(found, Exception)
    assert [(header.base_offset, control_type(batch)) for header, batch in walk(found.records)] == [
        (n, ControlType.ABORT) for n in range(5)
    ]
    writers = describe_producers(router, [first], soon())[first]
    assert isinstance(writers, tuple)
    [writer] = writers
    assert (writer.producer_id, writer.producer_epoch, writer.last_sequence) == (producer_id, 1, -1)
    assert offset_for_leader_epoch(router, {first: 0}, soon()) == {first: EpochEnd(0, 5)}


def test_one_unknown_topic_hides_nobody(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str
) -> None:
    [known] = create(topic_name)
    unknown = MirrorPartition("no-such-topic", 0)
    found = list_offsets(router, {known: End.EARLIEST, unknown: End.EARLIEST}, soon())
    assert found[known] == 0
    assert isinstance(found[unknown], UnknownTopicOrPartition)


def produce(servers: str, topic: str, codec: str, *, transactions: bool) -> None:
    """Records with keys, headers and times of a real client; every second transaction is aborted."""
    settings = {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20}
    if transactions:
        settings["transactional.id"] = topic
    producer = Producer(settings)
    if transactions:
        producer.init_transactions(20)
    for n in range(6):
        if transactions:
            producer.begin_transaction()
        for i in range(50):
            producer.produce(topic, f"value {n} {i} ".encode() * 20, f"k{i}".encode(), headers=[("h", b"1")])
        producer.flush(20)
        if transactions:
            (producer.abort_transaction if n % 2 else producer.commit_transaction)(20)


def copy(router: Router, source: MirrorPartition, to: MirrorPartition) -> None:
    """Every data batch of a log, aborted ones too, as committed data, four appends in flight."""
    end = list_offsets(router, {source: End.HIGH_WATERMARK}, soon())[source]
    assert isinstance(end, int)
    producer_id = init_producer_id(router, soon())
    reading, writing = Fetches(router.connection(BrokerId(1), soon(), "fetch")), appends(router)
    buffer, position, sequence = ReceiveBuffer(), 0, 0
    while position < end:
        place = FetchPosition(source.topic, source.partition, position, 4096)
        reading.post([place], FetchLimits(isolation=Isolation.READ_UNCOMMITTED), soon())
        [fetched] = reading.receive(buffer, soon()).partitions
        for header, batch in walk(fetched.records):
            position = header.next_offset
            if header.is_control:
                continue
            before = bytes(batch)
            patch(batch, producer_id, 0, sequence)
            assert same_records(memoryview(before), batch)
            writing.post([ProduceBatch(to.topic, to.partition, batch)], soon())
            sequence += header.record_count
            if writing.in_flight == 4:
                assert [each.error_code for each in writing.collect(soon()).partitions] == [0]
    while writing.in_flight:
        assert [each.error_code for each in writing.collect(soon()).partitions] == [0]


def read(servers: str, at: MirrorPartition) -> list[tuple[object, ...]]:
    """What an ordinary reader sees of a log, aborted records too, checksums checked."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": at.topic,
            "isolation.level": "read_uncommitted",
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Place(at.topic, at.partition, 0)])
    seen: list[tuple[object, ...]] = []
    try:
        for message in iter(lambda: consumer.poll(20), None):
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF, error
                return seen
            seen.append((message.key(), message.value(), message.headers(), message.timestamp()))
    finally:
        consumer.close()
    raise AssertionError("the log has no end")


@pytest.mark.parametrize("transactions", [False, True], ids=["plain", "transactional"])
@pytest.mark.parametrize("codec", CODECS)
def test_a_copied_log_reads_like_its_source(
    codec: str,
    transactions: bool,
    router: Router,
    create: Callable[..., list[MirrorPartition]],
    topic_name: str,
    servers: str,
) -> None:
    [source], [mirror] = create(f"{topic_name}-s"), create(f"{topic_name}-m")
    produce(servers, source.topic, codec, transactions=transactions)
    copy(router, source, mirror)
    expected = read(servers, source)
    assert len(expected) == 300
    assert read(servers, mirror) == expected


@pytest.mark.parametrize("target", ["CreateTime", "LogAppendTime"])
def test_a_batch_stamped_by_its_topic_is_accepted_by_either_kind_of_topic(
    target: str,
    router: Router,
    create: Callable[..., list[MirrorPartition]],
    topic_name: str,
    servers: str,
) -> None:
    [source] = create(f"{topic_name}-s", message_timestamp_type="LogAppendTime")
    [mirror] = create(f"{topic_name}-m", message_timestamp_type=target)
    produce(servers, source.topic, "gzip", transactions=False)
    copy(router, source, mirror)
    originals, copies = (fetch(router, {at: 0}, soon())[at] for at in (source, mirror))
    assert not isinstance(originals, Exception)
    assert not isinstance(copies, Exception)
    pairs = list(zip(walk(originals.records), walk(copies.records), strict=True))
    assert pairs
    for (theirs, original), (ours, copied) in pairs:
        assert theirs.is_log_append_time
        assert ours.is_log_append_time is (target == "LogAppendTime")
        assert same_records(original, copied)


def test_damage_after_the_walk_is_refused_by_the_broker(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str, producer_id: ProducerId
) -> None:
    [at] = create(topic_name)
    batch = filler_batch(1_000, 1, 0, 0, now_ms())
    batch[-3] ^= 4
    patch(memoryview(batch), producer_id, 0, 0)
    with pytest.raises(Exception, match="CORRUPT_MESSAGE"):
        append(router, at, batch)
    assert list_offsets(router, {at: End.LOG_END}, soon()) == {at: 0}


def test_a_long_poll_waits_and_answers_with_nothing(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str
) -> None:
    [at] = create(topic_name)
    began = time.monotonic()
    found = fetch(router, {at: 0}, soon(), FetchLimits(max_wait_ms=300))[at]
    assert not isinstance(found, Exception)
    assert (len(found.records), found.high_watermark) == (0, 0)
    assert time.monotonic() - began > 0.25


def test_fetches_of_a_session_are_answered_with_news_alone(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str
) -> None:
    """KIP-227, as a worker reads: 2,000 idle partitions took a quarter of a core."""
    create(topic_name, 3)
    fetches = Fetches(router.connection(BrokerId(1), soon(), "session"), FetchSession())
    limits, buffer = FetchLimits(max_wait_ms=20), ReceiveBuffer()

    def read(*offsets: int) -> tuple[bool, dict[int, tuple[int, int]]]:
        """Whether the broker has looked; of each partition that it names, its high watermark and its bytes."""
        places = [FetchPosition(topic_name, n, offset, 1 << 20) for n, offset in enumerate(offsets)]
        fetches.post(places, limits, soon())
        answer = fetches.receive(buffer, soon())
        return answer.looked, {each.partition: (each.high_watermark, len(each.records)) for each in answer.partitions}

    assert read(0, 0, 0) == (True, dict.fromkeys(range(3), (0, 0)))
    assert read(0, 0, 0) == (True, {})
    append(router, MirrorPartition(topic_name, 1), filler_batch(2, 77, 0, 0, now_ms()))
    looked, found = read(0, 0, 0)
    assert (looked, list(found)) == (True, [1])
    assert found[1][1] > 0
    assert read(0, 0, 0)[1] == found, "until it is asked for at another offset"
    assert read(0, 2, 0) == (True, {})
    assert read(0, 2) == (True, {})
    assert read(0, 2, 0) == (True, {2: (0, 0)}), "it was left out, and is new"
    fetches._session._epoch += 5  # type: ignore[union-attr]
    assert read(0, 2, 0) == (False, {})
    assert read(0, 2, 0) == (True, {0: (0, 0), 1: (2, 0), 2: (0, 0)})
    assert read(0, 2, 0) == (True, {})


def test_broker_configs_change_and_change_back(router: Router) -> None:
    """The answer comes before the brokers have taken the change in."""
    router.refresh([], soon())
    name, everybody = "producer.id.expiration.ms", admin.ConfigResource(admin.ConfigKind.BROKER, "")
    broker = admin.ConfigResource(admin.ConfigKind.BROKER, "1")
    before = admin.describe_configs(router, broker, [name], soon())[name]
    admin.alter_configs(router, everybody, {name: "2147483647"}, soon())
    try:
        until(router, lambda: admin.describe_configs(router, broker, [name], soon())[name].value == "2147483647")
    finally:
        admin.alter_configs(router, everybody, {name: None}, soon())
    until(router, lambda: admin.describe_configs(router, broker, [name], soon())[name] == before)


def until(router: Router, holds: Callable[[], bool]) -> None:
    deadline = soon()
    while not holds():
        assert deadline.left(time.monotonic())
        router.pause(0.05, deadline)


def test_an_alteration_whose_sender_slept_past_its_deadline_is_not_sent(
    router: Router, create: Callable[..., list[MirrorPartition]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen when everything was ready to be sent: somebody else may own the topic by now."""
    create("slept-over")
    at = admin.ConfigResource(admin.ConfigKind.TOPIC, "slept-over")
    real = admin._config_connection

    def slept(*asked: object) -> object:
        connection = real(*asked)  # type: ignore[arg-type]
        router.pause(0.3, soon())
        return connection

    monkeypatch.setattr(admin, "_config_connection", slept)
    with pytest.raises(TimedOut, match="not sent"):
        admin.alter_configs(router, at, {"retention.ms": "1000"}, soon(0.2))
    monkeypatch.undo()
    assert admin.describe_configs(router, at, ["retention.ms"], soon())["retention.ms"].value != "1000"


def test_an_election_that_is_not_needed_says_so(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str
) -> None:
    [at] = create(topic_name)
    found = admin.elect_leaders(router, admin.Election.PREFERRED, [at], soon())
    assert getattr(found[at], "name", None) == "ELECTION_NOT_NEEDED"


def test_versions_are_those_of_the_broker(router: Router) -> None:
    known = admin.api_versions(router.any_connection(soon()))
    assert known[1][0] <= 11 <= known[1][1]
    assert known[0][0] <= 8 <= known[0][1]


def test_a_connection_that_a_broker_closed_because_it_was_idle_is_opened_again(cluster_factory: ClusterFactory) -> None:
    """Ten minutes, unless it is told otherwise; whoever asks next does not notice."""
    cluster = cluster_factory("dozing", brokers=1, properties={"connections.max.idle.ms": "500"})
    with Router(cluster.endpoint(), "tanist-test") as router:
        router.refresh(None, soon())
        first, held = router.any_connection(soon()), router.connection(BrokerId(1), soon())
        until(router, lambda: first.lost and held.lost)
        init_producer_id(router, soon())
        assert router.connection(BrokerId(1), soon()) is not held
        assert first.closed


@pytest.mark.parametrize("commit", [True, False])
def test_batches_are_appended_in_a_transaction_of_ours_and_read_once_it_is_committed(
    router: Router, create: Callable[..., list[MirrorPartition]], topic_name: str, *, commit: bool
) -> None:
    """Readdressed, not encoded again; a late append of the epoch before is refused."""
    at, other = create(topic_name, 2)
    owned = TransactionalId(router, f"{topic_name}-copy", 15_000)
    owned.take_over(soon())
    assert set(owned.add([at, other], soon()).values()) == {None}
    pipeline = Appends(router.connection(BrokerId(1), soon(), "append"), transactional_id=owned.name)

    def post(to: MirrorPartition, sequence: int) -> int:
        batch = memoryview(filler_batch(3, ProducerId(7), 5, 9, now_ms()))
        patch(batch, owned.producer.id, owned.producer.epoch, sequence, transactional=True)
        pipeline.post([ProduceBatch(to.topic, to.partition, batch)], soon())
        return pipeline.collect(soon()).partitions[0].error_code

    assert [post(at, 0), post(at, 3), post(other, 0)] == [0, 0, 0]
    stable = dict.fromkeys((at, other), End.LAST_STABLE)
    assert list_offsets(router, stable, soon()) == {at: 0, other: 0}
    owned.end(soon(), commit=commit)
    before = owned.producer
    owned.begin(soon())  # once every marker is written
    assert list_offsets(router, stable, soon()) == {at: 7, other: 4}
    seen = fetch(router, {at: 0}, soon())[at]
    assert not isinstance(seen, TanistError)
    batches = [header for header, _ in walk(seen.records)]
    assert [header.is_transactional for header in batches] == [True, True, True]
    assert bool(seen.aborted) is not commit
    owned.producer, new = before, owned.producer
    assert post(at, 6) == InvalidProducerEpoch.code
    owned.producer = new
    assert set(owned.add([at], soon()).values()) == {None}
    assert post(at, 0) == 0, "sequences begin at 0 in a new epoch"
    owned.end(soon(), commit=False)
