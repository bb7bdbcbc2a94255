"""The periodic duties of mirrors, where their specs leave them to workers: each is done by one worker, when it is due.

It is the worker that owns the state partition of the mirror's name. What a run came to is on record, so the next owner
goes on at the same interval.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from tanist.domain.duties import Duty, DutyResult, DutyRun, after, duties_of, interval_seconds, is_due
from tanist.domain.errors import MirrorLocked, Stopped, TanistError
from tanist.domain.metadata import Kind
from tanist.domain.names import MirrorPartition
from tanist.domain.state_record import state_partition_of
from tanist.fetcher.rounds import RoundThread
from tanist.fetcher.totals import SyncKind, WorkerTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Event

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.state import StateStore

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
WRITE_SECONDS: Final = 10.0
RUN_SECONDS: Final = 60.0
"""The longest that one run of a duty may take."""
END_SECONDS: Final = 5.0
_SYNC_KINDS: Final[Mapping[str, SyncKind]] = MappingProxyType(
    {
        Kind.TOPIC: SyncKind.METADATA,
        Kind.PARTITIONS: SyncKind.METADATA,
        Kind.CONFIG: SyncKind.CONFIGS,
        Kind.ACL: SyncKind.ACLS,
        Kind.ACCESS: SyncKind.ACLS,
        Duty.GROUPS: SyncKind.GROUPS,
        Duty.METADATA: SyncKind.METADATA,
    }
)
"""What counts as an error of what, by what a run has failed in; of a run that was not done by its duty."""


class DutyRunner(Protocol):
    """Does a duty of a mirror once, with connections that it keeps for the next time. Owned by one thread."""

    def run(self, mirror: MirrorName, duty: Duty, by: Deadline) -> DutyResult:
        """Raises TanistError: why it was not done."""
        ...

    def close(self) -> None:
        """Close its connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyTools:
    """The dependencies of these threads.

    `runner` makes the one of a thread; once its argument is set, every wait of the runner ends with Stopped.
    """

    worker: str
    runner: Callable[[Event], DutyRunner]
    state: StateStore
    state_partitions: int
    holds: Callable[[int], bool]
    clock: Clock
    totals: WorkerTotals = field(default_factory=WorkerTotals)


class Duties(RoundThread):
    """Has a thread for each source of a mirror with duties, so that one that is silent delays no mirror of another."""

    def __init__(self, tools: DutyTools) -> None:
        super().__init__("duties")
        self._tools = tools
        self._threads: dict[str, SourceDuties] = {}

    def _round(self) -> None:
        if self._stopping.wait(LOOK_SECONDS):
            return
        for spec in self._tools.state.view().mirrors():
            if spec.source not in self._threads and any(interval_seconds(spec, duty) for duty in Duty):
                self._threads[spec.source] = SourceDuties(self._tools, spec.source)
                self._threads[spec.source].start()
        for thread in self._threads.values():
            if thread.died is not None:
                raise thread.died

    def _close(self) -> None:
        for thread in self._threads.values():
            thread.stop()
        for thread in self._threads.values():
            thread.join(END_SECONDS)


class SourceDuties(RoundThread):
    """Does the duties of the mirrors of one source, one after the other, and records what came of each."""

    def __init__(self, tools: DutyTools, source: str) -> None:
        super().__init__(f"duties-{source}")
        self._tools, self._source = tools, source
        self._runner = tools.runner(self._stopping)
        self._last: dict[str, DutyRun] = {}
        """What this worker has done itself, by the keys of the records, which it may have failed to write."""

    def _round(self) -> None:
        if not self._stopping.wait(LOOK_SECONDS):
            self.run_due(self._tools.state.view())

    def run_due(self, view: StateView) -> None:
        """Do what is due of what this worker owns. A duty that fails stops no other one."""
        for spec in view.mirrors():
            if spec.source != self._source or not self._owns(spec.mirror):
                continue
            for duty in duties_of(spec, left=view.has_been_left(spec.mirror)):
                self._run_if_due(spec, duty)

    def _owns(self, mirror: MirrorName) -> bool:
        tools = self._tools
        return tools.holds(state_partition_of(mirror, MirrorPartition("", 0), tools.state_partitions))

    def _run_if_due(self, spec: MirrorSpec, duty: Duty) -> None:
        """The state is read again before each run: the one before may have taken its time."""
        last = self._last_run(spec, duty)
        if self._stopping.is_set() or not is_due(spec, duty, last, self._tools.clock.now()):
            return
        result = self._result(spec, duty)
        for kind in {_SYNC_KINDS[each] for each in result.failed}:
            self._tools.totals.sync_failed(spec.mirror, kind)
        now = self._tools.clock.now()
        run = DutyRun(
            mirror=spec.mirror, mirror_id=spec.mirror_id, duty=duty, worker=self._tools.worker, at=now, done_at=now
        )
        self._record(after(last, run, result), last)

    def _last_run(self, spec: MirrorSpec, duty: Duty) -> DutyRun | None:
        stored = (each for each in self._tools.state.view().duty_runs(spec.mirror) if each.duty is duty)
        own = (each for each in self._last.values() if (each.mirror_id, each.duty) == (spec.mirror_id, duty))
        return max((*stored, *own), key=lambda each: each.at, default=None)

    def _result(self, spec: MirrorSpec, duty: Duty) -> DutyResult:
        try:
            return self._runner.run(spec.mirror, duty, self._tools.clock.deadline(RUN_SECONDS))
        except Stopped:
            raise
        except MirrorLocked as held:
            return DutyResult("not done", held)
        except TanistError as why:
            return DutyResult("not done", why, frozenset({duty}))
        except Exception as bug:
            log.exception("duty broke", extra={"mirror": spec.mirror, "duty": duty})
            return DutyResult("not done", TanistError(f"{type(bug).__name__}: {bug}"), frozenset({duty}))

    def _record(self, run: DutyRun, last: DutyRun | None) -> None:
        """Log each change for better or worse, and write the record."""
        self._last[run.key] = run
        fields = {"mirror": run.mirror, "duty": run.duty, "summary": run.summary}
        if run.error is not None and (last is None or (last.error, last.reason) != (run.error, run.reason)):
            level, what = (logging.INFO, "duty waits") if run.waits else (logging.WARNING, "duty left undone")
            log.log(level, what, extra=fields | {"error": run.error, "reason": run.reason})
        elif run.error is None and last is not None and last.error is not None:
            log.info("duty done again", extra=fields)
        try:
            self._tools.state.append([run], self._tools.clock.deadline(WRITE_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            log.warning("duty not recorded", extra=fields | {"error": why.name, "reason": why.reason})

    def _close(self) -> None:
        self._runner.close()
