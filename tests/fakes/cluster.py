"""One cluster in memory, and the ports through which use cases see it. It refuses what a broker would refuse."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

from tanist.domain.acls import Acls, write_binding
from tanist.domain.approval.entries import APPROVALS_TOPIC, NoApproverTopic
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import AuthorizationFailed, CouldNotTell, Unreachable
from tanist.domain.names import TopicPartition
from tanist.domain.records import STATE_TOPIC
from tanist.domain.state_record import MirrorRecord
from tanist.kafka.adapters.state_writer import operator_of
from tanist.ports.cluster import Cluster, ClusterPair
from tanist.ports.topics import NewTopic, TopicFacts
from tests.fakes.access import MemoryAccess
from tests.fakes.acls import MemoryAcls
from tests.fakes.clock import JumpingClock
from tests.fakes.configs import BROKER_DEFAULTS, MemoryConfigs
from tests.fakes.logs import MemoryLogs
from tests.fakes.mirrormaker import MemoryMirrorMaker
from tests.fakes.positions import MemoryGroups, MemoryPositions
from tests.fakes.state import WORKER, FileLog, MemoryStateStore
from tests.fakes.topics import MemoryTopics

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path
    from typing import Self

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.acls import AclBinding
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.record_times import ReadLimits
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tests.fakes.state import StateLog


class Unguarded:
    """The port `Opening` of a cluster without an authorizer, as far as mirrors need it."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def has_authorizer(self, by: Deadline) -> bool:
        self._cluster.answer()
        return False


class Untimed:
    """The port `RecordTimes` of logs without timestamps."""

    def before(
        self, offsets: Mapping[TopicPartition, Collection[int]], limits: ReadLimits, by: Deadline
    ) -> dict[TopicPartition, CouldNotTell]:
        return {at: CouldNotTell(f"{at}: no timestamps") for at in offsets}


class Unapproved:
    """Approvals where nobody approves anything: all that counts is whether there is a topic for them."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def all(self, by: Deadline) -> tuple[()]:
        self._cluster.answer()
        if APPROVALS_TOPIC not in self._cluster.topics:
            raise NoApproverTopic(self._cluster.name, f"{self._cluster.name}:9092")
        return ()


@dataclass
class MemoryCluster:
    """What the fakes of one cluster share.

    `ends`: log start, last stable offset, high watermark. `ahead`: offsets that a leader has above its high
    watermark. `producers`: who wrote an offset, -1 where it is not there. `control`: which offsets are markers,
    `aborted`: which are of records that no reader of committed ones sees.
    `denied`: (operation, resource) that our principal lacks; all else is granted. `rules`: who may write.
    `folded`: the state topics as far as anybody has read them.
    `committed`: when it took the last transaction of a state topic. `calls`: what changed it, in order, but for
    locks and what workers write. `dead`: no broker answers. `leader_epoch`: of every batch.
    `isr`: replicas in sync, one where nothing is said; `min_isr`: needed, where a topic does not say it.
    """

    name: str = "memory"
    id: str = ""
    principal: str = "User:approver"
    brokers: int = 3
    clock: JumpingClock = field(default_factory=JumpingClock)
    topics: dict[str, TopicFacts] = field(default_factory=dict)
    ends: dict[TopicPartition, tuple[int, int, int]] = field(default_factory=dict)
    ahead: dict[TopicPartition, int] = field(default_factory=dict)
    control: set[tuple[TopicPartition, int]] = field(default_factory=set)
    aborted: set[tuple[TopicPartition, int]] = field(default_factory=set)
    producers: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    isr: dict[TopicPartition, int] = field(default_factory=dict)
    min_isr: int = 1
    states: defaultdict[str, StateLog] = field(default_factory=lambda: defaultdict(list))
    folded: dict[str, tuple[int, StateView]] = field(default_factory=dict)
    operators: dict[str, int] = field(default_factory=dict)
    committed: dict[str, EpochMs] = field(default_factory=dict)
    denied: set[tuple[str, str]] = field(default_factory=set)
    rules: dict[str, tuple[AclEntry, ...]] = field(default_factory=dict)
    bindings: set[AclBinding] = field(default_factory=set)
    """ACLs that are not about writing to topics."""
    dead: bool = False
    leader_epoch: int = 0
    calls: list[str] = field(default_factory=list)
    broker_configs: dict[str, str] = field(default_factory=lambda: dict(BROKER_DEFAULTS))
    files: dict[int, frozenset[str]] = field(default_factory=dict)
    """Configs of the authorizer that the file of a broker sets."""
    raw_records: dict[str, list[tuple[bytes | None, bytes | None]]] = field(default_factory=dict)
    """Keys and values of the topics of which they matter, by topic of one partition."""
    producer_ids: int = 1000
    times: Any = field(default_factory=Untimed)
    """`tests.fakes.times.MemoryTimes`, where timestamps of records matter."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    consumer_groups: MemoryGroups = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.consumer_groups = MemoryGroups(self)
        self.id = self.id or f"id-{self.name}"

    def answer(self) -> None:
        if self.dead:
            raise Unreachable(f"{self.name}:9092: connection refused")

    def may(self, operation: str, resource: str) -> bool:
        return (operation, resource) not in self.denied

    def acls(self) -> Acls:
        """All ACLs."""
        writing = {write_binding(topic, entry) for topic, found in self.rules.items() for entry in found}
        return Acls(bindings=frozenset(self.bindings | writing))

    # ── what is on it ─────────────────────────────────────────────────────────────────────────────────────────────

    def with_topic(self, name: str, partitions: int = 1, end: int = 0, **configs: str) -> Self:
        """A topic whose every partition ends at `end`; configs with '_' for '.'."""
        given = {key.replace("_", "."): value for key, value in configs.items()}
        self.put(NewTopic(name=name, partitions=partitions, replication_factor=min(3, self.brokers), configs=given))
        for n in range(partitions):
            self.grow(TopicPartition(name, n), end)
        return self

    def put(self, new: NewTopic) -> None:
        self.topics[new.name] = TopicFacts(
            name=new.name,
            topic_id=f"id-of-{new.name}",
            internal=False,
            partitions=new.partitions,
            replication_factor=new.replication_factor or 1,
            configs=dict(new.configs),
        )
        self.ends |= {TopicPartition(new.name, n): (0, 0, 0) for n in range(new.partitions)}

    def grow(self, at: TopicPartition, count: int = 1, producer: int = -1) -> int:
        """So many records more; where the log ends then."""
        start, stable, high = self.ends[at]
        self.producers |= {(at, offset): producer for offset in range(high, high + count)}
        self.ends[at] = (start, stable + count, high + count)
        return high + count

    def mark(self, at: TopicPartition, producer: int = -1) -> None:
        """The marker of a transaction."""
        self.control.add((at, self.ends[at][2]))
        self.grow(at, producer=producer)

    def catch_up(self, at: TopicPartition) -> None:
        """Followers fetch again: what the leader has is committed."""
        self.grow(at, self.ahead.pop(at, 0))

    def view(self, topic: str) -> StateView:
        """What is in a state topic."""
        return MemoryStateStore(self, topic).view()

    def write(self, topic: str, *records: StateRecord) -> None:
        """As a worker of the present mirrors: what it says of one carries that mirror's id."""
        written = [self._stamped(record) for record in records]
        MemoryStateStore(self, topic, WORKER).append(written, self.clock.deadline(1))

    def _stamped(self, record: StateRecord) -> StateRecord:
        if not isinstance(record, MirrorRecord) or record.mirror_id:
            return record
        spec = self.view(STATE_TOPIC).mirror(record.mirror)
        stamped: StateRecord = replace(cast("Any", record), mirror_id=spec.mirror_id if spec else "")
        return stamped

    # ── how it is reached ─────────────────────────────────────────────────────────────────────────────────────────

    def side(self) -> Cluster:
        nothing: Any = None
        unguarded: Any = Unguarded(self)
        return Cluster(
            name=self.name,
            bootstrap=f"{self.name}:9092",
            topics=MemoryTopics(self),
            configs=MemoryConfigs(self),
            logs=MemoryLogs(self),
            access=MemoryAccess(self),
            acls=MemoryAcls(self),
            replicas=nothing,
            fencing=nothing,
            producer_fencing=nothing,
            opening=unguarded,
            approvals=cast("Any", Unapproved(self)),
            positions=partial(MemoryPositions, self.consumer_groups),
            open_store=self.open_store,
            transactions=nothing,
            deletion=nothing,
            sizes=nothing,
            times=self.times,
            replays=nothing,
            mirrormaker=MemoryMirrorMaker(self),
            small_state=self.brokers < 3,
        )

    def open_store(
        self, topic: str, mirror: MirrorName | None, by: Deadline, *, create: bool = False, appends: bool = False
    ) -> MemoryStateStore:
        self.answer()
        if not self.may("DESCRIBE", topic):
            raise AuthorizationFailed(f"describing topics needs DESCRIBE on topic {topic}")
        if topic not in self.topics:
            if not create:
                raise UnknownTopicOrPartition(topic)
            self.calls.append(f"create {topic}")
            self.with_topic(topic)
        if appends and not self.may("WRITE", topic):
            raise AuthorizationFailed(f"writing needs WRITE on topic {topic}")
        return MemoryStateStore(self, topic, operator_of(mirror, topic) if mirror else WORKER if appends else None)


def worker_store(path: Path | None = None) -> MemoryStateStore:
    """A worker's store on a state topic of its own; in a file, all processes that name it share it."""
    cluster = MemoryCluster()
    if path:
        cluster.states[STATE_TOPIC] = FileLog(path)
    return MemoryStateStore(cluster, STATE_TOPIC, WORKER)


def nowhere(_context: object) -> NoReturn:
    """The `from_source` of a mirror whose other direction nobody asks for."""
    raise AssertionError("nobody asks for the other direction")


def pair_with(proofs: Any = None, prefixes: Any = None, tails: Any = None, quarantine: Any = None) -> ClusterPair:
    """What compares the logs of both clusters: these ports. Nobody may call another one."""
    return ClusterPair(proofs=proofs, prefixes=prefixes, tails=tails, quarantine=quarantine)
