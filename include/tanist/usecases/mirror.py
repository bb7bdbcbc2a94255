"""An open mirror: its spec and both of its clusters, as every use case is given them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.usecases.snapshot import MirrorSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.records import MirrorSpec
    from tanist.ports.cluster import Cluster, ClusterPair
    from tanist.usecases.command import CommandContext


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
        """The same, where the old source can be reached. Raises why it cannot."""
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
