"""Both clusters as a failover sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from tanist.usecases.snapshot import MirrorSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsMoved:
    """What became of consumer groups: one row per group and partition, as `tanist groups sync` prints it.

    `problems`: what was not moved, or not all the way. `mismatches`: where the map is proved to be wrong.
    """

    rows: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()


class MoveGroups(Protocol):
    def __call__(
        self,
        topics: Sequence[str],
        groups: Sequence[str],
        by: Deadline,
        confirm: Callable[[], None],
        *,
        ask_source: bool,
    ) -> GroupsMoved:
        """The final translation, committed, of the groups that an expression of `groups` names.

        `confirm` is asked as by `SyncRequest`. `ask_source`: False where it is known not to answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverContext:
    """`source` is the reason where there is no way to it at all."""

    spec: MirrorSpec
    source: Cluster | TanistError
    destination: Cluster
    move_groups: MoveGroups

    def snapshot(self) -> MirrorSnapshot:
        """A new snapshot of both, of which nothing has been read."""
        return MirrorSnapshot.of(self.spec, self.source, self.destination)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. `proof`: the ends of a fenced source must stay put so long (a producer's metadata refresh; 0: no proof).

    `drain`: a planned one that takes longer is undone. `budget`: an unplanned one goes on with what it has then.
    """

    proof: float = 10.0
    drain: float = 300.0
    budget: float = 15.0


UNDO_SECONDS: Final = 60.0
"""A fresh deadline for undoing, so that it is never cut short by what went wrong before."""
