"""`tanist failover abort` and `tanist fence show|lift`: back to what there was, from the snapshot that was stored."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.errors import PastReturn, Refused, TanistError, TopicNotInMirror
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.fences import UNRECORDED, FencedTopic, FenceStatus, is_stray, may_stand
from tanist.domain.kept_fences import fence_groups
from tanist.domain.records import FailoverRun, RunStatus
from tanist.usecases.command import SOURCE_SECONDS
from tanist.usecases.failover.answers import attempt
from tanist.usecases.failover.context import UNDO_SECONDS
from tanist.usecases.failover.journal import BEGINS, Journal, open_evidence
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.session import RunSession
from tanist.usecases.failover.source_fences import SourceFences, look, look_at_all
from tanist.usecases.failover.undo import lifted, undo
from tanist.usecases.lock import Purpose, mirror_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.failover.evidence import Evidence
    from tanist.domain.kept_fences import FenceGroup
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.context import FailoverContext
    from tanist.usecases.failover.tools import Tools
    from tanist.usecases.lock import LockedMirror


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
    """`stands`: what the cluster says now; None: it does not answer. `group`: with the cluster, if that matters."""

    source_fence: FencedTopic
    stands: bool | None
    reason: str = ""
    group: FenceGroup | None = None


def fences(clusters: FailoverContext, command: CommandContext) -> tuple[FenceRow, ...]:
    """Every fence on record, and whether it stands; then those that stand and are not on record."""
    with closing(Observer(clusters=clusters, context=command)) as observer:
        return _rows(observer.view(), clusters, command)


def _rows(view: StateView, clusters: FailoverContext, command: CommandContext) -> tuple[FenceRow, ...]:
    groups = fence_groups(view, clusters.spec)
    return tuple(row for group in groups for row in _rows_of(group, view, clusters, command))


def _rows_of(
    group: FenceGroup, view: StateView, clusters: FailoverContext, command: CommandContext
) -> tuple[FenceRow, ...]:
    held, by = group.topics, command.clock.deadline(SOURCE_SECONDS)
    source = _at(group, clusters).snapshot().source
    if isinstance(source, TanistError):
        return tuple(FenceRow(source_fence=each, stands=None, reason=str(source), group=group) for each in held)
    mirror = group.spec.mirror
    seen = attempt(lambda: look(source, held, (), by) if group.kept else look_at_all(source, view, mirror, by))
    if isinstance(seen, TanistError):
        return tuple(FenceRow(source_fence=each, stands=None, reason=str(seen), group=group) for each in held)
    strange = (
        FenceRow(source_fence=each, stands=True, reason=UNRECORDED, group=group) for each in seen.unrecorded.values()
    )
    return (*(_row(each, seen, group) for each in held), *strange)


def _at(group: FenceGroup, clusters: FailoverContext) -> FailoverContext:
    """`clusters` with the one whose topics the fences of `group` are about as the source."""
    if group.spec.source == clusters.spec.source:
        return clusters
    return replace(clusters, spec=group.spec, source=clusters.destination)


def _row(fence: FencedTopic, seen: SourceFences, group: FenceGroup) -> FenceRow:
    found = seen.stands.get(fence.topic)
    if isinstance(found, TanistError):
        return FenceRow(source_fence=fence, stands=None, reason=str(found), group=group)
    why = f"its topic stayed behind at {group.spec.source!r} in a reversal" if group.kept else ""
    return FenceRow(source_fence=fence, stands=found, reason=fence.reason or why, group=group)


def lift(
    clusters: FailoverContext, command: CommandContext, *, of_promoted: bool, unrecorded: bool = False
) -> tuple[FencedTopic, ...]:
    """Lift what stands, exactly; also what was lifted before and stands again, by a late command for instance.

    Of topics that took over, or stayed behind in a reversal, only where `of_promoted` says that both sides may be
    written to then. One that is not on record only where it is asked for (`unrecorded`): what somebody else has made
    looks the same.

    Raises:
        StillNeeded: a run is under way, or there are no fences but of topics that took over. TopicNotInMirror: there is
        no fence.
    """
    mirror = clusters.spec.mirror
    with closing(Observer(clusters=clusters, context=command)) as observer:
        standing = _may_be_lifted(observer.view(), clusters, command, of_promoted=of_promoted, unrecorded=unrecorded)
        if command.dry_run:
            return tuple(fence for _, fence in standing)
        with mirror_lock(clusters.destination, mirror, Purpose(operation="fence lift"), command) as lock:
            view = lock.view()
            standing = _may_be_lifted(view, clusters, command, of_promoted=of_promoted, unrecorded=unrecorded)
            return tuple(
                each
                for group in fence_groups(view, clusters.spec)
                for each in _lift_of(group, standing, clusters, lock)
            )


def _lift_of(
    group: FenceGroup, found: Sequence[tuple[FenceGroup, FencedTopic]], clusters: FailoverContext, lock: LockedMirror
) -> list[FencedTopic]:
    """Those of `group`, after lifting."""
    ours, clock = [fence for of, fence in found if of == group], lock.command.clock
    if not ours:
        return []
    lock.confirm()
    after = lifted(_at(group, clusters), ours, clock.deadline(2 * SOURCE_SECONDS), clock.now())
    if changed := group.updated(after, clock.now()):
        lock.append([changed])
    return after


def _may_be_lifted(
    view: StateView, clusters: FailoverContext, command: CommandContext, *, of_promoted: bool, unrecorded: bool
) -> list[tuple[FenceGroup, FencedTopic]]:
    mirror = clusters.spec.mirror
    if (running := view.unfinished(mirror)) is not None:
        raise StillNeeded(f"plan {running.plan} is unfinished: `tanist failover abort` lifts its source fence")
    rows = (
        (group, row) for group in fence_groups(view, clusters.spec) for row in _rows_of(group, view, clusters, command)
    )
    found = [(group, pending) for group, row in rows if (pending := _to_be_lifted(row)) is not None]
    if not found:
        raise TopicNotInMirror(f"mirror {mirror!r} has no source fence in force")
    standing = [each for each in found if unrecorded or each[1].status is not FenceStatus.UNRECORDED]
    if not standing:
        raise StillNeeded(
            f"no failover recorded the source fence of {_names(found)}; lift it with --unrecorded if it is not in use"
        )
    if of_promoted:
        return standing
    if not (free := [(group, fence) for group, fence in standing if not group.must_stand(view, fence.topic)]):
        raise StillNeeded(
            f"{_names(standing)} were failed over: without the source fence, producers can write to both clusters "
            "(accept with --promoted)"
        )
    return free


def _names(found: Sequence[tuple[FenceGroup, FencedTopic]]) -> str:
    return ", ".join(fence.topic for _, fence in found[:5])


def _to_be_lifted(row: FenceRow) -> FencedTopic | None:
    fence = row.source_fence
    if may_stand(fence):
        return fence
    return replace(fence, status=FenceStatus.LIFT_PENDING) if is_stray(fence, stands=row.stands) else None
