"""An open mirror: its spec and both of its clusters, as every use case is given them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.errors import AnotherCluster, SameCluster, TanistError
from tanist.domain.failback.way_back import must_have_way_back
from tanist.domain.problems import refuse
from tanist.domain.records import STATE_TOPIC
from tanist.usecases import snapshot
from tanist.usecases.snapshot import MirrorSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.ports.cluster import Cluster, ClusterPair
    from tanist.usecases.command import CommandContext


def identify(clusters: Sequence[Cluster], context: CommandContext) -> tuple[str, ...]:
    """The cluster id of source and destination.

    Raises:
        Problems, or the single error: every cluster that does not answer.
    """
    ids, problems = [], []
    for side in clusters:
        try:
            ids.append(side.topics.cluster_id(context.first_contact()))
        except TanistError as error:
            problems.append(error)
    if problems:
        refuse(problems)
    return tuple(ids)


def distinct(source: Cluster, destination: Cluster, context: CommandContext) -> tuple[str, str]:
    """The cluster ids of source and destination.

    Raises:
        SameCluster: source and destination are the same cluster.
    """
    source_id, destination_id = identify((source, destination), context)
    if source_id == destination_id:
        raise SameCluster(f"{source.name!r} and {destination.name!r} both lead to cluster {source_id}")
    return source_id, destination_id


def same_as_pinned(spec: MirrorSpec, source_id: str | None, destination_id: str | None) -> None:
    """Refuse if a connection leads to another cluster than when the mirror was created. None: it was not asked."""
    pairs = [(spec.source, spec.source_cluster_id, source_id or spec.source_cluster_id)]
    pairs.append((spec.destination, spec.destination_cluster_id, destination_id or spec.destination_cluster_id))
    for name, pinned, found in pairs:
        if pinned != found:
            raise AnotherCluster(f"{name!r} leads to cluster {found}, mirror {spec.mirror!r} was created with {pinned}")


def spec_at(
    destination: Cluster, mirror: MirrorName, context: CommandContext, *, any_copier: bool = False
) -> MirrorSpec:
    """The spec of `mirror`; what answers as its destination is the cluster that it was created with.

    `any_copier`: also of a mirror whose records somebody else copies.

    Raises:
        MirrorMoved, UnknownMirror: the destination has no such mirror (any more). AnotherCluster: it is another one.
        CopiedByAnother: somebody else copies its records.
        UnsafeStateTopic, CouldNotTell, BrokerError: its state cannot be read.
    """
    (found,) = identify((destination,), context)
    spec = snapshot.spec_of(destination.state(STATE_TOPIC, context.by), mirror, destination.name, any_copier=any_copier)
    same_as_pinned(spec, None, found)
    return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMirror:
    """`pair` compares the logs of both clusters. `source`, `pair`: why, where there is no way to the source at all."""

    spec: MirrorSpec
    source: Cluster | TanistError
    destination: Cluster
    pair: ClusterPair | TanistError
    from_source: Callable[[CommandContext], OpenMirror]
    """Opens the mirror of this name as its source has it on record: the direction before the last reversal."""

    def snapshot(self) -> MirrorSnapshot:
        """A new snapshot of both clusters, of which nothing has been read."""
        return MirrorSnapshot.of(self.spec, self.source, self.destination)

    def returned(self) -> ReturnedMirror:
        """The same, where the old source can be reached.

        Raises:
            NoWayBack: this mirror has none. TanistError: why the old source cannot be reached.
        """
        must_have_way_back(self.spec)
        if isinstance(self.source, TanistError):
            raise self.source
        if isinstance(self.pair, TanistError):
            raise self.pair
        return ReturnedMirror(
            spec=self.spec,
            source=self.source,
            destination=self.destination,
            pair=self.pair,
            from_source=self.from_source,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedMirror(OpenMirror):
    """One whose old source has returned, and is configured on this host."""

    source: Cluster
    pair: ClusterPair
