"""`tanist groups restore`: commits what a snapshot has, for groups without members."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import TanistError
from tanist.domain.problems import PARTIAL
from tanist.usecases.groups.restoring import (
    RESTORES,
    GroupsNow,
    PositionChange,
    RestoredPosition,
    has_pending,
    partitions_of,
    planned,
    to_commit,
)
from tanist.usecases.groups.snapshots import WITHOUT_MIRROR, SnapshotOfAnotherCluster, portions, topic_ids
from tanist.usecases.mirror import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.ports.cluster import Cluster
    from tanist.ports.positions import Outcome
    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.snapshots import GroupSnapshot

_AT_ONCE: Final = 300
"""So many groups are committed before progress is reported: a dozen transactions of 25 groups, side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSteps:
    """`confirm`: is shown what would be committed, once, and raises if it must not be. `say`: hears of the progress."""

    confirm: Callable[[Restored], None]
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """One row for each committed offset of the groups of the snapshot, in the snapshot or now.

    And one for each group that Tanist has committed for and the snapshot has not.
    """

    rows: tuple[RestoredPosition, ...]
    dry_run: bool

    def of(self, *changes: PositionChange) -> tuple[RestoredPosition, ...]:
        """The rows with one of these changes."""
        return tuple(row for row in self.rows if row.change in changes)

    @property
    def exit_code(self) -> int:
        """4 if the cluster has not all that the snapshot has."""
        return PARTIAL if any(row.is_left_over for row in self.rows) else 0

    @property
    def summary(self) -> str:
        """In words."""
        changes = self.of(*RESTORES)
        done = [row for row in changes if row.restored]
        what = changes if self.dry_run else done
        counts = Counter(row.change for row in what)
        how = ", ".join(f"{count} {change}" for change, count in counts.items())
        verb = "would restore" if self.dry_run else "restored"
        first = (
            f"{verb} {len(what)} offset(s) of {len({row.group for row in what})} group(s){f': {how}' if how else ''}"
        )
        others = (
            (len(self.of(PositionChange.SAME)), "the same already"),
            (len(changes) - len(done) if not self.dry_run else 0, "failed"),
            (len(self.of(PositionChange.WITHHELD)), "withheld"),
            (len(self.of(PositionChange.KEPT)), "not in the snapshot, left as they are"),
            (len(self.of(PositionChange.NEW)), "group(s) not in the snapshot, left as they are"),
        )
        return "; ".join((first if changes else "nothing to change", *(f"{n} {text}" for n, text in others if n)))


def restore(snapshot: GroupSnapshot, cluster: Cluster, steps: RestoreSteps, context: CommandContext) -> Restored:
    """Commit the offsets of `snapshot` as they were, with their metadata (with `dry_run`: show it). Idempotent.

    Only for groups without members, only offsets that lie in their logs, and each only if the committed offset is
    still the one that was looked at. A group that is gone is created. Killed at any moment, it is run again.

    Raises:
        SnapshotOfAnotherCluster: nothing was changed. What `steps.confirm` raises. CouldNotTell, BrokerError: the
        cluster cannot be read.
    """
    (found,) = identify((cluster,), context)
    if found != snapshot.cluster_id:
        raise SnapshotOfAnotherCluster(
            f"the snapshot was taken of cluster {snapshot.cluster_id} ({snapshot.cluster!r}), and {cluster.name!r} "
            f"leads to cluster {found}"
        )
    now = _look(snapshot, cluster, context)
    plan = Restored(rows=planned(snapshot, now), dry_run=True)
    if context.dry_run:
        return plan
    if not plan.of(*RESTORES) and not has_pending(now):
        return replace(plan, dry_run=False)
    steps.confirm(plan)
    return Restored(rows=_commit(snapshot, cluster, steps, context), dry_run=False)


def _look(snapshot: GroupSnapshot, cluster: Cluster, context: CommandContext) -> GroupsNow:
    names = [each.group for each in snapshot.groups]
    partitions = partitions_of(snapshot)
    positions = cluster.positions(WITHOUT_MIRROR)
    listing = positions.listing(context.by)
    absent = snapshot.absent(listing)
    return GroupsNow(
        listing=listing,
        committed=positions.committed(names, context.by) if names else {},
        ends=cluster.logs.ends(partitions, context.by) if partitions else {},
        topic_ids=topic_ids(cluster, {at.topic for at in partitions}, context.by),
        absent=positions.committed(absent, context.by) if absent else {},
        bootstrap=cluster.bootstrap,
    )


def _commit(
    snapshot: GroupSnapshot, cluster: Cluster, steps: RestoreSteps, context: CommandContext
) -> tuple[RestoredPosition, ...]:
    """Other restores are fenced first, and what they left pending is undone; then everything is looked at again."""
    positions = cluster.positions(WITHOUT_MIRROR)
    positions.take_over([each.group for each in snapshot.groups], context.by)
    rows = planned(snapshot, _look(snapshot, cluster, context))
    wanted = to_commit(rows)
    outcomes: dict[str, Outcome | TanistError] = {}
    for some in portions(sorted(wanted), _AT_ONCE):
        outcomes |= positions.commit({group: wanted[group] for group in some}, context.by)
        if len(wanted) > _AT_ONCE:
            steps.say(f"committed {len(outcomes)} of {len(wanted)} groups")
    return tuple(_done(row, outcomes) for row in rows)


def _done(row: RestoredPosition, outcomes: Mapping[str, Outcome | TanistError]) -> RestoredPosition:
    if row.change not in RESTORES or row.partition is None:
        return row
    answer = outcomes[row.group]
    error = answer if isinstance(answer, TanistError) else answer[row.partition]
    return replace(row, restored=error is None, error=error)


def restored_item(row: RestoredPosition) -> dict[str, Any]:
    """One row as JSON. `topic` and `partition` are null if it is about the whole group."""
    return {
        "group": row.group,
        "topic": None if row.partition is None else row.partition.topic,
        "partition": None if row.partition is None else row.partition.partition,
        "change": row.change,
        "snapshot_offset": row.saved.offset if row.saved else None,
        "present_offset": row.present.offset if row.present else None,
        "restored": row.restored,
        "reason": row.reason,
        "error": row.error.name if row.error else None,
    }
