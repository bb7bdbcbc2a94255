"""Two clusters, a mirror between them, and everything a test wants to do to either side."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tanist.domain.errors import TanistError
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.records import MirrorSpec, SmallBatches
from tanist.domain.state_view import NOTHING_YET
from tanist.fetcher.claims import Claims
from tanist.fetcher.runs import OffsetRuns
from tanist.kafka.wire import requests
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import End
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline
from tanist_testkit.verify import clients
from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.copier import Copier
from tests.kafka.fetcher.logs import Logs, first_difference, read
from tests.leading import leads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from confluent_kafka import Producer

    from tanist.domain.offset_map import OffsetMap
    from tanist.ports.state import StateStore
    from tanist_testkit.sandbox.cluster import SandboxCluster

COPIED_SECONDS = 40.0
SHORTEST_REST, LONGEST_REST = 0.02, 1.0
_T = TypeVar("_T")


def soon(seconds: float = 20) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def until(true: Callable[[], object], seconds: float, what: Callable[[], object] = lambda: "") -> None:
    """Wait until `true()`; a cluster that cannot tell is asked again. Else AssertionError with `what()`.

    It rests twice as long as an answer takes: to ask all the time would cost the processor that others wait for.
    """
    by, trouble = soon(seconds), ""
    while True:
        began = time.monotonic()
        try:
            if true():
                return
        except TanistError as error:
            trouble = str(error)
        assert by.left(time.monotonic()), (what(), trouble)
        rest = min(LONGEST_REST, max(SHORTEST_REST, 2 * (time.monotonic() - began)))
        time.sleep(rest)  # noqa: TID251  # a test waits for another process


class RigCluster:
    """One cluster as a test sees it."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self.servers = cluster.bootstrap_servers
        self.router = Router(cluster.endpoint(), "tanist-test")
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 2})
        self._known: dict[str, LogWriter] = {}

    def close(self) -> None:
        self.router.close()
        self._known.clear()  # a client that is not let go looks for its brokers until the last test

    def create(
        self, name: str, partitions: int = 1, *, brokers: Sequence[int] = (), config: Mapping[str, str] | None = None
    ) -> tuple[MirrorPartition, ...]:
        """A topic that every broker knows; `brokers`: the replicas of all its partitions, the leader first.

        One that another test has killed may serve again and still be fenced by the controller.
        """
        where: dict[str, Any] = {"replica_assignment": [list(brokers)] * partitions} if brokers else {}
        topic = NewTopic(name, partitions, **where, config=dict(config or {}))
        until(lambda: self._created(topic), 20)
        until(lambda: self.complete(name, partitions), 20)
        return tuple(MirrorPartition(name, n) for n in range(partitions))

    def _created(self, topic: NewTopic) -> bool:
        try:
            self.admin.create_topics([topic])[topic.topic].result(20)
        except KafkaException as refused:
            if refused.args[0].code() == KafkaError.INVALID_REPLICA_ASSIGNMENT:
                return False
            raise
        return True

    def complete(self, name: str, partitions: int) -> bool:
        """Whether all replicas of all partitions are there and in sync, and their leaders know that they lead."""
        if not leads(self.router, name, partitions, soon()):
            return False
        return all(len(p.isr) == len(p.replicas) for p in self.router.topics()[name].partitions)

    def leader(self, at: MirrorPartition) -> int:
        self.router.refresh([at.topic], soon())
        return self.router.leader(at)

    def followers(self, at: MirrorPartition) -> tuple[int, ...]:
        leader = self.leader(at)
        return tuple(b for b in self.router.topics()[at.topic].partitions[at.partition].replicas if b != leader)

    def ends(self, partitions: Iterable[MirrorPartition], end: End) -> dict[MirrorPartition, int]:
        answers = requests.list_offsets(self.router, dict.fromkeys(partitions, end), soon())
        return {at: value(answer) for at, answer in answers.items()}

    def end(self, at: MirrorPartition, end: End = End.HIGH_WATERMARK) -> int:
        return self.ends([at], end)[at]

    def settle(self, partitions: Iterable[MirrorPartition]) -> None:
        """Wait until the markers of ended transactions are written: their producers do not."""
        at = tuple(partitions)
        until(lambda: self.ends(at, End.LAST_STABLE) == self.ends(at, End.HIGH_WATERMARK), 10)

    def delete_before(self, at: MirrorPartition, offset: int) -> None:
        assert value(requests.delete_records(self.router, {at: offset}, soon())[at]) == offset

    def producer(self, **settings: Any) -> Producer:
        return self._new(settings).producer

    def _new(self, settings: Mapping[str, Any]) -> LogWriter:
        return LogWriter(clients.settings(self.servers, **{"linger_ms": 5, **settings}))

    def _writer(self, **settings: Any) -> LogWriter:
        """One of each kind: they take their time to connect."""
        kind = str(sorted(settings.items()))
        if kind not in self._known:
            self._known[kind] = self._new(settings)
        return self._known[kind]

    def produce(self, at: MirrorPartition, values: Iterable[bytes | None], **settings: Any) -> None:
        """One batch, more or less, of records without anything special."""
        writer = self._writer(**settings)
        writer.write(at.topic, (FlowRecord(at.partition, b"k", each) for each in values))
        assert writer.producer.flush(20) == 0

    def transaction(self, at: MirrorPartition, values: Iterable[bytes], *, commit: bool = True) -> None:
        """A whole transaction, so one marker."""
        if "transactions" not in self._known:
            self._known["transactions"] = self._new({"transactional_id": f"t-{uuid4().hex}", "linger_ms": 0})
            self._known["transactions"].producer.init_transactions(20)
        transact(self._known["transactions"].producer, at, values, commit=commit)


def transact(producer: Producer, at: MirrorPartition, values: Iterable[bytes], *, commit: bool = True) -> None:
    """One transaction of a producer that has been initialised."""
    producer.begin_transaction()
    for each in values:
        producer.produce(at.topic, each, partition=at.partition)
    producer.flush(20)
    if commit:
        producer.commit_transaction(20)
    else:
        producer.abort_transaction(20)


def value(answer: _T | TanistError) -> _T:
    if isinstance(answer, TanistError):
        raise answer
    return answer


@dataclass
class Rig:
    source: RigCluster
    destination: RigCluster
    store: StateStore = field(default_factory=worker_store)

    def __post_init__(self) -> None:
        data, filler, start = (requests.init_producer_id(self.destination.router, soon()) for _ in range(3))
        self.spec = MirrorSpec(
            mirror=MirrorName("m"),
            source="source",
            destination="destination",
            source_cluster_id="",
            destination_cluster_id="",
            data_id=data,
            marker_id=filler,
            start_id=start,
            created_at=EpochMs(0),
            merge_small_batches=SmallBatches.AUTO,
        )

    def create(self, name: str, partitions: int = 1, **config: str) -> tuple[MirrorPartition, ...]:
        """The same topic on both sides."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.destination.create(name, partitions, config=settings)
        return self.source.create(name, partitions, config=settings)

    def copier(self, partitions: Iterable[MirrorPartition], **settings: Any) -> Copier:
        return Copier(
            spec=settings.pop("spec", self.spec),
            source=self.source.cluster.endpoint(),
            destination=self.destination.cluster.endpoint(),
            store=settings.pop("store", self.store),
            partitions=(chosen := tuple(partitions)),
            topic_ids=settings.pop("topic_ids") if "topic_ids" in settings else self._topic_ids(chosen),
            **settings,
        )

    def _topic_ids(self, partitions: Iterable[MirrorPartition]) -> Mapping[str, UUID | None]:
        """Of the source topics, as a mirror knows them since they were added; of a source that is down none."""
        names = sorted({at.topic for at in partitions})
        try:
            self.source.router.refresh(names, soon(5))
        except TanistError:
            return {}
        return {name: self.source.router.topics()[name].topic_id for name in names}

    def offsets(self, at: MirrorPartition) -> OffsetMap:
        runs = OffsetRuns(self.spec, self.store, Claims("reader", self.store, SystemClock()))
        return runs.on_record(lambda _: NOTHING_YET, soon()).offset_map(at)

    # ── waiting and checking ──────────────────────────────────────────────────────────────────────────────────────

    def copied(
        self,
        copier: Copier,
        seconds: float = COPIED_SECONDS,
        *,
        only: Iterable[MirrorPartition] = (),
        hanging: bool = False,
    ) -> None:
        """Wait until all that a reader of committed records can read now has been copied."""
        at = tuple(only) or copier.partitions
        if not hanging:
            self.source.settle(at)
        wanted = self.source.ends(at, End.LAST_STABLE)

        def done() -> bool:
            assert copier.died is None
            reports = copier.reports()
            return all(at in reports and (reports[at].position or 0) >= end for at, end in wanted.items())

        until(done, seconds, lambda: f"wanted {wanted}, got {copier.reports()}, died {copier.deaths()}")
        assert copier.deaths() == []

    def landed(self, partitions: Iterable[MirrorPartition], seconds: float = COPIED_SECONDS) -> None:
        """The same, seen from outside: for workers that are processes."""
        self.source.settle(partitions)
        wanted = self.source.ends(partitions, End.LAST_STABLE)

        def done() -> bool:
            got = self.destination.ends(wanted, End.HIGH_WATERMARK)
            return all(got[at] >= end for at, end in wanted.items())

        until(done, seconds, lambda: f"wanted {wanted}")

    def read(self, partitions: Iterable[MirrorPartition]) -> tuple[Logs, Logs]:
        """What a reader of committed records finds at the source, and what *any* reader finds in the copy."""
        at = tuple(partitions)
        source, copy = self.source.servers, self.destination.servers
        views = [(source, "read_committed"), (copy, "read_committed"), (copy, "read_uncommitted")]
        with ThreadPoolExecutor() as pool:  # a consumer takes its time to begin
            original, committed, everything = pool.map(lambda view: read(view[0], at, view[1]), views)
        assert first_difference(committed, everything) == ""
        return original, committed

    def identical(self, partitions: Iterable[MirrorPartition]) -> str:
        """The first difference of records, offsets, log starts or ends; empty: none."""
        at = tuple(partitions)
        source, copy = self.read(at)
        starts = self.source.ends(at, End.EARLIEST), self.destination.ends(at, End.EARLIEST)
        ends = self.source.ends(at, End.LAST_STABLE), self.destination.ends(at, End.LOG_END)
        for what, (left, right) in (("start", starts), ("end", ends)):
            for each in at:
                if left[each] != right[each]:
                    return f"{each}: {what} {left[each]} is not {right[each]}; {first_difference(source, copy)}"
        return first_difference(source, copy)
