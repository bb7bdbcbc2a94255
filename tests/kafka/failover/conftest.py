"""East and west with authorizers, a worker that is a process, and the command line."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import tanist.kafka.wire.messages  # noqa: F401  # kafka-python is loaded through the door that filters its warnings
from tanist.domain.acls import AclBinding
from tanist.kafka.adapters.librdkafka import UNREACHABLE
from tanist.kafka.protocol.client_config import client_config as connection
from tanist.kafka.wire import admin
from tanist.kafka.wire.admin import AccessFilter
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.router import Router
from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.airflow.rest import AirflowConnection
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.jars import KAFKA_VERSION
from tanist_testkit.sandbox.spec import ClusterSpec
from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter
from tests.kafka.cli.conftest import section
from tests.kafka.failover.commands import executed
from tests.kafka.fetcher.rig import until
from tests.storm.proxy import Door, Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian, Process
    from tests.conftest import ClientConfig

SOON = SystemClock().deadline
ALL, READ, WRITE, ALTER, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 4, 7, 8, 10
TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
LITERAL, DENY, ALLOW = 3, 2, 3
KILLED = "tests.kafka.failover.killed:main"
forks.preload("tests.kafka.failover.killed")
COMMAND_SECONDS = 400
"""Spark alone takes a minute to start on a busy machine."""
EAST = ClusterSpec(name="east", authorizer=True, heap_mb=384)
CERTIFICATES = replace(EAST, tls=True, client_certificates=True)
ANY = {TOPIC: "*", GROUP: "*", TRANSACTION: "*", CLUSTER: "kafka-cluster"}


def rules(user: str, *wanted: tuple[int, int]) -> list[AclBinding]:
    return [AclBinding(kind, ANY[kind], LITERAL, user, "*", operation, ALLOW) for kind, operation in wanted]


def give(cluster: SandboxCluster, *wanted: AclBinding) -> None:
    """Make rules as the cluster's administrator; returns when a broker shows them, which is a moment later."""
    router, by = Router(cluster.endpoint(), "tanist-test"), SOON(20)
    assert admin.create_acls(router, wanted, by) == [None] * len(wanted)
    until(lambda: set(wanted) <= set(admin.describe_acls(router, AccessFilter(), by)), 20)
    router.close()


def take(cluster: SandboxCluster, *unwanted: AclBinding) -> None:
    """Take exactly these rules away."""
    router = Router(cluster.endpoint(), "tanist-test")
    admin.delete_acls(router, [AccessFilter(*rule) for rule in unwanted], SOON(20))
    router.close()


def grant(cluster: SandboxCluster) -> None:
    """`mirror` copies and runs failovers, `approver` reads and approves, `app` reads and writes business topics."""
    mirror, approver, app = (cluster.spec.principal(user) for user in ("mirror", "approver", "app"))
    wanted = [
        *rules(mirror, *((kind, ALL) for kind in ANY)),
        *rules(
            approver,
            (TOPIC, READ),
            (TOPIC, DESCRIBE_CONFIGS),
            *((kind, DESCRIBE) for kind in (CLUSTER, GROUP, TRANSACTION)),
        ),
        *rules(app, (TOPIC, READ), (TOPIC, WRITE), (GROUP, READ), (TRANSACTION, ALL)),
        AclBinding(TOPIC, "__mirror_approvals", LITERAL, mirror, "*", WRITE, DENY),
        AclBinding(TOPIC, "__mirror_approvals", LITERAL, approver, "*", WRITE, ALLOW),
    ]
    give(cluster, *wanted)


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def item(self) -> dict[str, Any]:
        (found,) = json.loads(self.out)["items"]
        return dict(found)


@dataclass
class KafkaSide:
    """One cluster as its clients see it."""

    cluster: SandboxCluster
    config: Callable[..., dict[str, Any]]

    def client(self, user: str = "app", **extra: str) -> dict[str, Any]:
        """Where there is no authorizer everybody is the same."""
        guarded = self.cluster.spec.authorizer
        return self.config(self.cluster.endpoint_for(user) if guarded else self.cluster.endpoint(), **extra)

    def topic(self, name: str, partitions: int = 2, **configs: str) -> None:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        client = AdminClient(self.client("admin"))
        client.create_topics([NewTopic(name, partitions, config=given)])[name].result(20)

    def writes(self, topic: str, values: range, user: str = "app", *, partitions: int = 2) -> bool:
        """Whether all of `values` were taken, one partition after the other."""
        return self.writes_to([topic], values, user, partitions=partitions)

    def writes_to(self, topics: Iterable[str], values: range, user: str = "app", *, partitions: int = 2) -> bool:
        """As `writes`, to each of `topics`, by one producer: two hundred of them keep a core busy for seconds."""
        writer = LogWriter(self.client(user, message_timeout_ms="20000", acks="all"))
        answers: list[object] = []
        for topic in topics:
            records = (FlowRecord(n % partitions, b"k", b"%d" % n) for n in values)
            writer.write(topic, records, lambda _record, error, _message: answers.append(error))
        assert writer.producer.flush(30) == 0
        return all(error is None for error in answers)

    def commit(self, group: str, topic: str, offset: int) -> None:
        """The position of a consumer of partition 0, which has left."""
        consumer = Consumer(self.client(group_id=group))
        consumer.commit(offsets=[At(topic, 0, offset)], asynchronous=False)
        consumer.close()

    def committed(self, group: str, topic: str) -> int:
        """The position of `group` in partition 0."""
        consumer = Consumer(self.client(group_id=group))
        (found,) = consumer.committed([At(topic, 0)], timeout=20)
        consumer.close()
        return int(found.offset)

    def read(
        self, topic: str, partitions: int = 2, isolation: str = "read_uncommitted"
    ) -> list[tuple[int, int, bytes | None]]:
        """(partition, offset, value) of everything that a reader sees."""
        options = {"group_id": "look", "isolation_level": isolation, "enable_partition_eof": "true"}
        consumer = Consumer(self.client(**options, auto_offset_reset="earliest"))
        consumer.assign([At(topic, n, 0) for n in range(partitions)])
        found: list[tuple[int, int, bytes | None]] = []
        ended = set[int]()  # an end may be told twice, and an error is none
        while len(ended) < partitions:
            message = consumer.poll(20)
            assert message is not None
            error = message.error()
            if error is None:
                found.append((message.partition() or 0, message.offset() or 0, message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
            else:
                assert error.retriable() or error.code() in UNREACHABLE, error
        consumer.close()
        return sorted(found)


class Doors(NamedTuple):
    """What a command takes for the clusters."""

    east: Door
    west: Door


@dataclass
class Slowed:
    """One command of which a request may be kept back at either door."""

    pair: Pair
    arguments: tuple[str, ...]
    east: Door
    west: Door
    command: forks.Command | None = None

    def start(self) -> None:
        environment = self.pair.environment(doors=Doors(self.east, self.west))
        asked = (*self.arguments, "--destination", "west")
        self.command = forks.Command(forks.COMMANDS, asked, environment, self.pair.home)

    def end(self) -> Answer:
        """What came of it."""
        assert self.command is not None
        command, self.command = self.command, None
        done = command.wait(COMMAND_SECONDS)
        return Answer(done.code, done.out, done.err)

    def kill(self) -> None:
        if self.command is not None:
            self.command.send(signal.SIGKILL)
            self.end()


@dataclass
class Pair:
    east: KafkaSide
    west: KafkaSide
    home: Path
    guardian: Guardian
    workers: dict[str, Process] = field(default_factory=dict)
    mirror_user: str = "mirror"
    """As whom the mirror logs in."""
    clock: SystemClock = field(default_factory=SystemClock)

    def tanist(self, *arguments: str, user: str = "mirror", at: str = "west", expected: int | None = 0) -> Answer:
        """The command line in this process, logged in as `user`, with the destination `at`."""
        asked = (*arguments, "--destination", at)
        done = executed(asked, self.environment(user), self.home, forked_seconds=COMMAND_SECONDS)
        assert expected is None or done.code == expected, done.out + done.err
        return Answer(done.code, done.out, done.err)

    def environment(self, user: str = "mirror", doors: Doors | None = None) -> dict[str, str]:
        """What a command logs in with, and the ways that it takes to both clusters."""
        sides = (self.east, self.west)
        ways = [door.bootstrap_servers for door in doors] if doors else [None, None]
        file = self.home / f"{user}{'-'.join(way.rpartition(':')[2] for way in ways if way)}.toml"
        login = self.mirror_user if user == "mirror" else user
        text = "".join(
            section(side.cluster, login if side.cluster.spec.authorizer else None, through=way)
            for side, way in zip(sides, ways, strict=True)
        )
        new = file.with_suffix(f".{threading.get_ident()}")
        new.write_text(text)
        new.replace(file)  # another command may be reading it
        return {**os.environ, "TANIST_CONFIG": str(file)}

    def doors(self, proxy: Proxy) -> Doors:
        """New ones, to both clusters, for one command."""
        return Doors(proxy.door(self.east.cluster), proxy.door(self.west.cluster))

    @contextmanager
    def slowed(self, *arguments: str) -> Iterator[Slowed]:
        """A command that has not begun, with doors of its own to both clusters; it does not outlive the block."""
        with Proxy() as proxy:
            slowed = Slowed(self, arguments, *self.doors(proxy))
            try:
                yield slowed
            finally:
                slowed.kill()

    def connections(self) -> tuple[AirflowConnection, ...]:
        """What a failover and a failback through Airflow need: both clusters, and a login of each that may approve."""
        logins = (
            ("east", self.east, "mirror"),
            ("west", self.west, "mirror"),
            ("east_approver", self.east, "approver"),
            ("west_approver", self.west, "approver"),
        )
        small = {"tanist.allow_small_state": True}
        return tuple(
            AirflowConnection(id=name, type="kafka", extra=connection(side.cluster.endpoint_for(user)) | small)
            for name, side, user in logins
        )

    def worker(self, name: str = "w1", *options: str) -> Process:
        """A fetcher: the one of that name, started if there is none, with these `options`."""
        if name not in self.workers or not self.workers[name].alive:
            where = ("--config", self.environment()["TANIST_CONFIG"], "--destination", "west", "--id", name)
            argv = [sys.executable, "-m", "tanist.cli.main", "fetcher", "run", *where, *options]
            self.workers[name] = self.guardian.spawn(argv, self.home / f"{name}.log")
        return self.workers[name]

    def dismiss(self) -> None:
        """End all workers: they would look for their clusters until the last test."""
        for worker in self.workers.values():
            worker.send(signal.SIGKILL)

    def mirror(self, name: str, *topics: str) -> None:
        """A mirror of `topics`, each with ten records, and all of it copied."""
        self.mirrors({name: topics})

    def mirrors(self, wanted: Mapping[str, Sequence[str]]) -> None:
        """Several mirrors, by name the topics of each; they are copied side by side."""
        for name, topics in wanted.items():
            for topic in topics:
                self.east.topic(topic, cleanup_policy="compact")
                assert self.east.writes(topic, range(10))
            self.tanist("mirrors", "create", name, "--source", "east", "--topic", "|".join(topics))
        for name in wanted:
            self.tanist("mirrors", "wait", name, "--for", "lag=0", "--timeout", "200s")

    def approved(self, mirror: str, *options: str, mode: str = "planned", valid: str = "1h") -> str:
        """The hash of a plan that the approver has approved."""
        plan = self.tanist("failover", "plan", mirror, "--mode", mode, *options, "--json").item["plan_hash"]
        asked = ("--mode", mode, "--reason", "drill", "--valid", valid, *options)
        self.tanist("failover", "approve", mirror, plan, *asked, user="approver")
        return str(plan)

    def killed(self, point: str, mirror: str, plan: str, *until: str, at: str = "west") -> int:
        """Run until `point`, and die there; or until a step is done. The process's exit code."""
        asked = (point, mirror, plan, str(self.home / plan), *until)
        environment = self.environment() | {"TANIST_DESTINATION": at}
        done = forks.Command(KILLED, asked, environment, self.home).wait(COMMAND_SECONDS)
        assert done.code in {0, -9}, done.err
        return done.code


def knows_its_brokers(cluster: SandboxCluster) -> bool:
    """Whether the controller has told them of one another: with ZooKeeper they serve before, and create no topic."""
    with Router(cluster.endpoint(), "tanist-test") as router:
        router.refresh([], SOON(5))
        return len(router.brokers) == cluster.spec.brokers and router.controller is not None


@contextmanager
def running(  # noqa: PLR0913  # what a pair of clusters is made of, named
    guardian: Guardian,
    config: ClientConfig,
    home: Path,
    *,
    brokers: int = 1,
    source: ClusterSpec = EAST,
    authorizer: bool = True,
    properties: Mapping[str, str] = MappingProxyType({}),
    version: str = KAFKA_VERSION,
    features: Mapping[str, int] = MappingProxyType({}),
    grants: Callable[[SandboxCluster], None] = grant,
) -> Iterator[Pair]:
    """East, and west of so many brokers, with their users and the approvers' topic; nothing of it is left.

    `authorizer`, `properties`, `version`, `features`: of the destination. `grants`: gives the users their permissions.
    """
    with ExitStack() as stack:
        west_spec = ClusterSpec(
            name="west",
            authorizer=authorizer,
            tls=source.tls,
            client_certificates=source.client_certificates,
            heap_mb=source.heap_mb,
            brokers=brokers,
            properties=dict(properties),
            version=version,
            features=dict(features),
        )
        specs = (source, west_spec)
        both = [SandboxCluster.new(spec, guardian=guardian) for spec in specs]
        for cluster in both:
            stack.callback(cluster.close)
            cluster.launch()
        for cluster in both:
            cluster.start()
            if cluster.spec.release.zookeeper:
                until(lambda cluster=cluster: knows_its_brokers(cluster), 30)  # type: ignore[misc]
            if cluster.spec.authorizer:
                grants(cluster)
        east, west = (KafkaSide(cluster, config) for cluster in both)
        west.topic("__mirror_approvals", 1, retention_ms="-1", message_timestamp_type="LogAppendTime")
        pair = Pair(east, west, home, guardian)
        stack.callback(pair.dismiss)
        yield pair


@pytest.fixture(scope="package")
def pair(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with running(guardian, client_config, tmp_path_factory.mktemp("failover")) as found:
        yield found


@pytest.fixture(autouse=True)
def both_run(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test has killed runs again for the next one, also where the test has failed in between."""
    # asked for before the yield: a pair of one test would have ended already, and its directory with it
    shared = request.getfixturevalue("pair") if "pair" in request.fixturenames else None
    yield
    if isinstance(shared, Pair):
        for side in (shared.east, shared.west):
            if not side.cluster.running:
                side.cluster.start()
