"""Consumer groups of one cluster, in memory or real, and what consumers and others do to them meanwhile."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tanist.domain.names import MirrorName, MirrorPartition
from tanist.ports.positions import CommittedPosition
from tests.fakes.cluster import MemoryCluster
from tests.fakes.positions import MemoryGroups, MemoryPositions
from tests.kafka.fetcher.rig import until
from tests.kafka.groups import readers
from tests.ports import over_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist.ports.positions import Positions
    from tests.kafka.fetcher.rig import RigCluster

MIRROR = MirrorName("dr")
MINE = "mine"


class Groups(Protocol):
    positions: Positions

    def another(self) -> Positions:
        """What a second command of the same mirror has."""
        ...

    def topic(self, name: str, partitions: int = 1) -> tuple[MirrorPartition, ...]: ...

    def commit(self, group: str, at: MirrorPartition, offset: int) -> None:
        """By a consumer of the group, with the text MINE."""
        ...

    @contextmanager
    def member(self, group: str, topic: str, protocol: str) -> Iterator[None]:
        """A consumer that has joined."""
        ...

    @contextmanager
    def pending(self, group: str, at: MirrorPartition, offset: int) -> Iterator[Callable[[], None]]:
        """An application's transaction over a position; what is yielded commits it."""
        ...


@dataclass
class InMemory:
    groups: MemoryGroups = field(default_factory=lambda: MemoryGroups(MemoryCluster(brokers=1)))
    positions: Positions = field(init=False)

    def __post_init__(self) -> None:
        self.positions = self.another()

    def another(self) -> Positions:
        return MemoryPositions(self.groups, MIRROR)

    def topic(self, name: str, partitions: int = 1) -> tuple[MirrorPartition, ...]:
        self.groups.cluster.with_topic(name, partitions, 1)
        return tuple(MirrorPartition(name, n) for n in range(partitions))

    def commit(self, group: str, at: MirrorPartition, offset: int) -> None:
        self.groups.commit(group, at, offset, MINE)

    @contextmanager
    def member(self, group: str, topic: str, protocol: str) -> Iterator[None]:
        self.groups.group(group, protocol).members += 1
        try:
            yield
        finally:
            self.groups.group(group).members -= 1

    @contextmanager
    def pending(self, group: str, at: MirrorPartition, offset: int) -> Iterator[Callable[[], None]]:
        epoch = self.groups.init(group)
        self.groups.send(group, epoch, group, {at: CommittedPosition(offset, "")})
        yield lambda: self.groups.end(group, epoch, commit=True)


@dataclass
class OnKafka:
    side: RigCluster
    stack: ExitStack
    positions: Positions = field(init=False)

    def __post_init__(self) -> None:
        self.positions = self.another()

    def another(self) -> Positions:
        return self.stack.enter_context(over_positions(self.side.cluster.endpoint(), MIRROR))

    def topic(self, name: str, partitions: int = 1) -> tuple[MirrorPartition, ...]:
        made = self.side.create(name, partitions)
        self.side.produce(made[0], [b"x"])
        return made

    def commit(self, group: str, at: MirrorPartition, offset: int) -> None:
        readers.commit(self.side.servers, group, {at: offset}, MINE)

    @contextmanager
    def member(self, group: str, topic: str, protocol: str) -> Iterator[None]:
        with closing(readers.consumer(self.side.servers, group, protocol)) as member:
            member.subscribe([topic])
            until(lambda: member.poll(0.1) is not None or member.assignment(), 20)
            yield

    @contextmanager
    def pending(self, group: str, at: MirrorPartition, offset: int) -> Iterator[Callable[[], None]]:
        with readers.positions_in_transaction(self.side, group, at, offset) as producer:
            yield lambda: producer.commit_transaction(10)
