"""What workers do for a mirror again and again, where its spec says so: metadata sync, and commits of group offsets.

Without Airflow; the DAGs do the same. Both call the same use cases, each under the lock of the mirror, so that both at
once are harmless.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import MirrorLocked, RunUnderWay, TanistError
from tanist.domain.names import EpochMs, MirrorName  # the codec reads the annotations
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored

if TYPE_CHECKING:
    from tanist.domain.records import MirrorSpec

DEFAULT_GROUPS_SECONDS: Final = 60
"""Between two syncs of groups by workers, where the mirror has no interval; that of the DAG's schedule."""
LOCKED_SECONDS: Final = 10
"""A duty that waits for the lock of its mirror is tried no more often."""
_LOCKED: Final = {MirrorLocked.name, RunUnderWay.name}


class Duty(StrEnum):
    METADATA, GROUPS = "metadata", "groups"

    @property
    def command(self) -> str:
        """The command that does the same once."""
        return f"tanist {self} sync"


class DutyIncomplete(TanistError):
    """A run of a duty came to its end, and left something undone that somebody must decide, or that failed."""

    name, exit_code = "SYNC_INCOMPLETE", 1
    operator_action = "run the command of the duty to see every row: `tanist metadata sync`, or `tanist groups sync`"


@dataclass(frozen=True, slots=True)
class DutyResult:
    """What a run did, in words. `problem`: what it left undone; None: nothing.

    `failed`: what could not be synced, in the words of `domain.metadata.Kind`; not what a person must decide.
    """

    summary: str
    problem: TanistError | None = None
    failed: frozenset[str] = frozenset()


@stored("duty", "mirror", "duty", policy=RecordPolicy(saved=False))
@dataclass(frozen=True, slots=True, kw_only=True)
class DutyRun(MirrorRecord):
    """The last run of a duty of a mirror, by the worker that owns the mirror's state partition.

    `at`: when it ended; the next one is due an interval later, whoever does it. `done_at`: when one last left nothing
    undone; 0: never. `failures`: runs since then, without those that had to wait for the lock of the mirror. `error`,
    `reason`: of the last one, if it left something undone.
    """

    mirror: MirrorName
    duty: Duty
    worker: str
    at: EpochMs
    done_at: EpochMs
    failures: int = 0
    summary: str = ""
    error: str | None = None
    reason: str = ""
    mirror_id: str = ""

    @property
    def waits(self) -> bool:
        """Whether somebody else held the lock of the mirror (a failover, a command): that is no failure."""
        return self.error in _LOCKED


def interval_seconds(spec: MirrorSpec, duty: Duty) -> int:
    """How often workers do it for a mirror; 0: they do not."""
    match duty:
        case Duty.METADATA:
            return spec.sync_metadata_seconds
        case Duty.GROUPS:
            return (spec.sync_groups_seconds or DEFAULT_GROUPS_SECONDS) if spec.workers_sync_groups else 0


def duties_of(spec: MirrorSpec, *, left: bool) -> dict[Duty, int]:
    """What workers do for a mirror now, with its intervals. `left`: all of its topics have left it, so nothing."""
    return {} if left else {duty: every for duty in Duty if (every := interval_seconds(spec, duty))}


def is_due(spec: MirrorSpec, duty: Duty, last: DutyRun | None, now: EpochMs) -> bool:
    """Whether a worker does it now. A last run in the future was of a clock that was ahead: it does not count."""
    every_ms = 1000 * interval_seconds(spec, duty)
    return every_ms > 0 and (last is None or not last.at <= now < last.at + pause_ms(every_ms // 1000, last))


def pause_ms(every: int, last: DutyRun) -> int:
    """Between the run `last` and the next one, of a duty that is done `every` so many seconds."""
    return 1000 * (max(every, LOCKED_SECONDS) if last.waits else every)


def after(last: DutyRun | None, run: DutyRun, result: DutyResult) -> DutyRun:
    """The record of a run. `run`: with what identifies it, and its time; `last`: of the run before."""
    if result.problem is None:
        return replace(run, done_at=run.at, failures=0, summary=result.summary, error=None, reason="")
    before = last.failures if last is not None else 0
    return replace(
        run,
        done_at=last.done_at if last is not None else EpochMs(0),
        failures=before if isinstance(result.problem, MirrorLocked) else before + 1,
        summary=result.summary,
        error=result.problem.name,
        reason=result.problem.reason,
    )
