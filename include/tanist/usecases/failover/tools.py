"""What a failover is given besides the clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tanist.usecases.groups.items import position_item
from tanist.usecases.groups.sync import sync_groups
from tanist.usecases.runs.runner import at_no_point, report_to_nobody

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.groups.sync import GroupSyncResult, SyncRequest
    from tanist.usecases.mirror import OpenMirror
    from tanist.usecases.runs.runner import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsMoved:
    """What became of consumer groups: one row per group and partition, as `tanist groups sync` prints it.

    `problems`: what was not moved, or not all the way. `mismatches`: where a translation is proved to be wrong.
    """

    rows: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()


MoveGroups: TypeAlias = "Callable[[OpenMirror, SyncRequest, CommandContext], GroupsMoved]"


def move_groups(mirror: OpenMirror, request: SyncRequest, command: CommandContext) -> GroupsMoved:
    """The final translation, committed. Groups with members at the destination are only reported."""
    return moved_by(sync_groups(mirror, request, command))


def moved_by(synced: GroupSyncResult) -> GroupsMoved:
    """A synchronisation as the evidence tells it."""
    return GroupsMoved(
        rows=tuple(position_item(row) for row in synced.rows),
        problems=tuple(map(_describe, synced.problems)),
        mismatches=tuple(map(_describe, synced.mismatches)),
    )


def _describe(row: PositionRow) -> str:
    return f"{row.group} on {row.partition}: {row.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. `proof`: the ends of a fenced source must stay put so long; 0: no proof.

    Producers that are refused try again after a second at most (`retry.backoff.max.ms`).
    `drain`: a planned one that takes longer is undone. `budget`: an unplanned one goes on with what it has then.
    """

    proof: float = 5.0
    drain: float = 300.0
    budget: float = 15.0


def _unknown(_runner: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a run needs besides the clusters. `checkpoint` is told every point where a crash would be inconvenient."""

    patience: Timeouts
    sink: Sink
    runner: str
    is_process_dead: Callable[[str], bool] = field(default=_unknown)
    """Whether another runner is certainly dead; False: not known, so its heartbeat is watched."""
    checkpoint: Callable[[str], None] = field(default=at_no_point)
    move_groups: MoveGroups = field(default=move_groups)
    """The last translation of the groups of a run."""
    report: Callable[[str, str, str], None] = field(default=report_to_nobody)
    """Hears of each step what becomes of it, and why, where there is a reason; the same again is not told."""
