"""What is done again and again for a mirror, by the DAGs and by workers: one run, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.duties import Duty, DutyIncomplete, DutyResult, interval_seconds
from tanist.domain.errors import CouldNotTell, Stopped, TanistError
from tanist.domain.metadata import Outcome
from tanist.usecases.groups import items as group_items
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, sync_locked
from tanist.usecases.metadata import items as metadata_items
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.sync import sync
from tanist.usecases.snapshot import SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.mirror import OpenMirror

_GROUPS: Final = ("group", "topic", "partition", "source_committed_offset", "destination_offset", "committed", "reason")


@dataclass(frozen=True, slots=True)
class PeriodicResult:
    """`summary`: what was done, in words, and `items` of `columns`: row by row.

    `decide`: problems that need an operator; `again`: problems that the next run may solve, of the kinds `failed`.
    """

    summary: str
    columns: Sequence[str] = ()
    items: Sequence[Mapping[str, Any]] = ()
    decide: Sequence[str] = ()
    again: Sequence[str] = ()
    failed: frozenset[str] = frozenset()
    counts: Mapping[str, int] = field(default_factory=dict)

    def of_duty(self) -> DutyResult:
        """The same for the record of a worker: the first problem with the number of the others."""
        problems = [*self.decide, *self.again]
        if not problems:
            return DutyResult(self.summary)
        more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
        return DutyResult(self.summary, DutyIncomplete(f"{problems[0]}{more}"), self.failed)


def sync_metadata(
    mirror: MirrorName, destination: Cluster, connect: Callable[[str], Cluster], context: CommandContext
) -> PeriodicResult:
    """`tanist metadata sync` of all topics. Raises as that."""
    synced = sync(MetadataRequest(mirror=mirror), destination, connect, context)
    shown = sorted(synced.rows, key=lambda row: row.verdict is Outcome.SKIPPED)
    failed = synced.having(Outcome.FAILED, Outcome.UNKNOWN)
    return PeriodicResult(
        summary=metadata_items.summary(synced.rows) + _also(synced.spec, Duty.METADATA, context),
        columns=metadata_items.COLUMNS,
        items=[metadata_items.metadata_item(synced.spec.mirror, row) for row in shown],
        decide=[f"{row.name}: {row.reason}" for row in synced.having(Outcome.CONFLICT)],
        again=[f"{row.name}: {row.reason}" for row in failed],
        failed=frozenset(row.kind for row in failed),
        counts=metadata_items.counts(synced.rows),
    )


def sync_positions(mirror: OpenMirror, context: CommandContext) -> PeriodicResult:
    """`tanist groups sync` of all groups. Raises as that.

    A source that does not answer is waited for before the lock is taken, so that no command waits for it, too.
    """
    request = SyncRequest(chosen=Chosen(ask_source=_answers(mirror, context)))
    synced = sync_locked(mirror, request, context)
    shown = sorted(synced.rows, key=lambda row: row.committed)
    return PeriodicResult(
        summary=group_items.summary(synced) + _also(mirror.spec, Duty.GROUPS, context),
        columns=_GROUPS,
        items=[group_items.position_item(row) for row in shown],
        decide=_described(synced.mismatches),
        again=_described(synced.failed),
        failed=frozenset({Duty.GROUPS}) if synced.failed else frozenset(),
        counts={"positions": len(synced.rows), "committed": sum(row.committed for row in synced.rows)},
    )


def _answers(mirror: OpenMirror, context: CommandContext) -> bool:
    if isinstance(mirror.source, TanistError):
        return False
    try:
        SourceSnapshot(cluster=mirror.source).cluster_id(context.first_contact())
    except Stopped:
        raise
    except CouldNotTell:
        return False
    return True


def _also(spec: MirrorSpec, duty: Duty, context: CommandContext) -> str:
    """Of a run by somebody else than a worker: that workers do the same, which is harmless."""
    every = interval_seconds(spec, duty)
    return f"; workers do the same every {every} s" if every and not context.is_worker else ""


def _described(rows: Iterable[PositionRow]) -> list[str]:
    return [f"{row.group} {row.partition}: {row.reason}" for row in rows]
