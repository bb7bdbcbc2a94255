"""`tanist failover run`: observe, decide, act, record; killed anywhere, it is simply run again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import (
    AuthorizationFailed,
    BrokerError,
    CouldNotTell,
    Interrupted,
    MirrorLocked,
    OperatorFenced,
    Refused,
    RunUnderWay,
    Stopped,
    TanistError,
    TimedOut,
)
from tanist.domain.failover import plan as route
from tanist.domain.failover.approving import ApprovalUsed, NotApproved, NotPermitted, approvals, approved, choose
from tanist.domain.failover.limitations import objections
from tanist.domain.failover.plan import ApprovedPlan, past_return, remaining
from tanist.domain.records import FailoverRun, RunStatus
from tanist.usecases.failover import undo
from tanist.usecases.failover.clusters import UNDO_SECONDS
from tanist.usecases.failover.head import evidence_header
from tanist.usecases.failover.observe import Observer, attempt
from tanist.usecases.failover.steps import (
    canary,
    configs,
    drain,
    fence,
    generation,
    groups,
    hold,
    movers,
    opening,
    seal,
)
from tanist.usecases.failover.work import NOT_YET, WAIT_SECONDS, Work, evidence_of, wanted_topics
from tanist.usecases.lock import Purpose, ensure_unlocked, mirror_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.failover.approving import Approval
    from tanist.domain.failover.evidence import Evidence
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Step
    from tanist.domain.state_view import StateView
    from tanist.usecases.failover.clusters import FailoverContext
    from tanist.usecases.failover.work import Done, Tools
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.sides import CommandContext

DOING: Final[Mapping[str, Callable[[Work], Done]]] = {
    route.HOLD.id: hold.do,
    route.FENCE.id: fence.do,
    route.DRAIN.id: drain.do,
    route.GROUPS.id: groups.do,
    route.SEAL.id: seal.do,
    route.GENERATION.id: generation.do,
    route.CONFIGS.id: configs.do,
    route.CANARY.id: canary.do,
    route.OPEN.id: opening.do,
    route.MOVERS.id: movers.do,
}
_UNDONE_BY_ITSELF: Final = (drain.DrainMissed, fence.FenceLeaks)


class ApprovalVoid(NotPermitted):
    name = "APPROVAL_VOID"
    operator_action = "no producer is fenced yet: undo the run with `tanist failover abort`, then plan again"


class RunAborted(Refused):
    name = "RUN_ABORTED"
    operator_action = (
        "source fences that could not be lifted are pending (`tanist fence show`); to fail over, plan again"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """`seconds`: from the call until all could be written to, without `waited`, which only waited for proofs.

    `left`: steps of the route that are still to be done; the run is RUNNING then, and nobody is at work.
    """

    record: FailoverRun
    evidence: Evidence
    left: tuple[str, ...] = ()
    seconds: float
    waited: float


def run(  # what a run is told, named
    plan: str,
    clusters: FailoverContext,
    tools: Tools,
    command: CommandContext,
    *,
    until: str | None = None,
    request: str | None = None,
) -> RunOutcome:
    """Run an approved plan to its end, or go on with one that was cut short.

    `until`: only as far as the postcondition of that step. The run stays RUNNING with nobody at work, and the next call
    takes it over at once; every call checks everything. Where that step is done already nothing is: but every call that
    comes past the groups before the point of no return translates them again. `request`: what its approval must answer
    (`choose`).

    Raises:
        Misconfigured: the route has no step `until`.
        NotApproved, ApprovalUsed, NotPermitted, NoApproverTopic, RunUnderWay: nothing was changed.
        AuthorizationFailed: this login lacks what is needed behind the point of no return, where nothing is past it.
        DrainMissed, FenceLeaks: everything was undone. RunAborted: somebody else has undone it meanwhile.
        Interrupted: partial, run it again.
    """
    began = command.clock.monotonic()
    with closing(Observer(clusters=clusters, context=command)) as observer:
        view = observer.view()
        asked = _RunRequest(plan, until, request)
        if (over := _over(asked, view, clusters, tools, command)) is not None:
            return over
        purpose = Purpose(operation=f"failover {plan}", plan=plan, waits=True)
        ensure_unlocked(view, clusters.spec.mirror, purpose)
        if (done := _done_already(asked, *_may_begin(asked, observer, view), tools)) is not None:
            return done
        command = replace(command, holder=tools.runner, is_process_dead=tools.is_process_dead)
        with mirror_lock(clusters.destination, clusters.spec.mirror, purpose, command) as lock:
            # Everything is looked at again: others may have been at work until the lock was ours.
            approval, wish, facts = _look_behind(lock, asked, observer)
            record = _taken_over(facts.run, approval, clusters, tools, command)
            work = Work(
                clusters=clusters,
                intent=wish.intent,
                context=command,
                tools=tools,
                observer=observer,
                lock=lock,
                record=record,
                facts=facts,
                evidence=evidence_of(tools, record, evidence_header(approval, wish, facts, clusters)),
            )
            tools.sink.flush(work.evidence)
            try:
                return _work(work, approval, wish, began, until)
            except (MirrorLocked, OperatorFenced) as lost:
                raise _lost(work, lost) from lost
            except (NotPermitted, Interrupted, AuthorizationFailed) as why:
                stopped = str(why)
                attempt(lambda: work.release(stopped))
                raise


# ── may it run at all? ────────────────────────────────────────────────────────────────────────────────────────────


class _RunRequest(NamedTuple):
    plan: str
    until: str | None
    request: str | None


def _may_begin(request: _RunRequest, observer: Observer, view: StateView) -> tuple[Approval, ApprovedPlan, Facts]:
    """The approval that the run is on, what it permits, and what is seen now.

    Raises:
        NotApproved, ApprovalUsed, NotPermitted. Misconfigured: the route has no step `until`.
    """
    clusters, command = observer.clusters, observer.context
    approval = _permission(request, clusters, view, command)
    plan = approved(approval)
    _matches(clusters, plan)
    route.asked_for(plan.intent, request.until)
    facts = observer.look(wanted_topics(view, plan.intent), request.plan)
    _must_permit(approval, plan, facts, clusters, command)
    return approval, plan, facts


def _look_behind(lock: LockedMirror, request: _RunRequest, observer: Observer) -> tuple[Approval, ApprovedPlan, Facts]:
    """`_may_begin`, asked again while a cluster does not answer and there is time."""
    clock = observer.context.clock
    while True:
        try:
            return _may_begin(request, observer, lock.view())
        except (CouldNotTell, BrokerError) as why:
            if not why.retriable or not observer.context.by.left(clock.monotonic()):
                raise
            clock.wait(WAIT_SECONDS)


def _done_already(
    request: _RunRequest, _approval: Approval, plan: ApprovedPlan, facts: Facts, tools: Tools
) -> RunOutcome | None:
    """The outcome where nothing is left up to the step that was asked for: nothing is locked for that."""
    if request.until is None or facts.run is None or facts.run.runner or remaining(plan.intent, facts, request.until):
        return None  # a run that somebody was killed at is released by whoever comes next
    if not past_return(facts) and route.GROUPS in route.asked_for(plan.intent, request.until):
        return None  # they are translated again
    left = tuple(step.id for step in remaining(plan.intent, facts))
    return RunOutcome(record=facts.run, evidence=evidence_of(tools, facts.run, {}), left=left, seconds=0.0, waited=0.0)


def _over(
    request: _RunRequest, view: StateView, clusters: FailoverContext, tools: Tools, command: CommandContext
) -> RunOutcome | None:
    """The outcome of a run that has reached its end, and so every step; None: it has not, or was approved anew."""
    found = view.failover(clusters.spec.mirror, request.plan)
    if found is None or found.status is not RunStatus.DONE:
        return None
    if request.until is None and _approved_anew(request, view, clusters, command):
        return None
    return RunOutcome(record=found, evidence=evidence_of(tools, found, {}), seconds=0.0, waited=0.0)


def _approved_anew(request: _RunRequest, view: StateView, clusters: FailoverContext, command: CommandContext) -> bool:
    try:
        _permission(request, clusters, view, command)
    except (ApprovalUsed, NotApproved):
        return False
    return True


def _permission(request: _RunRequest, clusters: FailoverContext, view: StateView, command: CommandContext) -> Approval:
    """The approval of the run that is to be continued; or a fresh one."""
    mirror, plan = clusters.spec.mirror, request.plan
    entries = clusters.destination.approvals.all(command.by)
    held = view.failover(mirror, plan)
    if held is None or held.status is not RunStatus.RUNNING:
        return choose(entries, view.failovers(mirror), mirror, plan, request.request)
    own = [each for each in approvals(entries) if each.id == held.approval and each.genuine]
    if not own:
        raise NotApproved(f"approval {held.approval} of run {plan} no longer exists")
    return own[0]


def _matches(clusters: FailoverContext, plan: ApprovedPlan) -> None:
    spec, intent = clusters.spec, plan.intent
    pinned = (spec.mirror, spec.source_cluster_id, spec.destination_cluster_id)
    if (intent.mirror, intent.source_cluster_id, intent.destination_cluster_id) != pinned:
        raise NotPermitted(f"the plan is for {intent.mirror!r} between other clusters than the mirror has now")
    if intent.mirror_id != spec.id and (
        intent.mirror_id or spec.mirror_id
    ):  # an older plan of an older mirror has none
        raise NotPermitted(f"the plan is for an earlier mirror {intent.mirror!r}, which was deleted since")


def _must_permit(
    approval: Approval, plan: ApprovedPlan, facts: Facts, clusters: FailoverContext, command: CommandContext
) -> None:
    if past_return(facts):
        return
    reported = clusters.destination.approvals.brokers_time(command.by)
    if reasons := objections(approval, plan, facts, command.clock.now(), reported):
        begun = facts.run is not None and facts.run.status is RunStatus.RUNNING
        kind = ApprovalVoid if begun else NotPermitted
        raise kind("; ".join(f"{reason.name}: {reason.detail}" for reason in reasons))


def _taken_over(
    before: FailoverRun | None, approval: Approval, clusters: FailoverContext, tools: Tools, command: CommandContext
) -> FailoverRun:
    now = command.clock.now()
    if before is not None and before.status is RunStatus.RUNNING:
        return replace(before, runner=tools.runner, reason="", at=now)
    if before is not None and before.approval == approval.id:
        raise RunUnderWay(f"plan {before.plan} was {before.status} by {before.runner} a moment ago")
    return FailoverRun(
        mirror=approval.mirror,
        mirror_id=clusters.spec.mirror_id,
        plan=approval.plan,
        plan_json=approval.plan_json,
        approval=approval.id,
        approver=approval.approver,
        runner=tools.runner,
        status=RunStatus.RUNNING,
        started_at=now,
        at=now,
    )


# ── the loop ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _work(work: Work, approval: Approval, plan: ApprovedPlan, began: float, until: str | None) -> RunOutcome:
    waited, seconds = 0.0, None
    _translate_again(work, until)
    while todo := remaining(work.intent, work.facts, until):
        if seconds is None and todo == (route.MOVERS,):
            seconds = work.context.clock.monotonic() - began - waited
        waited += _one(work, todo[0], approval, plan)
        _look(work, todo[0])
    if left := tuple(step.id for step in remaining(work.intent, work.facts)):
        work.release()
    else:
        work.save(status=RunStatus.DONE)
        work.report("end", "done", {"steps": [step.id for step in route.ROUTES[work.intent.mode]]})
    took = work.context.clock.monotonic() - began - waited if seconds is None else seconds
    return RunOutcome(record=work.record, evidence=work.evidence, left=left, seconds=took, waited=waited)


def _translate_again(work: Work, until: str | None) -> None:
    """Consumers of the source are not fenced: what they have committed since an earlier call is carried over too."""
    if not _gone_past(work) and route.GROUPS in route.asked_for(work.intent, until) and work.forget(route.GROUPS.id):
        _look(work, route.GROUPS)


def _gone_past(work: Work) -> bool:
    return work.record.no_return


def _look(work: Work, step: Step) -> None:
    """See what became of `step`. A broker that dies meanwhile is no answer: nothing is decided before all is seen."""
    while True:
        try:
            work.look(ask_source=not _gone_past(work))
        except Stopped as lost:
            raise Interrupted(f"step {step.id} was done, but its result could not be read: {lost.reason}") from lost
        except (CouldNotTell, BrokerError) as why:
            _again(work, step, why)
        else:
            return


def _must_go_on(work: Work, approval: Approval, plan: ApprovedPlan) -> None:
    """The approval is looked at before every step, by the step's own facts and the time of the last heartbeat."""
    try:
        _must_permit(approval, plan, work.facts, work.clusters, work.context)
    except NotPermitted as why:
        work.report("approval", "stopped", {"reason": why.reason})
        raise
    if not work.context.by.left(work.context.clock.monotonic()):
        raise Interrupted(f"the failover of plan {work.record.plan} did not finish in time; next: {_next(work)}")


def _next(work: Work) -> str:
    todo = remaining(work.intent, work.facts)
    if not todo:
        return "nothing"
    hindered = work.hindered(todo[0].id)
    return f"{todo[0].id} ({todo[0].title}){f': {hindered}' if hindered else ''}"


def _one(work: Work, step: Step, approval: Approval, plan: ApprovedPlan) -> float:
    """Do one step; what could not be told is tried again, what can be undone by itself is. Seconds of mere proof.

    A heartbeat comes first: the brokers put down when they took it, and that is what the approval is judged by.
    """
    try:
        if step is not route.HOLD:
            work.beat()
        _must_go_on(work, approval, plan)
        work.report(step.id, "begins", {})
        work.tools.checkpoint(f"before:{step.id}")
        began = work.context.clock.monotonic()
        done = DOING[step.id](work)
    except _UNDONE_BY_ITSELF as missed:
        _undo(work, missed)
        raise
    except Stopped as stopped:
        raise Interrupted(f"step {step.id} failed: {stopped.reason}") from stopped
    except (CouldNotTell, BrokerError) as why:
        _again(work, step, why)
        return 0.0
    seconds = work.context.clock.monotonic() - began
    work.tools.checkpoint(f"after:{step.id}")
    work.report(step.id, "done", done.detail, seconds=seconds, waited=done.waited)
    return done.waited


def _again(work: Work, step: Step, why: TanistError) -> None:
    """Wait for the next attempt. Where the time is over, what was in the way is told, not that the last one was cut."""
    work.report(step.id, NOT_YET, {"reason": str(why)})
    if not isinstance(why, TimedOut) or not work.hindered(step.id):
        work.hindrance = step.id, str(why)
    if not why.retriable or not work.context.by.left(work.context.clock.monotonic()):
        raise Interrupted(f"step {step.id} failed: {work.hindered(step.id)}") from why
    work.wait()


def _lost(work: Work, why: TanistError) -> TanistError:
    """Somebody else has the mirror now: an abort has undone this run, or it is gone on with."""
    view = attempt(work.observer.view)
    found = None if isinstance(view, TanistError) else view.failover(work.record.mirror, work.record.plan)
    if found is not None and found.approval == work.record.approval and found.status is RunStatus.ABORTED:
        return RunAborted(f"plan {found.plan} was undone in the meantime: {found.reason}")
    return Interrupted(f"another process has taken over this run: {why.reason}")


def _undo(work: Work, why: TanistError) -> None:
    """With a fresh deadline: undoing must not be cut short by what took too long."""
    by = work.context.clock.deadline(UNDO_SECONDS)
    work.context = work.observer.context = replace(work.context, by=by)
    owed = undo.undo(work, why.name)
    work.report("abort", "undone", {"reason": str(why), "owed": owed})
