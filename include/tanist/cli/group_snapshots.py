"""`tanist groups snapshot|restore`: the committed offsets of all groups of a cluster, saved and brought back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tanist.cli.options import GroupsOption, Session, asking, confirm, on_terminal
from tanist.cli.output import emit, never_silent, say, stages
from tanist.domain.errors import Misconfigured
from tanist.domain.problems import PARTIAL, refuse
from tanist.domain.selection import EVERYTHING, pattern_problems
from tanist.usecases.groups.restore import Restored, RestoreSteps, restored_item
from tanist.usecases.groups.restore import restore as restore_groups
from tanist.usecases.groups.restoring import RESTORES, PositionChange
from tanist.usecases.groups.snapshots import take
from tanist.wiring import group_snapshot_file
from tanist.wiring.line_file import FileExists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.usecases.groups.restoring import RestoredPosition
    from tanist.usecases.groups.snapshots import GroupSnapshot

SNAPSHOT_SECONDS: Final = 300.0
SNAPSHOT_COLUMNS = ("file", "cluster", "cluster_id", "taken_at_ms", "groups", "positions", "unread")
RESTORE_COLUMNS = ("group", "topic", "partition", "change", "snapshot_offset", "present_offset", "restored", "reason")
_MOST_SHOWN: Final = 20
"""Rows that are shown before a question."""

FileOption = Annotated[Path, typer.Option("--file", metavar="FILE", help="The file to write.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="What `tanist groups snapshot` has written.")]


@asking(seconds=SNAPSHOT_SECONDS)
def snapshot(now: Session, *, file: FileOption, group: GroupsOption = None, overwrite: OverwriteOption = False) -> None:
    """Save the committed offsets of all groups of the destination, of any topic, with what consumers stored with them.

    Exits with 4 if something could not be read: it is in the file with the reason, and a restore names it.

    Example: tanist groups snapshot --destination west --file west-groups.jsonl
    """
    groups, cluster = _groups(group), now.destination()
    if os.path.lexists(file) and not overwrite:
        raise FileExists(f"{file} exists")
    with never_silent(stages(now.context.clock)) as progress:
        saved = take(cluster, groups, now.context, progress)
    group_snapshot_file.write(saved, file, overwrite=overwrite)
    _say_unread(saved)
    unread = [each.group for each in saved.incomplete]
    item = {
        "file": str(file),
        "cluster": saved.cluster,
        "cluster_id": saved.cluster_id,
        "taken_at_ms": saved.taken_at,
        "groups": len(saved.groups),
        "positions": saved.count,
        "unread": unread,
        "silent": list(saved.silent),
    }
    emit([item], SNAPSHOT_COLUMNS, now.as_json, rows=[item | {"unread": len(unread)}])
    if unread or saved.silent:
        raise typer.Exit(PARTIAL)


@asking(changes=True, confirms=True, seconds=SNAPSHOT_SECONDS)
def restore(now: Session, file: FileArgument, *, group: GroupsOption = None) -> None:
    """Commit the offsets of a snapshot again, for groups without members; backwards, too: that is what it is for.

    On a terminal it shows the changes and asks; elsewhere it needs --yes. Offsets outside of their logs, and those of
    topics that are gone or were created again, are withheld. Offsets that the snapshot has not stay as they are; groups
    that it has not, and for which Tanist has committed, are listed with the command that deletes them.

    Exits with 4 if an offset was withheld, or its commit failed: the reasons say whether to run it again.

    Example: tanist groups restore west-groups.jsonl --destination west --dry-run
    """
    groups, cluster = _groups(group), now.destination()
    saved = group_snapshot_file.read(file).only(groups)
    if not (now.yes or now.context.dry_run or on_terminal()):
        raise Misconfigured("without a terminal, committed offsets move only with --yes; --dry-run shows what would")
    steps = RestoreSteps(confirm=lambda plan: _confirm(plan, cluster.name, yes=now.yes), say=stages(now.context.clock))
    restored = restore_groups(saved, cluster, steps, now.context)
    items = [restored_item(row) for row in restored.rows]
    shown = [item for item in items if item["change"] is not PositionChange.SAME]
    emit(items, RESTORE_COLUMNS, now.as_json, rows=shown)
    say(restored.summary)
    _say_mirrors(restored)
    if code := restored.exit_code:
        raise typer.Exit(code)


def _groups(group: Sequence[str] | None) -> tuple[str, ...]:
    """Raises Misconfigured: an expression is none."""
    if wrong := pattern_problems(group or ()):
        refuse(wrong)
    return tuple(group or EVERYTHING)


def _say_unread(saved: GroupSnapshot) -> None:
    for why in saved.silent:
        say(f"warning: groups may be missing: {why}")
    for each in saved.incomplete[:_MOST_SHOWN]:
        reasons = [each.error] if each.error else [f"{at}: {why}" for at, why in each.unread.items()]
        say(f"warning: group {each.group}: {'; '.join(reasons)}")
    if (more := len(saved.incomplete) - _MOST_SHOWN) > 0:
        say(f"warning: and {more} more group(s), see the file")


def _confirm(plan: Restored, cluster: str, *, yes: bool) -> None:
    """On a terminal, show the changes and ask for confirmation."""
    if yes or not on_terminal():
        return
    rows = plan.of(*RESTORES, PositionChange.WITHHELD)
    for row in rows[:_MOST_SHOWN]:
        say(_line(row))
    if len(rows) > _MOST_SHOWN:
        say(f"and {len(rows) - _MOST_SHOWN} more: --dry-run shows all")
    say(plan.summary)
    confirm(f"Commit these offsets on {cluster}?", yes=False)


def _line(row: RestoredPosition) -> str:
    where = f"{row.group} {row.partition or ''}".rstrip()
    if row.change is PositionChange.WITHHELD:
        return f"{where}: withheld: {row.why}"
    before = "nothing" if row.present is None else row.present.offset
    return f"{where}: {before} to {row.saved.offset if row.saved else 'nothing'} ({row.change})"


def _say_mirrors(restored: Restored) -> None:
    """Warn of offsets that the next translation moves again."""
    ours = [row for row in restored.of(*RESTORES) if row.is_of_a_mirror]
    if ours:
        say(
            f"warning: {len(ours)} of these offsets had been committed by Tanist for a mirror: its next `tanist groups "
            "sync`, also that of the DAG mirror_group_offsets, commits over them"
        )
