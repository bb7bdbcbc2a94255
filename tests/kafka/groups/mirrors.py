"""A mirror that was copied, and the group commands over it, without a command line."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from tanist.domain.errors import Unreachable
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, SourcePartition
from tanist.domain.records import GroupPosition, OffsetRangeWritten
from tanist.domain.state_view import StateView
from tanist.domain.translation import Rules
from tanist.kafka.adapters.cluster import KafkaCluster
from tanist.kafka.wire.clock import SystemClock
from tanist.usecases.command import CommandContext
from tanist.usecases.groups.gather import Chosen, Views
from tanist.usecases.groups.sync import GroupSyncResult, SyncRequest, sync_groups, translate_groups
from tanist.usecases.mirror import OpenMirror
from tanist.wiring.registry import pair_of, side_of
from tests.fakes.cluster import nowhere
from tests.kafka.groups.readers import wanted

if TYPE_CHECKING:
    from tanist.domain.names import MirrorPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord
    from tests.kafka.fetcher.rig import Rig


def run(seconds: float = 20, *, dry_run: bool = False) -> CommandContext:
    clock = SystemClock()
    return CommandContext(clock=clock, by=clock.deadline(seconds), dry_run=dry_run)


@dataclass
class Mirrored:
    """Topics of a mirror, its map and what was kept of its groups, all as records; both clusters are real."""

    rig: Rig
    partitions: tuple[MirrorPartition, ...]
    groups: list[StateRecord] = field(default_factory=list)
    runs: list[StateRecord] = field(default_factory=list)
    spec: MirrorSpec = field(init=False)
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        ids = self.rig.source.cluster.cluster_id, self.rig.destination.cluster.cluster_id
        self.spec = replace(self.rig.spec, source_cluster_id=ids[0], destination_cluster_id=ids[1])
        source, destination = (
            self.stack.enter_context(KafkaCluster(each.cluster.endpoint()))
            for each in (self.rig.source, self.rig.destination)
        )
        self.mirror = OpenMirror(
            spec=self.spec,
            source=side_of(source),
            destination=side_of(destination),
            pair=pair_of(source, destination),
            from_source=nowhere,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def without_source(self) -> OpenMirror:
        unknown = Unreachable("it is not configured here")
        return replace(self.mirror, source=unknown, pair=unknown)

    def kept(self, group: str, at: MirrorPartition, offset: int) -> None:
        """As if the tail had written it down."""
        self.groups.append(
            GroupPosition(
                mirror=self.spec.mirror,
                group=group,
                partition=SourcePartition(*at),
                offset=SourceOffset(offset),
                at=EpochMs(1),
                order=1,
            )
        )

    def shifted(self, at: MirrorPartition, source: int, destination: int) -> None:
        """One run of the map."""
        self.runs.append(
            OffsetRangeWritten(
                mirror=self.spec.mirror,
                partition=at,
                source=SourceOffset(source),
                destination=DestinationOffset(destination),
            )
        )

    def views(self) -> Views:
        names = {at.topic: sum(other.topic == at.topic for other in self.partitions) for at in self.partitions}
        state = [wanted(self.spec, name, count) for name, count in names.items()]
        return Views(_view(state), _view(self.runs), _view(self.groups))

    def translate(self, *names: str, mirror: OpenMirror | None = None, **more: Any) -> GroupSyncResult:
        request = SyncRequest(chosen=Chosen(names=frozenset(names) or None), **more)
        return translate_groups(mirror or self.mirror, request, run(), self.views())

    def sync(
        self, *names: str, rules: Rules | None = None, mirror: OpenMirror | None = None, dry_run: bool = False
    ) -> GroupSyncResult:
        request = SyncRequest(chosen=Chosen(names=frozenset(names) or None), rules=rules or Rules())
        return sync_groups(mirror or self.mirror, request, run(dry_run=dry_run), self.views())


def _view(records: list[StateRecord] | list[Any]) -> StateView:
    return StateView({record.key: record for record in records})
