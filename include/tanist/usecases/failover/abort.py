"""`tanist failover abort` and `tanist fence show|lift`: back to what there was, from the snapshot that was stored."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.errors import PastReturn, Refused, TanistError, TopicNotInMirror
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.fences import UNRECORDED, FencedTopic, FenceStatus, is_stray, may_stand
from tanist.domain.records import FailoverRun, RunStatus, fences_with
from tanist.usecases.failover.answers import attempt
from tanist.usecases.failover.context import SOURCE_SECONDS, UNDO_SECONDS
from tanist.usecases.failover.journal import BEGINS, Journal, open_evidence
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.session import RunSession
from tanist.usecases.failover.source_fences import SourceFences, look_at_all
from tanist.usecases.failover.undo import lifted, undo
from tanist.usecases.lock import Purpose, mirror_lock

if TYPE_CHECKING:
    from tanist.domain.failover.evidence import Evidence
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.context import FailoverContext
    from tanist.usecases.failover.tools import Tools


class NothingToAbort(Refused):
    name = "NOTHING_TO_ABORT"
    operator_action = "no failover of this mirror is unfinished: see `tanist failover status`"


class StillNeeded(Refused):
    name = "FENCE_STILL_NEEDED"
    operator_action = "nothing was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortResult:
    """`pending`: topics whose fence could not be lifted; the fetcher goes on trying."""

    record: FailoverRun
    pending: tuple[str, ...]


def abort(
    clusters: FailoverContext, tools: Tools, command: CommandContext, reason: str = "", *, approval: str | None = None
) -> AbortResult:
    """Undo an unfinished run, alive or dead. `reason`: why, for others to read.

    `approval`: of the run that was meant, for callers who may come late; no other one is undone.

    The lock is taken from a live run; what it had written until then is read afterwards. So a run that is about to
    fence the first producer cannot get past us, and we cannot miss that it has.

    Raises:
        NothingToAbort, PastReturn: nothing was changed.
    """
    command = replace(command, holder=tools.runner, is_process_dead=tools.is_process_dead)
    with closing(Observer(clusters=clusters, context=command)) as observer:
        plan = _to_abort(observer.view(), clusters, approval).plan
        purpose = Purpose(operation="failover abort", plan=plan, aborts=True, waits=True)
        with mirror_lock(clusters.destination, clusters.spec.mirror, purpose, command) as lock:
            record = _to_abort(lock.view(), clusters, approval)
            fresh = replace(command, by=command.clock.deadline(UNDO_SECONDS))
            session = RunSession(lock=lock, command=fresh, record=record, begun=True)
            journal = Journal(tools=tools, clock=command.clock, evidence=open_evidence(tools, record, {}))
            why = _abort_reason(record, journal.evidence, tools.runner, reason)
            tools.report("abort", BEGINS, "")
            owed = undo(session, clusters, ApprovedPlan.read(record.plan_json).intent, why, tools.checkpoint)
            journal.report("abort", "undone", {"by": tools.runner, "reason": why, "owed": owed})
            return AbortResult(record=session.record, pending=tuple(owed))


def _to_abort(view: StateView, clusters: FailoverContext, approval: str | None) -> FailoverRun:
    running = [run for run in view.failovers(clusters.spec.mirror) if run.status is RunStatus.RUNNING]
    unfinished = [run for run in running if approval in {None, run.approval}]
    if not unfinished:
        which = f" on approval {approval}" if approval else ""
        raise NothingToAbort(f"mirror {clusters.spec.mirror!r} has no unfinished failover{which}")
    if unfinished[0].no_return:
        raise PastReturn(f"plan {unfinished[0].plan} of mirror {clusters.spec.mirror!r}")
    return unfinished[0]


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


# ── fences by themselves ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRow:
    """`stands`: what the source says now; None: it does not answer."""

    source_fence: FencedTopic
    stands: bool | None
    reason: str = ""


def fences(clusters: FailoverContext, command: CommandContext) -> tuple[FenceRow, ...]:
    """Every fence on record, and whether it stands; then those that stand and are not on record."""
    with closing(Observer(clusters=clusters, context=command)) as observer:
        return _rows(observer.view(), clusters, command)


def _rows(view: StateView, clusters: FailoverContext, command: CommandContext) -> tuple[FenceRow, ...]:
    mirror, source, by = clusters.spec.mirror, clusters.snapshot().source, command.clock.deadline(SOURCE_SECONDS)
    held = view.source_fences(mirror)
    seen = source if isinstance(source, TanistError) else attempt(lambda: look_at_all(source, view, mirror, by))
    if isinstance(seen, TanistError):
        return tuple(FenceRow(source_fence=each, stands=None, reason=str(seen)) for each in held)
    strange = (FenceRow(source_fence=each, stands=True, reason=UNRECORDED) for each in seen.unrecorded.values())
    return (*(_row(each, seen) for each in held), *strange)


def _row(fence: FencedTopic, seen: SourceFences) -> FenceRow:
    found = seen.stands.get(fence.topic)
    if isinstance(found, TanistError):
        return FenceRow(source_fence=fence, stands=None, reason=str(found))
    return FenceRow(source_fence=fence, stands=found)


def lift(
    clusters: FailoverContext, command: CommandContext, *, of_promoted: bool, unrecorded: bool = False
) -> tuple[FencedTopic, ...]:
    """Lift what stands, exactly; also what was lifted before and stands again, by a late command for instance.

    Of topics that took over only where `of_promoted` says that both sides may be written to then. One that is not on
    record only where it is asked for (`unrecorded`): what somebody else has made looks the same.

    Raises:
        StillNeeded: a run is under way, or there are no fences but of topics that took over. TopicNotInMirror: there is
        no fence.
    """
    mirror = clusters.spec.mirror
    with closing(Observer(clusters=clusters, context=command)) as observer:
        standing = _may_be_lifted(observer.view(), clusters, command, of_promoted=of_promoted, unrecorded=unrecorded)
        if command.dry_run:
            return tuple(standing)
        with mirror_lock(clusters.destination, mirror, Purpose(operation="fence lift"), command) as lock:
            view = lock.view()
            standing = _may_be_lifted(view, clusters, command, of_promoted=of_promoted, unrecorded=unrecorded)
            lock.confirm()
            after = lifted(clusters, standing, command.clock.deadline(2 * SOURCE_SECONDS))
            if changed := fences_with(view.source_fences(mirror), after, clusters.spec, command.clock.now()):
                lock.append([changed])
            return tuple(after)


def _may_be_lifted(
    view: StateView, clusters: FailoverContext, command: CommandContext, *, of_promoted: bool, unrecorded: bool
) -> list[FencedTopic]:
    mirror = clusters.spec.mirror
    if (running := view.unfinished(mirror)) is not None:
        raise StillNeeded(f"plan {running.plan} is unfinished: `tanist failover abort` lifts its source fence")
    rows = _rows(view, clusters, command)
    found = [pending for row in rows if (pending := _to_be_lifted(row)) is not None]
    if not found:
        raise TopicNotInMirror(f"mirror {mirror!r} has no source fence in force")
    standing = [each for each in found if unrecorded or each.status is not FenceStatus.UNRECORDED]
    if not standing:
        names = ", ".join(each.topic for each in found[:5])
        raise StillNeeded(
            f"no failover recorded the source fence of {names}; lift it with --unrecorded if it is not in use"
        )
    if of_promoted:
        return standing
    if not (free := [each for each in standing if not view.promoted(mirror, each.topic)]):
        names = ", ".join(each.topic for each in standing[:5])
        raise StillNeeded(
            f"{names} were failed over: without the source fence, producers can write to both clusters (accept "
            "with --promoted)"
        )
    return free


def _to_be_lifted(row: FenceRow) -> FencedTopic | None:
    fence = row.source_fence
    if may_stand(fence):
        return fence
    return replace(fence, status=FenceStatus.LIFT_PENDING) if is_stray(fence, stands=row.stands) else None
