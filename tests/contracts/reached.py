"""A cluster behind its ports, in memory or real, and what others do to it meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from tanist.domain.acls import AclBinding
from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.names import MirrorPartition
from tanist.kafka.adapters.access import KafkaAccess
from tanist.kafka.adapters.acls import KafkaAcls
from tanist.kafka.adapters.logs import KafkaLogs
from tanist.kafka.adapters.mirrormaker import KafkaMirrorMakerTopics
from tanist.kafka.adapters.topics import KafkaConfigs, KafkaTopics
from tanist.kafka.wire.admin import AccessFilter, create_acls, delete_acls, describe_acls
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import Markers, delete_records, init_producer_id, write_markers
from tanist.ports.topics import NewTopic
from tanist_testkit.sandbox.ports import free_ports
from tests.fakes.access import MemoryAccess
from tests.fakes.acls import MemoryAcls
from tests.fakes.configs import MemoryConfigs
from tests.fakes.logs import MemoryLogs
from tests.fakes.mirrormaker import MemoryMirrorMaker
from tests.fakes.topics import MemoryTopics
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from tanist.kafka.wire.router import Router
    from tanist.ports.access import Access
    from tanist.ports.acls import AclStore
    from tanist.ports.clock import Clock
    from tanist.ports.logs import Logs
    from tanist.ports.mirrormaker import MirrorMakerTopics
    from tanist.ports.topics import Configs, Topics
    from tests.fakes.cluster import MemoryCluster

SOON = SystemClock().deadline
USER: Final = "approver"
"""Has every right on the guarded cluster but those that a test denies; its other users belong to other tests."""

_TYPES: Final = {"Topic": 2, "Group": 3, "Cluster": 4}
_OPERATIONS: Final = {
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "ALTER": 7,
    "DESCRIBE": 8,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
}
_ALL, _LITERAL, _DENY, _ALLOW = 2, 3, 2, 3


@dataclass
class Reached:
    """One cluster, as a principal sees it that has every right but those denied."""

    topics: Topics
    logs: Logs
    access: Access
    acls: AclStore
    configs: Configs
    mirrormaker: MirrorMakerTopics
    clock: Clock
    world: Memory | Real

    def topic(self, name: str, partitions: int = 2) -> tuple[MirrorPartition, ...]:
        new = NewTopic(name=name, partitions=partitions, replication_factor=1)
        assert self.topics.create([new], SOON(20)) == {name: None}
        return tuple(MirrorPartition(name, n) for n in range(partitions))


@dataclass
class Memory:
    cluster: MemoryCluster

    def deny(self, operation: str, resource_type: str, resource: str) -> None:
        self.cluster.denied.add((operation, resource))

    def write(self, at: MirrorPartition, count: int, size: int = 1) -> None:
        self.cluster.grow(at, count)

    def write_raw(self, at: MirrorPartition, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        self.cluster.raw_records.setdefault(at.topic, []).extend(records)
        self.cluster.grow(at, len(records))

    def mark(self, at: MirrorPartition, count: int) -> None:
        for _ in range(count):
            self.cluster.mark(at)

    def write_uncommitted(self, at: MirrorPartition, count: int) -> None:
        start, stable, high = self.cluster.ends[at]
        self.cluster.ends[at] = (start, stable, high + count)
        self.cluster.producers |= {(at, offset): 4711 for offset in range(high, high + count)}

    def delete_before(self, at: MirrorPartition, offset: int) -> None:
        _, stable, high = self.cluster.ends[at]
        self.cluster.ends[at] = (offset, stable, high)


@dataclass
class Real:
    """`router` and `client` are an administrator's."""

    router: Router
    client: dict[str, Any]

    def deny(self, operation: str, resource_type: str, resource: str) -> None:
        """Until the broker knows of it."""
        rule = rule_of(operation, resource_type, resource, _DENY)
        assert create_acls(self.router, [rule], SOON(10)) == [None]
        wait_until(lambda: rule in describe_acls(self.router, AccessFilter(principal=f"User:{USER}"), SOON(10)))

    def write(self, at: MirrorPartition, count: int, size: int = 1) -> None:
        producer = Producer(self.client)
        for _ in range(count):
            producer.produce(at.topic, b"x" * size, partition=at.partition)
        assert producer.flush(10) == 0

    def write_raw(self, at: MirrorPartition, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        producer = Producer({**self.client, "compression.type": "gzip"})
        for key, value in records:
            producer.produce(at.topic, value, key, partition=at.partition)
        assert producer.flush(10) == 0

    def mark(self, at: MirrorPartition, count: int) -> None:
        """So many markers of a transaction that never was."""
        who = init_producer_id(self.router, SOON(10))
        assert write_markers(self.router, {at: Markers(who, 0, range(count))}, SOON(20)) == {at: None}

    def write_uncommitted(self, at: MirrorPartition, count: int) -> None:
        """The transaction stays open until the brokers abort it."""
        producer = Producer({**self.client, "transactional.id": at.topic, "transaction.timeout.ms": 10_000})
        producer.init_transactions(10)
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(at.topic, b"x", partition=at.partition)
        assert producer.flush(10) == 0

    def delete_before(self, at: MirrorPartition, offset: int) -> None:
        assert delete_records(self.router, {at: offset}, SOON(10)) == {at: offset}


def nowhere() -> Endpoint:
    """Where nobody listens."""
    return Endpoint(name="dead", bootstrap=(Address("127.0.0.1", free_ports(1)[0]),))


def rule_of(operation: str, resource_type: str, resource: str, permission: int) -> AclBinding:
    number = _OPERATIONS.get(operation, _ALL)
    return AclBinding(_TYPES[resource_type], resource, _LITERAL, f"User:{USER}", "*", number, permission)


def allow_nothing(router: Router) -> None:
    """Without any ACL of the user: also of tests that look at the ACLs of the whole cluster."""
    mine = AccessFilter(principal=f"User:{USER}")
    delete_acls(router, [mine], SOON(10))
    wait_until(lambda: not describe_acls(router, mine, SOON(10)))


def allow_everything(router: Router) -> None:
    allow_nothing(router)
    everything = (("Topic", "*"), ("Group", "*"), ("Cluster", "kafka-cluster"))
    rules = [rule_of("ALL", kind, name, _ALLOW) for kind, name in everything]
    assert create_acls(router, rules, SOON(10)) == [None] * len(rules)
    wait_until(lambda: len(describe_acls(router, AccessFilter(principal=f"User:{USER}"), SOON(10))) == len(rules))


def in_memory(cluster: MemoryCluster) -> Reached:
    return Reached(
        topics=MemoryTopics(cluster),
        logs=MemoryLogs(cluster),
        access=MemoryAccess(cluster),
        acls=MemoryAcls(cluster),
        configs=MemoryConfigs(cluster),
        mirrormaker=MemoryMirrorMaker(cluster),
        clock=cluster.clock,
        world=Memory(cluster),
    )


def real(endpoint: Endpoint, world: Real, stack: ExitStack) -> Reached:
    return Reached(
        topics=stack.enter_context(over(KafkaTopics, endpoint)),
        logs=stack.enter_context(over(KafkaLogs, endpoint)),
        access=stack.enter_context(over(KafkaAccess, endpoint)),
        acls=stack.enter_context(over(KafkaAcls, endpoint)),
        configs=stack.enter_context(over(KafkaConfigs, endpoint)),
        mirrormaker=stack.enter_context(over(KafkaMirrorMakerTopics, endpoint)),
        clock=SystemClock(),
        world=world,
    )


def wait_until(true: Callable[[], bool], seconds: float = 5) -> None:
    """Brokers learn of rules and configs a moment after the controller has answered."""
    clock = SystemClock()
    by = clock.deadline(seconds)
    while not true():
        assert by.left(clock.monotonic())
        clock.wait(0.05)
