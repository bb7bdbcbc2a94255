"""`tanist failover abort`: back to what there was, from the snapshot that was stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.errors import PastReturn, Refused
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.problems import to_finish
from tanist.domain.records import FailoverRun, RunStatus
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.route import ROUTE
from tanist.usecases.failover.step import UNDO_SECONDS, RunSession, Undoing
from tanist.usecases.lock import Purpose, mirror_lock
from tanist.usecases.runs.runner import BEGINS, UNDONE, Journal, open_evidence

if TYPE_CHECKING:
    from tanist.domain.failover.evidence import Evidence
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.tools import Tools
    from tanist.usecases.mirror import OpenMirror


class WasCleared(Refused):
    name = "RUN_WAS_CLEARED"
    operator_action = "trigger a new run; nothing was changed"


class NothingToAbort(Refused):
    name = "NOTHING_TO_ABORT"
    operator_action = "no failover of this mirror is unfinished: see `tanist failover status`"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortResult:
    """`pending`: topics whose fence could not be lifted; the fetcher goes on trying."""

    record: FailoverRun
    pending: tuple[str, ...]


def abort(
    clusters: OpenMirror, tools: Tools, command: CommandContext, reason: str = "", *, approval: str | None = None
) -> AbortResult:
    """Undo an unfinished run, alive or dead. `reason`: why, for others to read.

    `approval`: of the run that was meant, for callers who may come late; no other one is undone.

    The lock is taken from a live run; what it had written until then is read afterwards. So a run that is about to
    fence the first producer cannot get past us, and we cannot miss that it has.

    Raises:
        NothingToAbort, PastReturn: nothing was changed.
    """
    command = replace(command, holder=tools.runner, is_process_dead=tools.is_process_dead)
    observer = Observer(clusters=clusters, context=command)
    plan = _to_abort(observer.view(), clusters, approval).plan
    purpose = Purpose(operation="failover abort", plan=plan, aborts=True, waits=True)
    with mirror_lock(clusters.destination, clusters.spec.mirror, purpose, command) as lock:
        record = _to_abort(lock.view(), clusters, approval)
        fresh = replace(command, by=command.clock.deadline(UNDO_SECONDS))
        session = RunSession(lock=lock, command=fresh, record=record, begun=True)
        evidence = open_evidence(tools.sink, record, {})
        journal = Journal(sink=tools.sink, listener=tools.report, clock=command.clock, evidence=evidence)
        why = _abort_reason(record, journal.evidence, tools.runner, reason)
        tools.report("abort", BEGINS, "")
        intent = ApprovedPlan.read(record.plan_json).intent
        owed = undo(Undoing(intent=intent, clusters=clusters, session=session, checkpoint=tools.checkpoint), why)
        journal.report("abort", UNDONE, {"by": tools.runner, "reason": why, "owed": owed})
        return AbortResult(record=session.record, pending=tuple(owed))


def undo(of: Undoing, reason: str) -> list[str]:
    """Put back what the steps have changed, and end the run; topics whose fence could not be lifted."""
    ROUTE.put_back(of)
    of.session.save(status=RunStatus.ABORTED, reason=reason)
    return of.pending


def _to_abort(view: StateView, clusters: OpenMirror, approval: str | None) -> FailoverRun:
    running = [run for run in view.failovers(clusters.spec.mirror) if run.status is RunStatus.RUNNING]
    unfinished = [run for run in running if approval in {None, run.approval}]
    if not unfinished:
        which = f" on approval {approval}" if approval else ""
        raise NothingToAbort(f"mirror {clusters.spec.mirror!r} has no unfinished failover{which}")
    first = unfinished[0]
    if first.no_return:
        raise to_finish(first.plan, PastReturn(f"plan {first.plan} of mirror {clusters.spec.mirror!r}"))
    return first


def _abort_reason(record: FailoverRun, evidence: Evidence, runner: str, reason: str) -> str:
    """Who aborted the run and why, and what had become of it."""
    before = record.reason or _died(record, evidence)
    said = f"aborted by {runner}" + (f": {reason.strip()}" if reason.strip() else "")
    return f"{said}; before that: {before}" if before else said


def _died(record: FailoverRun, evidence: Evidence) -> str:
    """Where a run was that could not say so itself: alive still, or killed."""
    events = evidence.events
    where = f" in step {events[-1].step}" if events and events[-1].what == BEGINS else ""
    return f"{record.runner} was running it{where}" if record.runner else ""
