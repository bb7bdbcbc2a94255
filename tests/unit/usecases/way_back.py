"""The whole way back in memory: a source dies with records that nobody has copied, and returns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Self, cast

from tanist.domain.checks import Mode
from tanist.domain.names import SourceOffset, SourcePartition
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.domain.states import MirrorState
from tanist.usecases.command import Silence
from tanist.usecases.mirror import OpenMirror
from tanist.usecases.mirrors.describe import Describer
from tests.builders import DR, a_partition, a_worker
from tests.fakes.cluster import pair_with
from tests.fakes.failover import GuardedCluster, MemoryApprovals
from tests.fakes.records import RecordedCluster, Written
from tests.fakes.state import WORKER, MemoryStateStore
from tests.fakes.tails import MemoryQuarantine, MemoryReplays, MemoryTails, MemoryTransactions
from tests.unit.usecases.failover.in_memory import PARTITIONS, RATE, FailoverWorld

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Clock
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext

TAIL_PARTITION = PARTITIONS[0]
CONFLICT, SAFE = b"written again", b"only at the old source"
UNKEYED = None


@dataclass
class WayBack(FailoverWorld):
    """West has taken over from east, which has returned with a tail: a conflict, a safe record and one without a key.

    `user`: whose login the commands have. `approver`: whether it may approve.
    """

    kind: type[GuardedCluster] = RecordedCluster
    held: tuple[tuple[str, str], ...] = ()
    user: str = "eve"
    approver: bool = True
    numbers: Any = field(default_factory=lambda: count(1_000))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.east.with_topic(STATE_TOPIC).with_topic(OFFSETS_TOPIC).with_topic(GROUPS_TOPIC)
        MemoryApprovals(self.east).create(self.soon())
        self.copying = False
        self.write(self.east, TAIL_PARTITION, CONFLICT, SAFE, UNKEYED)
        self.run(self.approve(Mode.UNPLANNED).plan)
        self.write(self.west, TAIL_PARTITION, CONFLICT, b"of the new primary")
        self.copying = True

    def write(self, cluster: GuardedCluster, at: MirrorPartition, *keys: bytes | None) -> None:
        """An application writes a record of each key."""
        for key in keys:
            record = Written(next(self.numbers), key, int(self.clock.now()))
            cast("RecordedCluster", cluster).keep(at, record)

    # ── where the mirror is ───────────────────────────────────────────────────────────────────────────────────────

    def home(self) -> GuardedCluster:
        """The mirror's destination."""
        return self.west if self.west.view(STATE_TOPIC).mirror(DR) is not None else self.east

    def stored_spec(self, cluster: GuardedCluster) -> MirrorSpec:
        """As the mirror is stored there."""
        spec = cluster.view(STATE_TOPIC).mirror(DR)
        assert spec is not None
        return spec

    def ports(self, cluster: GuardedCluster) -> Cluster:
        """A cluster as this login sees it."""
        recorded = cast("RecordedCluster", cluster)
        return replace(
            cluster.side(),
            approvals=MemoryApprovals(cluster, self.user, approver=self.approver),
            replays=MemoryReplays(recorded, self.user),
            transactions=MemoryTransactions(recorded),
        )

    def opened(self) -> OpenMirror:
        """The mirror where it is now."""
        home = cast("RecordedCluster", self.home())
        away = cast("RecordedCluster", self.east if home is self.west else self.west)
        return OpenMirror(
            spec=self.stored_spec(home),
            source=self.ports(away),
            destination=self.ports(home),
            pair=pair_with(tails=MemoryTails(away, home), quarantine=MemoryQuarantine(away, home, lambda _: None)),
            from_source=lambda _: self.opened(),
        )

    # ── others at work ────────────────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> None:
        """The first worker; once the mirror is reversed, one of east."""
        if not hasattr(self, "worker") or self.home() is self.west:
            super().tick()
        elif self.east.view(STATE_TOPIC).move(DR) is None:
            self._copy_back(self.stored_spec(self.east))

    def _copy_back(self, spec: MirrorSpec) -> None:
        now, store = self.clock.now(), MemoryStateStore(self.east, STATE_TOPIC, WORKER)
        east, west = cast("RecordedCluster", self.east), cast("RecordedCluster", self.west)
        for at in PARTITIONS:
            while not self.east.view(STATE_TOPIC).promoted(DR, at.topic) and east.ends[at][2] < west.ends[at][1]:
                record = west.records[at].get(east.ends[at][2])
                if record is None:
                    east.mark(at, spec.marker_id)
                else:
                    east.keep(at, record, spec.data_id)
        ends = tuple(
            SourceEnd(SourcePartition(*at), SourceOffset(west.ends[at][2]), SourceOffset(west.ends[at][1]), RATE)
            for at in PARTITIONS
        )
        states = [a_partition(MirrorState.MIRRORING, partition=at, last_mirrored_epoch=4, claim_epoch=1, at=now)
                  for at in PARTITIONS]  # fmt: skip
        alive = a_worker(at=now, principal=self.login.principal)
        store.append([alive, *states, SourceEnds(mirror=DR, chunk=0, ends=ends, at=now)], self.soon())
        self.follow_groups(self.east, spec.mirror_id)


class MemoryRegistry:
    """Both clusters of a world by name, as `ClusterRegistry` has them."""

    def __init__(self, world: WayBack) -> None:
        self.world = world

    def __call__(self, *_settings: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def names(self) -> tuple[str, ...]:
        return "east", "west"

    def connect(self, name: str) -> Cluster:
        return self.world.ports(self.world.east if name == "east" else self.world.west)

    def silence(self, clock: Clock) -> Silence:
        return Silence(clock)

    def forwarded(self, *_: object) -> None:
        """Nobody has moved: who asks names the right cluster."""

    def open_mirror(self, *_: object, **_any_copier: object) -> Any:
        return self.world.opened()

    def mirror(self, *_: object) -> OpenMirror:
        return self.world.opened()

    def views(self, names: Sequence[str], context: CommandContext) -> dict[str, StateView | None]:
        return {name: self.connect(name).stored(STATE_TOPIC, context.by) for name in names}

    def destinations(self, *_: object) -> tuple[Cluster, ...]:
        return (self.connect(self.world.home().name),)

    def describer(self, destination: Cluster, *selection: Any) -> Describer:
        return Describer(destination, self.connect, *selection)
