"""What every Sealing, Fencing, Opening, Replicas and Approvals does: in memory, without an authorizer, and with one."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from tanist.domain.acl_entries import ANY_HOST, ANYBODY, AclEntry, writers
from tanist.domain.acls import AclBinding
from tanist.domain.approval.entries import ApprovalRequest, NoApproverTopic, Withdrawal
from tanist.domain.approval.entries import approvals as read_approvals
from tanist.domain.broker_errors import (
    InvalidProducerEpoch,
    OutOfOrderSequence,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import AuthorizationFailed, CouldNotTell, TanistError, TimedOut
from tanist.domain.failover.facts import OpenTransaction, TransactionalProducers
from tanist.domain.fences import FenceBefore, FenceKind
from tanist.domain.names import BrokerId, EpochMs, MirrorName, MirrorPartition, ProducerId
from tanist.domain.records import STATE_TOPIC
from tanist.domain.state_record import Tombstone
from tanist.domain.topic_configs import MIN_ISR
from tanist.domain.write_access import AUTHORIZER_CONFIGS, may_allow_without_acls
from tanist.domain.writer_identity import ProducerIds, TransactionalWriter
from tanist.kafka.adapters.acls import KafkaAcls
from tanist.kafka.adapters.approvals import KafkaApprovals
from tanist.kafka.adapters.compacted_topic import CompactedTopic, TopicLayout, operator_of
from tanist.kafka.adapters.fencing import KafkaFencing
from tanist.kafka.adapters.opening import KafkaOpening
from tanist.kafka.adapters.producer_fencing import KafkaProducerFencing
from tanist.kafka.adapters.replicas import KafkaReplicas
from tanist.kafka.adapters.topics import KafkaConfigs, KafkaTopics
from tanist.kafka.protocol.batch import filler_batch
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.frames import ProduceBatch
from tanist.kafka.wire import admin, requests
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.hot import Appends
from tanist.kafka.wire.requests import End, Markers
from tanist.kafka.wire.router import Router
from tanist.ports.fencing import Kept, ProducerFence, TransactionFence
from tanist.ports.topics import NewTopic, TopicFacts
from tests.contracts.reached import SOON, wait_until
from tests.fakes.acls import MemoryAcls
from tests.fakes.failover import (
    GuardedCluster,
    MemoryApprovals,
    MemoryFencing,
    MemoryOpening,
    MemoryProducerFencing,
    MemoryReplicas,
)
from tests.fakes.topics import MemoryTopics
from tests.leading import leads
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.approval.entries import Entry
    from tanist.domain.endpoint import Endpoint
    from tanist.domain.fences import FenceKind as Kind
    from tanist.ports.access import Opening
    from tanist.ports.acls import AclStore
    from tanist.ports.approvals import Approvals
    from tanist.ports.fencing import Fencing, ProducerFencing
    from tanist.ports.logs import Replicas
    from tanist.ports.topics import Topics
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.conftest import ClientConfig, ClusterFactory

DR = MirrorName("dr")


@dataclass
class Rig:
    """One cluster behind all of these ports. `kind`: of the fences that it has."""

    kind: Kind
    topics: Topics
    producer_fencing: ProducerFencing
    fencing: Fencing
    opening: Opening
    acls: AclStore
    super_opening: Opening
    replicas: Replicas
    approvals: Approvals
    writers: ProducerIds
    world: Memory | Real

    def topic(self, name: str, partitions: int = 2, **configs: str) -> tuple[MirrorPartition, ...]:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=given)
        assert self.topics.create([new], SOON(20)) == {name: None}
        self.world.led(name, partitions)
        return tuple(MirrorPartition(name, n) for n in range(partitions))


@dataclass
class Memory:
    cluster: GuardedCluster
    super_user: str = "mirror"

    def make_super(self) -> None:
        self.cluster.supers.add(self.super_user)

    def allow_app(self, topic: str) -> None:
        """And the mirror."""
        self.cluster.rules[topic] = tuple(AclEntry(f"User:{who}", "*", allowed=True) for who in ("app", "mirror"))

    def led(self, _name: str, _partitions: int) -> None:
        """A topic of memory has no leaders."""

    def data(self, at: MirrorPartition, producer_ids: ProducerIds, sequence: int = 0) -> bool:
        return self.cluster.append(at, producer_ids.data, 0)

    def filler(self, at: MirrorPartition, producer_ids: ProducerIds, epoch: int) -> bool:
        return self.cluster.append(at, producer_ids.marker, epoch)

    def record(self, at: MirrorPartition) -> None:
        self.cluster.grow(at)

    def drop(self, topic: str) -> None:
        self.cluster.drop(topic)

    def wait(self, seconds: float) -> None:
        self.cluster.clock.jump(seconds)

    def end(self, at: MirrorPartition) -> int:
        return self.cluster.ends[at][2]

    @contextmanager
    def names_in_a_transaction(self, at: MirrorPartition) -> Iterator[None]:
        self.cluster.named = (OpenTransaction(at, 1, EpochMs(1), "an-application"),)
        yield
        self.cluster.named = ()
        self.cluster.transactional[at] = TransactionalProducers.HERE

    def writes(self, topic: str, user: str) -> bool:
        return self.cluster.may_write(topic, user)

    def seen(self, topic: str) -> int:
        return 0


@dataclass
class Real:
    """`users`: what a client logs in with, by name."""

    router: Router
    users: dict[str, dict[str, Any]]
    super_user: str = "admin"

    def make_super(self) -> None:
        """It is one."""

    def allow_app(self, topic: str) -> None:
        """It may write to every topic, as the mirror may."""

    def led(self, name: str, partitions: int) -> None:
        """Returns when its leaders know that they lead."""
        wait_until(lambda: leads(self.router, name, partitions, SOON(10)), 10)

    def data(self, at: MirrorPartition, producer_ids: ProducerIds, sequence: int = 0) -> bool:
        """A batch as an old worker sends it."""
        batch = filler_batch(1, producer_ids.data, 0, sequence, time.time_ns() // 1_000_000)
        self.router.refresh([at.topic], SOON(10))
        appends = Appends(self.router.connection(self.router.leader(at), SOON(10), channel="append"))
        appends.post([ProduceBatch(at.topic, at.partition, memoryview(batch))], SOON(10))
        code = appends.collect(SOON(10)).partitions[0].error_code
        if code != NONE:
            assert isinstance(error_for(code, ""), (InvalidProducerEpoch, OutOfOrderSequence))
        return code == NONE

    def filler(self, at: MirrorPartition, producer_ids: ProducerIds, epoch: int) -> bool:
        before = self.end(at)
        requests.write_markers(self.router, {at: Markers(producer_ids.marker, epoch, (before,))}, SOON(10))
        return self.end(at) > before

    def record(self, at: MirrorPartition) -> None:
        """By somebody else than a worker."""
        producer = Producer({**self.users["admin"], "compression.type": "zstd"})
        producer.produce(at.topic, b"value" * 100, key=b"key", partition=at.partition, headers=[("h", b"1")])
        assert producer.flush(10) == 0

    def drop(self, topic: str) -> None:
        """Returns when the broker knows."""
        client = AdminClient(self.users["admin"])
        client.delete_topics([topic])[topic].result(20)
        wait_until(lambda: topic not in client.list_topics(timeout=10).topics, 10)

    def wait(self, seconds: float) -> None:
        SystemClock().wait(seconds)

    def end(self, at: MirrorPartition) -> int:
        found = requests.list_offsets(self.router, {at: End.LOG_END}, SOON(10))[at]
        assert isinstance(found, int)
        return found

    @contextmanager
    def names_in_a_transaction(self, at: MirrorPartition) -> Iterator[None]:
        """A transaction that has told its coordinator of `at`, and whose record was then too large for the topic."""
        producer = Producer({**self.users["admin"], "transactional.id": f"an-application-{at.topic}"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(at.topic, b"x" * 1000, partition=at.partition)
        producer.flush(20)
        yield
        producer.abort_transaction(20)

    def writes(self, topic: str, user: str) -> bool:
        producer = Producer({**self.users[user], "message.timeout.ms": 5000, "acks": "all"})
        reported: list[KafkaError | None] = []
        producer.produce(topic, b"x" * 1000, key=b"k", partition=0, on_delivery=lambda e, _m: reported.append(e))
        producer.flush(10)
        return len(reported) == 1 and reported[0] is None  # KafkaError cannot be compared with None

    def seen(self, topic: str) -> int:
        """What a reader of everything finds, aborted records too."""
        options = {"group.id": "seen", "isolation.level": "read_uncommitted", "enable.partition.eof": True}
        consumer = Consumer({**self.users["admin"], **options, "auto.offset.reset": "earliest"})
        consumer.assign([At(topic, 0, 0)])
        count = 0
        while True:
            message = consumer.poll(10)
            assert message is not None
            if message.error():
                break
            count += 1
        consumer.close()
        return count


@pytest.fixture(params=["memory", "memory-guarded", "kafka", "kafka-guarded"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    guarded = request.param.endswith("guarded")
    kind = FenceKind.DENY_WRITE if guarded else FenceKind.TINY_MESSAGES
    if request.param.startswith("memory"):
        yield in_memory(GuardedCluster(authorizer=guarded), kind)
        return
    cluster: SandboxCluster = (
        request.getfixturevalue("guarded") if guarded else request.getfixturevalue("clusters")["west"]
    )
    with ExitStack() as stack:
        yield on(cluster, kind, request.getfixturevalue("client_config"), stack)


def in_memory(cluster: GuardedCluster, kind: FenceKind) -> Rig:
    return Rig(
        kind=kind,
        topics=MemoryTopics(cluster),
        producer_fencing=MemoryProducerFencing(cluster),
        fencing=MemoryFencing(cluster),
        opening=MemoryOpening(cluster),
        acls=MemoryAcls(cluster),
        super_opening=MemoryOpening(cluster),
        replicas=MemoryReplicas(cluster),
        approvals=MemoryApprovals(cluster, "mirror"),
        writers=ProducerIds(ProducerId(1), ProducerId(2), ProducerId(3)),
        world=Memory(cluster),
    )


def on(cluster: SandboxCluster, kind: FenceKind, config: ClientConfig, stack: ExitStack) -> Rig:
    guarded = kind is FenceKind.DENY_WRITE
    users = ("admin", "mirror", "app")
    endpoints: dict[str, Endpoint] = {u: cluster.endpoint_for(u) if guarded else cluster.endpoint() for u in users}
    router = Router(endpoints["admin"], "tanist-test")
    stack.callback(router.close)
    if guarded:
        grant(router)
    writers = ProducerIds(*(requests.init_producer_id(router, SOON(20)) for _ in range(3)))
    mirror = endpoints["mirror"]
    return Rig(
        kind=kind,
        topics=stack.enter_context(over(KafkaTopics, endpoints["admin"])),
        producer_fencing=stack.enter_context(over(KafkaProducerFencing, mirror)),
        fencing=stack.enter_context(over(KafkaFencing, mirror)),
        opening=stack.enter_context(over(KafkaOpening, mirror)),
        acls=stack.enter_context(over(KafkaAcls, mirror)),
        super_opening=stack.enter_context(over(KafkaOpening, endpoints["admin"])),
        replicas=stack.enter_context(over(KafkaReplicas, mirror)),
        approvals=stack.enter_context(over(KafkaApprovals, mirror, allow_small=True)),
        writers=writers,
        world=Real(router, {user: config(endpoint) for user, endpoint in endpoints.items()}),
    )


def grant(router: Router) -> None:
    """What the mirror's principal has, and what an application has: nothing is denied to anybody yet."""
    topic, cluster, txn, literal, prefixed, allow = 2, 4, 5, 3, 4, 2 + 1
    mirror = [
        AclBinding(topic, "*", literal, "User:mirror", "*", operation, allow) for operation in (3, 4, 5, 8, 10, 11, 12)
    ]
    mirror += [AclBinding(cluster, "kafka-cluster", literal, "User:mirror", "*", op, allow) for op in (7, 8, 12)]
    mirror += [AclBinding(txn, "tanist-", prefixed, "User:mirror", "*", op, allow) for op in (4, 8)]
    mirror += [AclBinding(txn, "*", literal, "User:mirror", "*", 8, allow)]
    app = [AclBinding(topic, "*", literal, "User:app", "*", operation, allow) for operation in (3, 4, 8)]
    assert admin.create_acls(router, [*mirror, *app], SOON(20)) == [None] * (len(mirror) + len(app))


# ── the barrier ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_behind_a_barrier_no_old_writer_gets_in_and_asking_writes_nothing(rig: Rig, topic_name: str) -> None:
    partitions = rig.topic(topic_name)
    writers = dict.fromkeys(partitions, rig.writers)
    assert rig.world.data(partitions[0], rig.writers)
    ends = [rig.world.end(at) for at in partitions]
    assert rig.producer_fencing.proof(writers, SOON(10)) == dict.fromkeys(partitions, ProducerFence.OPEN)
    assert [rig.world.end(at) for at in partitions] == ends, "asking has written"
    sealed = rig.producer_fencing.fence_producers(writers, SOON(10))
    assert sealed == {at: end + 3 for at, end in zip(partitions, ends, strict=True)}
    assert rig.producer_fencing.proof(writers, SOON(10)) == dict.fromkeys(partitions, ProducerFence.FENCED)
    assert rig.producer_fencing.fence_producers(writers, SOON(10)) == sealed, "what is sealed gets nothing more"
    for at in partitions:
        assert not rig.world.data(at, rig.writers, 1)
        assert not rig.world.data(at, rig.writers, 0)
        assert not rig.world.filler(at, rig.writers, 32_766)
        assert rig.world.end(at) == sealed[at]


def test_a_fence_of_transactional_ids_is_proved_by_the_epoch_that_was_used(rig: Rig, topic_name: str) -> None:
    """Also with nothing but what a producer may do."""
    partitions = rig.topic(topic_name)
    writers = {at: TransactionalWriter(f"tanist-{topic_name}-{at.partition}") for at in partitions}
    assert rig.producer_fencing.proof(writers, SOON(10)) == dict.fromkeys(partitions, ProducerFence.OPEN)
    before = {at: rig.world.end(at) for at in partitions}
    first = rig.producer_fencing.fence_transactional_ids(writers, SOON(20))
    again = rig.producer_fencing.fence_transactional_ids(writers, SOON(20))
    for at in partitions:
        one, two = first[at], again[at]
        assert isinstance(one, TransactionFence), one
        assert isinstance(two, TransactionFence), two
        assert (one.end, two.end) == (before[at] + 1, before[at] + 2)
        assert two.epoch.producer_id == one.epoch.producer_id
        assert two.epoch.epoch > one.epoch.epoch
        recorded = {at: writers[at]._replace(fence=one.epoch)}
        assert rig.producer_fencing.proof(recorded, SOON(10)) == {at: ProducerFence.FENCED}
        higher = {at: writers[at]._replace(fence=two.epoch._replace(epoch=two.epoch.epoch + 1))}
        assert rig.producer_fencing.proof(higher, SOON(10)) == {at: ProducerFence.OPEN}
        forgotten = writers[at]._replace(fence=two.epoch._replace(producer_id=987_654))
        (proof,) = rig.producer_fencing.proof({at: forgotten}, SOON(10)).values()
        assert proof is ProducerFence.FENCED or "whether its leader verifies transactions is not known" in str(proof)
        plain = {at: forgotten._replace(in_transactions=False)}
        assert rig.producer_fencing.proof(plain, SOON(10)) == {at: ProducerFence.FORGOTTEN}
    missing = MirrorPartition(f"{topic_name}-missing", 0)
    answers = rig.producer_fencing.fence_transactional_ids(writers | {missing: writers[partitions[0]]}, SOON(20))
    assert isinstance(answers[missing], UnknownTopicOrPartition | TopicAuthorizationFailed)
    assert all(isinstance(answers[at], TransactionFence) for at in partitions)


def test_the_end_of_what_was_copied_is_told_through_fences_and_gap_markers(rig: Rig, topic_name: str) -> None:
    """Behind the producer fence of the records alone, gap markers still follow; neither moves that end."""
    copied, empty = rig.topic(topic_name)
    writers = dict.fromkeys((copied, empty), rig.writers)
    assert rig.world.data(copied, rig.writers)
    end = rig.world.end(copied)
    rig.producer_fencing.fence_data_producers(writers, SOON(10))
    assert not rig.world.data(copied, rig.writers, 1)
    assert rig.producer_fencing.proof(writers, SOON(10)) == dict.fromkeys(writers, ProducerFence.OPEN)
    for epoch in range(1, 100):
        assert rig.world.filler(copied, rig.writers, epoch)
    ends = {copied: end, empty: 0}
    assert rig.producer_fencing.copied_ends(writers, SOON(10)) == ends
    rig.producer_fencing.fence_producers(writers, SOON(10))
    rig.world.record(copied)
    rig.producer_fencing.keep({copied: rig.writers}, SOON(10))
    assert rig.producer_fencing.copied_ends(writers, SOON(10)) == ends, "what a fence repeats was not copied"


def test_a_reserve_is_written_to_its_end_and_no_further(rig: Rig, topic_name: str) -> None:
    """Behind records, behind gap markers of any epoch, and again: what is there already is not written again."""
    first, second = rig.topic(topic_name)
    writers = dict.fromkeys((first, second), rig.writers)
    assert rig.world.data(first, rig.writers)
    assert rig.world.filler(second, rig.writers, 7)
    rig.producer_fencing.fence_data_producers(writers, SOON(10))
    ends = {first: 20_011, second: 7_000}
    for _ in range(2):
        reached: dict[MirrorPartition, object] = {}
        while reached != ends:
            reached |= rig.producer_fencing.reserve(ends, writers, SOON(20))
        assert {at: rig.world.end(at) for at in ends} == ends
    assert not rig.world.filler(second, rig.writers, 7), "a marker that was on its way is refused"
    rig.producer_fencing.fence_producers(writers, SOON(10))
    assert {at: rig.world.end(at) for at in ends} == {at: end + 1 for at, end in ends.items()}
    assert rig.producer_fencing.proof(writers, SOON(10)) == dict.fromkeys(writers, ProducerFence.FENCED)
    assert rig.producer_fencing.copied_ends(writers, SOON(10)) == {first: 1, second: 0}
    assert rig.world.seen(topic_name) == (0 if isinstance(rig.world, Memory) else 1), "no reader sees a reserve"


def test_readers_of_a_compacted_topic_read_its_last_record_a_thousand_times(rig: Rig, topic_name: str) -> None:
    """Copies of it were the reserve. Markers are, and the one record that keeps the fence comes behind them."""
    full, empty = rig.topic(topic_name, cleanup_policy="compact")
    writers = dict.fromkeys((full, empty), rig.writers)
    rig.world.record(full)
    rig.producer_fencing.fence_data_producers(writers, SOON(10))
    ends = {full: rig.world.end(full) + 90, empty: 50}
    left = dict(ends)
    while left:
        reached = rig.producer_fencing.reserve(left, writers, SOON(20))
        left = {at: end for at, end in left.items() if reached[at] != end}
    assert {at: rig.world.end(at) for at in ends} == ends
    rig.producer_fencing.fence_producers(writers, SOON(10))
    end = rig.world.end(full)
    assert rig.producer_fencing.keep({full: rig.writers}, SOON(10)) == {full: Kept.KEPT}
    assert rig.world.end(full) == end + 1, "one record is repeated"
    assert rig.producer_fencing.kept({full: rig.writers}, SOON(10)) == {full: Kept.KEPT}
    assert rig.producer_fencing.copied_ends(writers, SOON(10)) == dict.fromkeys(writers, 0), "none of it was mirrored"
    if not isinstance(rig.world, Memory):
        assert rig.world.seen(topic_name) == 2


def test_a_filler_that_was_raised_is_shut_out_too(rig: Rig, topic_name: str) -> None:
    (at,) = rig.topic(topic_name, 1)
    assert rig.world.filler(at, rig.writers, 7)
    rig.producer_fencing.fence_producers({at: rig.writers}, SOON(10))
    assert not rig.world.filler(at, rig.writers, 8)
    assert not rig.world.filler(at, rig.writers, 32_766)


def test_a_topic_that_is_made_anew_has_no_barrier_and_still_the_rules_of_the_earlier_one(
    rig: Rig, topic_name: str
) -> None:
    """So a mirror that is made again under its name can write, but where the mirror was shut out."""
    (at,) = rig.topic(topic_name, 1)
    rig.producer_fencing.fence_producers({at: rig.writers}, SOON(10))
    rig.opening.open({topic_name: ()}, SOON(10))
    rig.world.drop(topic_name)
    rig.topic(topic_name, 1)
    assert rig.world.end(at) == 0
    assert rig.producer_fencing.proof({at: rig.writers}, SOON(10)) == {at: ProducerFence.OPEN}
    shut = rig.opening.shut_out([topic_name], SOON(10))[topic_name]
    assert shut is (rig.kind is FenceKind.DENY_WRITE)


def test_a_partition_that_is_not_there_does_not_hide_the_others(rig: Rig, topic_name: str) -> None:
    (at,) = rig.topic(topic_name, 1)
    missing = MirrorPartition(f"{topic_name}-missing", 0)
    sealed = rig.producer_fencing.fence_producers({at: rig.writers, missing: rig.writers}, SOON(3))
    assert sealed[at] == 3
    assert isinstance(sealed[missing], TanistError)
    proved = rig.producer_fencing.proof({at: rig.writers, missing: rig.writers}, SOON(10))
    assert proved[at] is ProducerFence.FENCED
    assert isinstance(proved[missing], UnknownTopicOrPartition)


def test_a_barrier_of_a_compacted_topic_is_kept_by_repeating_the_last_record_once(rig: Rig, topic_name: str) -> None:
    partitions = rig.topic(topic_name, cleanup_policy="compact")
    at, empty = partitions
    writers = dict.fromkeys(partitions, rig.writers)
    rig.world.record(at)
    rig.producer_fencing.fence_producers(writers, SOON(10))
    end = rig.world.end(at)
    assert rig.producer_fencing.kept(writers, SOON(10)) == {at: Kept.BARE, empty: Kept.EMPTY}
    assert rig.world.end(at) == end, "asking has written"
    for _ in range(2):
        assert rig.producer_fencing.keep(writers, SOON(10)) == {at: Kept.KEPT, empty: Kept.EMPTY}
        assert rig.world.end(at) == end + 1
    assert rig.producer_fencing.kept(writers, SOON(10)) == {at: Kept.KEPT, empty: Kept.EMPTY}
    assert rig.producer_fencing.proof(writers, SOON(10)) == dict.fromkeys(partitions, ProducerFence.FENCED)


def test_a_log_that_grows_is_left_alone_until_it_rests(rig: Rig, topic_name: str) -> None:
    (at,) = rig.topic(topic_name, 1, cleanup_policy="compact")
    rig.world.record(at)
    rig.producer_fencing.fence_producers({at: rig.writers}, SOON(10))
    assert rig.producer_fencing.keep({at: rig.writers}, SOON(10), rest=0.3) == {at: Kept.BARE}
    rig.world.wait(0.4)
    rig.world.record(at)
    assert rig.producer_fencing.keep({at: rig.writers}, SOON(10), rest=0.3) == {at: Kept.BARE}
    rig.world.wait(0.4)
    assert rig.producer_fencing.keep({at: rig.writers}, SOON(10), rest=0.3) == {at: Kept.KEPT}


def test_policies_are_told_topic_by_topic(rig: Rig, topic_name: str) -> None:
    names = {policy: f"{topic_name}-{n}" for n, policy in enumerate(("compact", "delete", "compact,delete"))}
    for policy, name in names.items():
        rig.topic(name, 1, cleanup_policy=policy)
    missing = f"{topic_name}-missing"
    found = dict(rig.producer_fencing.compacted([*names.values(), missing], SOON(10)))
    assert isinstance(found.pop(missing), UnknownTopicOrPartition)
    assert found == {name: "compact" in policy for policy, name in names.items()}


@pytest.mark.parametrize("rig", ["memory-guarded", "kafka-guarded"], indirect=True)
def test_a_mirror_that_may_not_write_any_more_keeps_nothing_and_says_why(rig: Rig, topic_name: str) -> None:
    (at,) = rig.topic(topic_name, 1, cleanup_policy="compact")
    rig.world.record(at)
    rig.producer_fencing.fence_producers({at: rig.writers}, SOON(10))
    assert rig.opening.open({topic_name: ()}, SOON(10)) == {topic_name: None}
    wait_until(lambda: rig.opening.is_open({topic_name: ()}, SOON(10)) == {topic_name: True})
    (refused,) = rig.producer_fencing.keep({at: rig.writers}, SOON(10)).values()
    assert isinstance(refused, TopicAuthorizationFailed)


# ── fences ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fence_keeps_producers_off_and_lifting_it_is_exact(rig: Rig, topic_name: str) -> None:
    rig.topic(topic_name, 1, max_message_bytes="5000")
    rig.topic(f"{topic_name}-b", 1)
    names = [topic_name, f"{topic_name}-b"]
    before = rig.fencing.snapshot(names, SOON(10))
    assert rig.fencing.has_authorizer(SOON(10)) is (rig.kind is FenceKind.DENY_WRITE)
    own = {topic_name: "5000", names[1]: None} if rig.kind is FenceKind.TINY_MESSAGES else dict.fromkeys(names)
    assert before == {name: FenceBefore(topic=name, kind=rig.kind, max_message_bytes=own[name]) for name in names}
    fences = [each for each in before.values() if isinstance(each, FenceBefore)]
    for _ in range(2):
        assert rig.fencing.apply(fences, SOON(10)) == dict.fromkeys(names)
    wait_until(lambda: rig.fencing.fence_status(fences, SOON(10)) == dict.fromkeys(names, True))
    wait_until(lambda: not any(rig.world.writes(name, "app") for name in names))
    for _ in range(2):
        assert rig.fencing.lift(fences, SOON(10)) == dict.fromkeys(names)
    wait_until(lambda: rig.fencing.snapshot(names, SOON(10)) == before)
    assert all(rig.world.writes(name, "app") for name in names)


@pytest.mark.parametrize("rig", ["memory-guarded", "kafka-guarded"], indirect=True)
def test_a_rule_that_was_there_before_stays(rig: Rig, topic_name: str) -> None:
    rig.topic(topic_name, 1)
    rig.fencing.apply([FenceBefore(topic=topic_name, kind=rig.kind)], SOON(10))
    wait_until(lambda: not rig.world.writes(topic_name, "app"))
    before = rig.fencing.snapshot([topic_name], SOON(10))[topic_name]
    assert isinstance(before, FenceBefore)
    assert before.had_deny
    rig.fencing.apply([before], SOON(10))
    rig.fencing.lift([before], SOON(10))
    assert rig.fencing.fence_status([before], SOON(10)) == {topic_name: True}


# ── opening ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_opening_takes_write_from_the_mirror_and_from_nobody_else(rig: Rig, topic_name: str) -> None:
    rig.topic(topic_name, 1)
    guarded = rig.kind is FenceKind.DENY_WRITE
    nobody: dict[str, tuple[AclEntry, ...]] = {topic_name: ()}
    assert rig.opening.shut_out([topic_name], SOON(10)) == {topic_name: False}
    for _ in range(2):
        assert rig.opening.open(nobody, SOON(10)) == {topic_name: None}
    wait_until(lambda: rig.opening.is_open(nobody, SOON(10)) == {topic_name: True})
    wait_until(lambda: rig.opening.shut_out([topic_name], SOON(10)) == {topic_name: guarded})
    assert rig.world.writes(topic_name, "app")
    assert rig.world.writes(topic_name, "mirror") is not guarded
    assert rig.opening.principal() == ("User:mirror" if guarded else rig.opening.principal())


@pytest.mark.parametrize("rig", ["memory-guarded", "kafka-guarded"], indirect=True)
def test_a_super_user_is_denied_by_name_and_not_shut_out(rig: Rig, topic_name: str) -> None:
    """The rule is there, and its brokers say that it may write; so it does."""
    rig.topic(topic_name, 1)
    rig.world.make_super()
    opening, user = rig.super_opening, rig.world.super_user
    assert opening.open({topic_name: ()}, SOON(10)) == {topic_name: None}
    wait_until(lambda: opening.is_open({topic_name: ()}, SOON(10)) == {topic_name: True})
    assert rig.world.writes(topic_name, user)
    assert opening.shut_out([topic_name], SOON(10)) == {topic_name: False}
    assert opening.shut_out([topic_name], SOON(10), {f"User:{user}", "User:other"}) == {topic_name: False}


@pytest.mark.parametrize("rig", ["memory-guarded", "kafka-guarded"], indirect=True)
def test_who_copies_is_shut_out_whoever_opens(rig: Rig, topic_name: str) -> None:
    """An administrator opens; the mirror's login is another one, and only rules can be told of it."""
    rig.topic(topic_name, 1)
    rig.world.make_super()
    mirrors, opening = {"User:other"}, rig.super_opening
    assert opening.shut_out([topic_name], SOON(10), mirrors) == {topic_name: False}
    assert opening.open({topic_name: ()}, SOON(10), mirrors) == {topic_name: None}
    wait_until(lambda: opening.shut_out([topic_name], SOON(10), mirrors) == {topic_name: True})
    assert rig.world.writes(topic_name, "app")


def test_where_everybody_may_write_a_rule_for_the_mirror_does_not_keep_all_others_off(
    cluster_factory: ClusterFactory, client_config: ClientConfig
) -> None:
    """On a topic that no rule is about, the first one ends what `allow.everyone.if.no.acl.found` has granted."""
    lenient = {"allow.everyone.if.no.acl.found": "true"}
    cluster = cluster_factory("lenient", brokers=1, authorizer=True, properties=lenient)
    mirror, app = (cluster.endpoint_for(user) for user in ("mirror", "app"))
    with ExitStack() as stack:
        topics = stack.enter_context(over(KafkaTopics, mirror))
        opening = stack.enter_context(over(KafkaOpening, mirror))
        acls = stack.enter_context(over(KafkaAcls, mirror))
        spared = {ANYBODY, "User:mirror"}
        assert topics.create([NewTopic(name="free", partitions=1, replication_factor=1)], SOON(20)) == {"free": None}
        real = Real(stack.enter_context(Router(cluster.endpoint(), "tanist-test")), {"app": client_config(app)})
        wait_until(lambda: real.writes("free", "app"), 10)
        assert acls.read(SOON(10)).covered(["free"], spared) == frozenset()
        configs = stack.enter_context(over(KafkaConfigs, cluster.endpoint()))
        assert may_allow_without_acls(configs.each_broker(AUTHORIZER_CONFIGS, SOON(10)))
        assert opening.open({"free": ()}, SOON(10)) == {"free": None}
        assert real.writes("free", "app")
        assert opening.is_open({"free": ()}, SOON(10)) == {"free": True}
        assert opening.shut_out(["free"], SOON(10)) == {"free": False}, "and nobody says that the mirror is"
        assert opening.deny({"free": [ANYBODY]}, SOON(10)) == {"free": None}
        wait_until(lambda: not real.writes("free", "app"), 10)
        assert acls.read(SOON(10)).covered(["free"], spared) == frozenset(), "a source fence is removed before copying"
        assert opening.deny({"free": ["User:other"]}, SOON(10)) == {"free": None}
        wait_until(lambda: acls.read(SOON(10)).covered(["free"], spared) == {"free"}, 10)


@pytest.mark.parametrize("rig", ["memory-guarded", "kafka-guarded"], indirect=True)
def test_who_else_may_write_is_told_of_each_topic(rig: Rig, topic_name: str) -> None:
    """By rules of any pattern; not the mirror's own login, nobody who is denied, nobody while all are kept off."""
    rig.topic(topic_name, 1)
    rig.world.allow_app(topic_name)

    def others(*mirrors: str) -> frozenset[str]:
        return writers(rig.acls.read(SOON(10)).writing([topic_name])[topic_name], mirrors)

    wait_until(lambda: others("User:mirror") >= {"User:app"}, 20)
    assert others("User:app") >= {"User:mirror"} - {"User:app"}
    rig.fencing.apply([FenceBefore(topic=topic_name, kind=rig.kind)], SOON(10))
    wait_until(lambda: others() == frozenset())


def test_what_was_denied_by_name_is_undone_exactly(rig: Rig, topic_name: str) -> None:
    """Other principals and other ACLs stay; what was not denied is no error."""
    rig.topic(topic_name, 1)
    guarded = rig.opening.has_authorizer(SOON(10))
    both, one = {topic_name: {"User:app", "User:other"}}, {topic_name: {"User:app"}}
    assert rig.opening.deny(both, SOON(10)) == {topic_name: None}
    shut = {AclEntry(who, ANY_HOST, allowed=False) for who in both[topic_name] if guarded}
    wait_until(lambda: rig.acls.read(SOON(10)).writing([topic_name])[topic_name] >= shut)
    before = rig.acls.read(SOON(10)).writing([topic_name])[topic_name]
    assert rig.acls.read(SOON(10)).denied_by_name([topic_name]) == {
        topic_name: both[topic_name] if guarded else frozenset()
    }
    for _ in range(2):
        assert rig.opening.undeny(one, SOON(10)) == {topic_name: None}
    left = before - {AclEntry("User:app", ANY_HOST, allowed=False)}
    wait_until(lambda: rig.acls.read(SOON(10)).writing([topic_name])[topic_name] == left)


def test_what_was_given_is_taken_back_exactly(rig: Rig, topic_name: str) -> None:
    """Other ACLs of the topic stay; what was not given is no error."""
    rig.topic(topic_name, 1)
    guarded = rig.opening.has_authorizer(SOON(10))
    one, other, bob = (AclEntry(f"User:{who}", "*", allowed=who != "bob") for who in ("*", "eve", "bob"))
    before = rig.acls.read(SOON(10)).writing([topic_name])[topic_name]
    for _ in range(2):
        assert rig.opening.give({topic_name: (one, other, bob)}, SOON(10)) == {topic_name: None}
    after = before | ({one, other, bob} if guarded else set())
    wait_until(lambda: rig.acls.read(SOON(10)).writing([topic_name])[topic_name] == after)
    for _ in range(2):
        assert rig.opening.take_back({topic_name: (one, bob)}, SOON(10)) == {topic_name: None}
    left = before | ({other} if guarded else set())
    wait_until(lambda: rig.acls.read(SOON(10)).writing([topic_name])[topic_name] == left)
    assert rig.opening.take_back({topic_name: (other,)}, SOON(10)) == {topic_name: None}
    wait_until(lambda: rig.acls.read(SOON(10)).writing([topic_name])[topic_name] == before)


@pytest.mark.parametrize("rig", ["kafka-guarded"], indirect=True)
def test_only_a_deny_of_write_on_the_topic_itself_counts_as_denied_by_name(rig: Rig, topic_name: str) -> None:
    """A withdrawn reversal creates such an ACL again: none that was not there, for one of another pattern or ALL."""
    rig.topic(topic_name, 1)
    assert isinstance(rig.world, Real)
    topic, literal, prefixed, write, everything, deny = 2, 3, 4, 4, 2, 2
    wider = [
        AclBinding(topic, topic_name, prefixed, "User:prefixed", "*", write, deny),
        AclBinding(topic, topic_name, literal, "User:all", "*", everything, deny),
        AclBinding(topic, topic_name, literal, "User:host", "127.0.0.9", write, deny),
    ]
    assert admin.create_acls(rig.world.router, wider, SOON(20)) == [None] * len(wider)
    assert rig.opening.deny({topic_name: ["User:app"]}, SOON(10)) == {topic_name: None}
    seen = {AclEntry(f"User:{who}", ANY_HOST, allowed=False) for who in ("prefixed", "all", "app")}
    wait_until(lambda: rig.acls.read(SOON(10)).writing([topic_name])[topic_name] >= seen)
    assert rig.acls.read(SOON(10)).denied_by_name([topic_name]) == {topic_name: frozenset({"User:app"})}


def test_a_topic_is_open_once_its_rules_are_there_and_the_mirror_is_given_none(rig: Rig, topic_name: str) -> None:
    rig.topic(topic_name, 1)
    guarded = rig.kind is FenceKind.DENY_WRITE
    rules = {topic_name: tuple(AclEntry(f"User:{who}", "*", allowed=who != "bob") for who in ("bob", "eve", "mirror"))}
    assert rig.opening.open({topic_name: ()}, SOON(10)) == {topic_name: None}
    wait_until(lambda: rig.opening.is_open({topic_name: ()}, SOON(10)) == {topic_name: True})
    assert rig.opening.is_open(rules, SOON(10)) == {topic_name: not guarded}
    for _ in range(2):
        assert rig.opening.open(rules, SOON(10)) == {topic_name: None}
    wait_until(lambda: rig.opening.is_open(rules, SOON(10)) == {topic_name: True})
    wait_until(lambda: rig.opening.shut_out([topic_name], SOON(10)) == {topic_name: guarded})
    assert rig.world.writes(topic_name, "mirror") is not guarded


@pytest.mark.parametrize("rig", ["memory-guarded", "kafka-guarded"], indirect=True)
def test_who_was_denied_by_name_is_allowed_again_but_for_those_whom_the_source_denies(
    rig: Rig, topic_name: str
) -> None:
    rig.topic(topic_name, 1)
    bob, app = AclEntry("User:bob", "*", allowed=False), AclEntry("User:app", "*", allowed=False)
    names, given = {topic_name: ("User:app", "User:bob")}, {topic_name: (bob,)}

    def rules() -> frozenset[AclEntry]:
        return rig.acls.read(SOON(10)).writing([topic_name])[topic_name]

    for _ in range(2):
        assert rig.opening.deny(names, SOON(10)) == {topic_name: None}
    wait_until(lambda: {bob, app} <= rules())
    assert not rig.world.writes(topic_name, "app")
    assert rig.opening.is_open(given, SOON(10), denied=names) == {topic_name: False}
    for _ in range(2):
        assert rig.opening.open(given, SOON(10), denied=names) == {topic_name: None}
    wait_until(lambda: app not in rules())
    assert bob in rules()
    assert rig.opening.is_open(given, SOON(10), denied=names) == {topic_name: True}
    assert rig.world.writes(topic_name, "app")
    assert rig.opening.deny(names, SOON(10)) == {topic_name: None}
    for _ in range(2):
        assert rig.opening.undeny(names, SOON(10)) == {topic_name: None}
    wait_until(lambda: not {bob, app} & rules())


@pytest.mark.parametrize("rig", ["memory-guarded", "kafka-guarded"], indirect=True)
def test_who_may_alter_the_cluster_is_reported(rig: Rig) -> None:
    if isinstance(rig.world, Memory):
        rig.world.cluster.operating = {"User:mirror"}
    assert rig.acls.read(SOON(10)).operators() == {"User:mirror"}


def test_a_canary_spends_offsets_that_no_reader_ever_sees(rig: Rig, topic_name: str) -> None:
    (at, other) = rig.topic(topic_name)
    for _ in range(2):
        assert rig.opening.canary(DR, [topic_name], SOON(20)) == {topic_name: None}
    assert rig.world.end(at) > 0
    assert rig.world.end(other) == 0
    assert rig.world.seen(topic_name) == 0
    assert rig.world.writes(topic_name, "app")


def test_a_canary_passes_a_near_fence(rig: Rig, topic_name: str) -> None:
    """It is markers only: that it was sung does not say that records of any size get in."""
    rig.topic(topic_name, 1, max_message_bytes="78")
    assert rig.opening.canary(DR, [topic_name], SOON(20)) == {topic_name: None}


def test_replicas_in_sync_are_told_with_what_is_needed(rig: Rig, topic_name: str) -> None:
    rig.topic(topic_name, 2)
    missing = f"{topic_name}-missing"
    found = rig.topics.describe([topic_name, missing], SOON(10), {MIN_ISR})
    told = found[topic_name]
    assert isinstance(told, TopicFacts)
    assert (told.in_sync, told.leaders, told.effective) == ((1, 1), (BrokerId(1),) * 2, {MIN_ISR: "1"})
    assert isinstance(found[missing], UnknownTopicOrPartition)


def test_a_cluster_tells_who_it_is_and_how_large_topics_are(rig: Rig, topic_name: str) -> None:
    rig.topic(topic_name, 2)
    missing = f"{topic_name}-missing"
    found = rig.replicas.cluster([topic_name, missing], SOON(10))
    assert found.cluster_id == rig.topics.cluster_id(SOON(10))
    assert found.partitions[topic_name] == 2
    assert isinstance(found.partitions[missing], UnknownTopicOrPartition)


def test_a_transaction_is_told_before_it_has_written_anything_and_not_once_it_has_ended(
    rig: Rig, topic_name: str
) -> None:
    (at, other) = rig.topic(topic_name, max_message_bytes="78")
    assert rig.replicas.named_in_transactions([at, other], SOON(10)) == ()
    with rig.world.names_in_a_transaction(at):
        (found,) = rig.replicas.named_in_transactions([at, other], SOON(10))
        assert found.partition == at
        assert found.since > 0
        assert rig.world.end(at) == 0
        assert rig.replicas.named_in_transactions([other], SOON(10)) == ()
    wait_until(lambda: rig.replicas.named_in_transactions([at], SOON(10)) == (), 10)
    told = {at: TransactionalProducers.HERE, other: TransactionalProducers.ELSEWHERE}
    wait_until(lambda: rig.replicas.transactional([at, other], SOON(10)) == told, 10)


def test_who_may_not_describe_transactions_is_told_so_and_not_that_there_are_none(
    guarded: SandboxCluster, client_config: ClientConfig
) -> None:
    """ListTransactions leaves out in silence what we may not see."""
    with ExitStack() as stack:
        rig = on(guarded, FenceKind.DENY_WRITE, client_config, stack)
        (at,) = rig.topic("unseen-transactions", 1, max_message_bytes="78")
        stack.enter_context(rig.world.names_in_a_transaction(at))
        nobody = stack.enter_context(over(KafkaReplicas, guarded.endpoint_for("operator")))
        with pytest.raises(TransactionalIdAuthorizationFailed):
            nobody.named_in_transactions([at], SOON(10))


# ── approvals ─────────────────────────────────────────────────────────────────────────────────────────────────────


def approval_request(plan: str) -> ApprovalRequest:
    return ApprovalRequest(
        mirror=DR,
        plan=plan,
        plan_json='{"a":"ü"}',
        request="run/a/1",
        reason="drill",
        valid_for_ms=1000,
    )


def test_an_approval_is_written_by_who_is_logged_in_and_timed_by_the_broker(rig: Rig) -> None:
    if not rig.approvals.exists(SOON(10)):
        with pytest.raises(NoApproverTopic, match=r"kafka-topics\.sh --bootstrap-server \S+:\d+ --create"):
            rig.approvals.all(SOON(10))
        with pytest.raises(NoApproverTopic):
            rig.approvals.append(approval_request("p"), SOON(10))
        rig.approvals.create(SOON(20))
    assert rig.approvals.exists(SOON(10))
    first = rig.approvals.append(approval_request("p"), SOON(10))
    second = rig.approvals.append(approval_request("p"), SOON(10))
    assert first.id != second.id
    assert first.approver == rig.approvals.principal(SOON(10))
    assert first.approver == "mirror" if rig.kind is FenceKind.DENY_WRITE else first.approver.startswith("UNPROTECTED:")
    assert second.expires_at == second.at + 1000
    assert rig.approvals.all(SOON(10))[-2:] == (first, second)
    assert first.request == "run/a/1"
    rig.approvals.withdraw(Withdrawal(mirror=DR, plan="p", request="run/a/1", reason="no"), SOON(10))
    *earlier, no = rig.approvals.all(SOON(10))
    assert earlier[-2:] == [first, second]
    said = f"no ({first.approver})"
    assert no == Withdrawal(mirror=DR, plan="p", request="run/a/1", reason=said), "in order, by who is logged in"


def test_who_is_no_approver_writes_nothing(guarded: SandboxCluster, client_config: ClientConfig) -> None:
    with ExitStack() as stack:
        rig = on(guarded, FenceKind.DENY_WRITE, client_config, stack)
        if not rig.approvals.exists(SOON(10)):
            rig.approvals.create(SOON(20))
        nobody = stack.enter_context(over(KafkaApprovals, guarded.endpoint_for("operator"), allow_small=True))
        count = len(rig.approvals.all(SOON(10)))
        with pytest.raises((AuthorizationFailed, KafkaException)):
            nobody.append(approval_request("p"), SOON(10))
        with pytest.raises((AuthorizationFailed, KafkaException)):
            nobody.withdraw(Withdrawal(mirror=DR, plan="p", reason="no"), SOON(10))
        assert len(rig.approvals.all(SOON(10))) == count


def test_an_approval_at_an_unknown_offset_is_not_the_one_at_offset_0(
    clusters: Mapping[str, SandboxCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id was `0-0`, somebody else's: the offset of a record that was confirmed without one became 0."""
    written = KafkaApprovals._write
    monkeypatch.setattr(KafkaApprovals, "_write", lambda *args: written(*args) and None)
    with over(KafkaApprovals, clusters["west"].endpoint(), allow_small=True) as approvals:
        if not approvals.exists(SOON(10)):
            approvals.create(SOON(20))
        found = [approvals.append(approval_request("p"), SOON(10)).id for _ in range(2)]
        assert found == [each.id for each in read_approvals(approvals.all(SOON(10)))][-2:]

        def unread(*_: object) -> tuple[Entry, ...]:
            raise TimedOut("unread")

        monkeypatch.setattr(KafkaApprovals, "all", unread)
        with pytest.raises(CouldNotTell, match="unknown offset: check the topic"):
            approvals.append(approval_request("p"), SOON(10))


def test_an_approval_is_judged_by_the_leaders_clock_whatever_time_writers_put_into_records(
    clusters: Mapping[str, SandboxCluster], client_config: ClientConfig, topic_name: str
) -> None:
    """Only a commit marker has the broker's time; a worker whose clock is ahead would make every approval too old."""
    west = clusters["west"].endpoint()
    operator, layout = operator_of(MirrorName(topic_name)), TopicLayout(allow_small=True)
    with ExitStack() as stack:
        store = stack.enter_context(
            CompactedTopic.open(west, STATE_TOPIC, SOON(20), layout=layout, writer=operator, create=True)
        )
        approvals = stack.enter_context(over(KafkaApprovals, west, allow_small=True))
        began = SystemClock().now()
        store.append([Tombstone("nothing")], SOON(10))
        first = approvals.brokers_time(SOON(10))
        ahead = Producer({**client_config(west), "enable.idempotence": True})
        ahead.produce(STATE_TOPIC, None, b"nothing", 0, timestamp=began + 1_800_000)
        assert ahead.flush(10) == 0
        assert approvals.brokers_time(SOON(10)) == first, "a writer's own time was believed"
        store.append([Tombstone("nothing")], SOON(10))
        second = approvals.brokers_time(SOON(10))
    assert first is not None
    assert second is not None
    assert began <= first < second <= SystemClock().now()
