"""Consumer groups as applications have them, and the thread that follows their positions."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as At

from tanist.domain.errors import TanistError
from tanist.domain.names import EpochMs, SourcePartition
from tanist.domain.records import GroupPosition, GroupSyncStatus, TopicDesired
from tanist.domain.states import DesiredState
from tanist.fetcher.group_tail import GroupTail, TailTools
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.positions import CommitChange, CommittedPosition
from tests.fakes.cluster import worker_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import MirrorPartition
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import Outcome, Positions
    from tanist.ports.state import StateStore
    from tests.kafka.fetcher.rig import RigCluster

JOIN_SECONDS = 30.0


def consumer(servers: str, group: str, protocol: str = "classic", **more: Any) -> Consumer:
    config = {key.replace("_", "."): value for key, value in more.items()}
    if protocol == "classic":
        config |= {"session.timeout.ms": 6000}
    base = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    return Consumer({**base, **config})


def read_some(
    servers: str, group: str, at: MirrorPartition, count: int, protocol: str = "classic"
) -> list[tuple[int, bytes]]:
    """Join as a member, read `count` records, commit behind the last one, leave: (offset, value) of each."""
    member = consumer(servers, group, protocol)
    member.subscribe([at.topic])
    got: list[tuple[int, bytes]] = []
    by = time.monotonic() + JOIN_SECONDS
    try:
        while len(got) < count and time.monotonic() < by:
            message = member.poll(0.1)
            if message is not None and not message.error() and message.partition() == at.partition:
                got.append((message.offset() or 0, message.value() or b""))
        assert len(got) == count, f"{len(got)} of {count} within {JOIN_SECONDS} s"
        member.commit(offsets=[At(at.topic, at.partition, got[-1][0] + 1)], asynchronous=False)
    finally:
        member.close()
    return got


def commit(servers: str, group: str, offsets: dict[MirrorPartition, int], metadata: str = "") -> None:
    """Commit without being a member."""
    client = consumer(servers, group)
    wanted = [At(at.topic, at.partition, offset, metadata=metadata) for at, offset in offsets.items()]
    by = time.monotonic() + JOIN_SECONDS
    try:
        while True:
            try:
                client.commit(offsets=wanted, asynchronous=False)
            except KafkaException:
                if time.monotonic() > by:
                    raise
            else:
                return
    finally:
        client.close()


@contextmanager
def committing(servers: str, group: str, at: MirrorPartition) -> Iterator[Callable[[int], None]]:
    """Commits one offset after another, over one connection, without being a member."""
    client = consumer(servers, group)

    def commit(offset: int) -> None:
        client.commit(offsets=[At(at.topic, at.partition, offset)], asynchronous=False)

    try:
        yield commit
    finally:
        client.close()


def moved(
    positions: Positions, groups: Sequence[str], at: MirrorPartition, offset: int, by: Deadline
) -> Mapping[str, Outcome | TanistError]:
    """Commit `offset` for each of `groups`, from wherever it stands."""
    found = positions.committed(groups, by)
    changes: dict[str, dict[MirrorPartition, CommitChange]] = {}
    for group, stands in found.items():
        now = None if isinstance(stands, TanistError) else stands.get(at)
        changes[group] = {
            at: CommitChange(None if isinstance(now, TanistError) else now, CommittedPosition(offset, ""))
        }
    return positions.commit(changes, by)


def committed(servers: str, group: str, at: MirrorPartition) -> int:
    """What a consumer of this group would begin with; -1001: nothing is committed."""
    client = consumer(servers, group)
    try:
        (found,) = client.committed([At(at.topic, at.partition)], timeout=20)
        return int(found.offset)
    finally:
        client.close()


@contextmanager
def positions_in_transaction(side: RigCluster, group: str, at: MirrorPartition, offset: int) -> Iterator[Producer]:
    """A transaction that has sent a position of `group` and is still open."""
    producer = side.producer(transactional_id=f"tx-{group}", linger_ms=0)
    producer.init_transactions(20)
    client = consumer(side.servers, group)
    try:
        producer.begin_transaction()
        producer.send_offsets_to_transaction([At(at.topic, at.partition, offset)], client.consumer_group_metadata(), 20)
        yield producer
    finally:
        client.close()


class Followed:
    """A tail with stores in memory. `groups`: what another one has left behind."""

    def __init__(
        self, spec: MirrorSpec, source: Endpoint, topics: Sequence[str], groups: StateStore | None = None
    ) -> None:
        self.state, self.groups = worker_store(), groups or worker_store()
        self.spec = spec
        self.state.append([spec, *(wanted(spec, topic) for topic in topics)], SystemClock().deadline(1))
        self.tail = GroupTail(
            TailTools(
                spec=spec,
                worker="w",
                resolve=lambda: source,
                state=self.state,
                groups=self.groups,
                ours=lambda: True,
                clock=SystemClock(),
            )
        )
        self.tail.start()

    def position(self, group: str, at: MirrorPartition) -> int | None:
        return next(
            (each.offset for each in self.positions() if (each.group, each.partition) == (group, SourcePartition(*at))),
            None,
        )

    def positions(self) -> list[GroupPosition]:
        return [record for record in self.groups.view().values() if isinstance(record, GroupPosition)]

    def note(self) -> GroupSyncStatus | None:
        found = self.groups.view().get(f"groups/{self.spec.mirror}")
        return found if isinstance(found, GroupSyncStatus) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tail.stop()
        self.tail.join(10)
        assert not self.tail.is_alive()
        assert self.tail.died is None


def wanted(spec: MirrorSpec, topic: str, partitions: int = 1) -> TopicDesired:
    return TopicDesired(
        mirror=spec.mirror,
        topic=topic,
        desired=DesiredState.MIRRORING,
        source_topic_id="",
        partitions=partitions,
        changed_at=EpochMs(0),
    )
