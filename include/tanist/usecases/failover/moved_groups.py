"""What became of consumer groups in the last translation of a failover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tanist.usecases.groups.items import position_item
from tanist.usecases.groups.sync import sync_groups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.groups.sync import GroupSyncResult, SyncRequest
    from tanist.usecases.mirror import OpenMirror


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsMoved:
    """What became of consumer groups: one row per group and partition, as `tanist groups sync` prints it.

    `problems`: what was not moved, or not all the way. `mismatches`: where the map is proved to be wrong.
    """

    rows: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()


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
