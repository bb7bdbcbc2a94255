"""`tanist failover run`: observe, decide, act, record; killed anywhere, it is simply run again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import BrokerError, CouldNotTell, Interrupted, OperatorFenced, Refused, Stopped, TanistError
from tanist.domain.failover import plan as route
from tanist.domain.failover.approving import NotApproved, NotPermitted, approvals, approved, choose, must_stand
from tanist.domain.failover.forecast import forecast
from tanist.domain.failover.limitations import objections
from tanist.domain.failover.plan import Approved, past_return, remaining
from tanist.domain.records import STATE_TOPIC, FailoverRun, RunStatus
from tanist.usecases import sides
from tanist.usecases.failover import undo
from tanist.usecases.failover.clusters import UNDO_SECONDS
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
from tanist.usecases.failover.work import LIVE_SECONDS, Work, book, wanted_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.failover.approving import Approval
    from tanist.domain.failover.evidence import Evidence
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Step
    from tanist.domain.state_view import StateView
    from tanist.usecases.failover.clusters import Clusters
    from tanist.usecases.failover.work import Done, Tools
    from tanist.usecases.sides import Run

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


class RunUnderWay(Refused):
    name = "RUN_UNDER_WAY"
    operator_action = "see `tanist failover status`; nothing was changed"


class ApprovalVoid(NotPermitted):
    name = "APPROVAL_VOID"
    operator_action = "nothing is sealed yet: `tanist failover abort` undoes what was done; then plan again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`seconds`: from the call until all could be written to, without `waited`, which only waited for proofs.

    `left`: steps of the route that are still to be done; the run is RUNNING then, and nobody is at work.
    """

    record: FailoverRun
    evidence: Evidence
    left: tuple[str, ...] = ()
    seconds: float
    waited: float


def run(
    plan: str, clusters: Clusters, tools: Tools, command: Run, *, until: str | None = None, request: str | None = None
) -> Outcome:
    """Run an approved plan to its end, or go on with one that was cut short.

    `request`: of the orchestrator's run that this call is of, which begins on an approval of that request alone.
    `until`: only as far as the postcondition of that step. The run stays RUNNING with nobody at work, and the next call
    takes it over at once; every call checks everything. Where that step is done already nothing is: but every call that
    comes past the groups before the point of no return translates them again.

    Raises:
        Misconfigured: the route has no step `until`.
        NotApproved, ApprovalUsed, NotPermitted, NoApproverTopic, RunUnderWay: nothing was changed.
        DrainMissed, FenceLeaks: everything was undone. Interrupted: partial, run it again.
    """
    began = command.clock.monotonic()
    with closing(Observer(clusters=clusters, run=command)) as observer:
        view = observer.view()
        if until is not None and (over := _over(view, clusters, tools, plan)) is not None:
            return over
        before, approval = _permission(plan, clusters, view, command, request)
        wish = approved(approval)
        _matches(clusters, wish)
        facts = observer.look(wanted_topics(view, wish.intent), plan)
        remaining(wish.intent, facts, until)  # raises where there is no such step, before anything is changed
        _must_permit(approval, wish, facts, clusters, command)
        _alone(clusters, plan, observer, tools)
        mirror = clusters.spec.mirror
        with closing(clusters.destination.side.open_store(STATE_TOPIC, mirror, command.by)) as store:
            # Whoever ran before is fenced now; what he has written until then decides.
            before = _record(store.catch_up(command.by), clusters, plan) or before
            record = _taken_over(before, approval, tools, command)
            if before is None or before.status is not RunStatus.RUNNING:  # it begins: a no that came meanwhile is heard
                must_stand(clusters.destination.approvals.all(command.by), approval)
            work = Work(
                clusters=clusters,
                intent=wish.intent,
                run=command,
                tools=tools,
                observer=observer,
                store=store,
                record=record,
                facts=facts,
                evidence=book(tools, record, _head(approval, wish, facts, clusters)),
            )
            tools.sink.flush(work.evidence)
            try:
                return _work(work, approval, wish, began, until)
            except (NotPermitted, Interrupted) as why:
                stopped = str(why)
                attempt(lambda: work.release(stopped))
                raise


# ── may it run at all? ────────────────────────────────────────────────────────────────────────────────────────────


def _record(view: StateView, clusters: Clusters, plan: str) -> FailoverRun | None:
    found = view.get(f"failover/{clusters.spec.mirror}/{plan}")
    return found if isinstance(found, FailoverRun) else None


def _over(view: StateView, clusters: Clusters, tools: Tools, plan: str) -> Outcome | None:
    """The outcome of a run that has reached its end, and so every step; None: it has not."""
    found = _record(view, clusters, plan)
    if found is None or found.status is not RunStatus.DONE:
        return None
    return Outcome(record=found, evidence=book(tools, found, {}), seconds=0.0, waited=0.0)


def _permission(
    plan: str, clusters: Clusters, view: StateView, command: Run, request: str | None
) -> tuple[FailoverRun | None, Approval]:
    """The run that is to be continued, and its approval; or a fresh approval."""
    mirror = clusters.spec.mirror
    entries = clusters.destination.approvals.all(command.by)
    held = _record(view, clusters, plan)
    if held is None or held.status is not RunStatus.RUNNING:
        return None, choose(entries, view.failovers(mirror), mirror, plan, request)
    own = [each for each in approvals(entries) if each.id == held.approval and each.genuine]
    if not own:
        raise NotApproved(f"approval {held.approval}, which run {plan} is on, is not there any more")
    return held, own[0]


def _matches(clusters: Clusters, wish: Approved) -> None:
    spec, intent = clusters.spec, wish.intent
    pinned = (spec.mirror, spec.source_cluster_id, spec.destination_cluster_id)
    if (intent.mirror, intent.source_cluster_id, intent.destination_cluster_id) != pinned:
        raise NotPermitted(f"the plan is of {intent.mirror!r} between other clusters than the mirror is now")


def _must_permit(approval: Approval, wish: Approved, facts: Facts, clusters: Clusters, command: Run) -> None:
    if facts.run is not None and past_return(wish.intent, facts):
        return
    told = clusters.destination.approvals.brokers_time(command.by)
    if reasons := objections(approval, wish, facts, command.clock.now(), told):
        raise NotPermitted("; ".join(f"{reason.name}: {reason.detail}" for reason in reasons))


def _alone(clusters: Clusters, plan: str, observer: Observer, tools: Tools) -> None:
    """No other plan of this mirror is unfinished, and nobody alive is at work on this one.

    A heartbeat that does not change for `LIVE_SECONDS` of our own time is a dead run's, whatever the clocks say.
    """
    unfinished = [r for r in observer.view().failovers(clusters.spec.mirror) if r.status is RunStatus.RUNNING]
    if others := [r for r in unfinished if r.plan != plan]:
        other = others[0]
        raise RunUnderWay(f"plan {other.plan} of {other.runner or 'nobody'} is unfinished: {other.ways_on}")
    if not unfinished or not unfinished[0].runner or tools.gone(unfinished[0].runner):
        return
    first, command = unfinished[0], observer.run
    until = command.clock.deadline(LIVE_SECONDS)
    while until.left(command.clock.monotonic()):
        command.clock.wait(LIVE_SECONDS / 20)
        now = _record(observer.view(), clusters, plan)
        if now is None or now.status is not RunStatus.RUNNING or not now.runner:
            return
        if now.at != first.at:
            raise RunUnderWay(f"{now.runner} is at work on plan {plan}")


def _taken_over(before: FailoverRun | None, approval: Approval, tools: Tools, command: Run) -> FailoverRun:
    now = command.clock.now()
    if before is not None and before.status is RunStatus.RUNNING:
        return replace(before, runner=tools.runner, reason="", at=now)
    if before is not None and before.approval == approval.id:
        raise RunUnderWay(f"plan {before.plan} was {before.status} by {before.runner} a moment ago")
    return FailoverRun(
        mirror=approval.mirror,
        plan=approval.plan,
        shown=approval.shown,
        approval=approval.id,
        approver=approval.approver,
        runner=tools.runner,
        status=RunStatus.RUNNING,
        started_at=now,
        at=now,
    )


def _head(approval: Approval, wish: Approved, facts: Facts, clusters: Clusters) -> Mapping[str, Any]:
    """Approval, forecast and facts as they are when the run begins."""
    cost = forecast(facts)
    return {
        "mode": wish.intent.mode,
        "source": [clusters.spec.source, wish.intent.source_cluster_id],
        "destination": [clusters.spec.destination, wish.intent.destination_cluster_id],
        "topics": list(wish.intent.names),
        "groups": list(wish.intent.groups),
        "limitations_accepted": sorted(wish.limitations),
        "approval": {"id": approval.id, "by": approval.approver, "reason": approval.reason, "at": approval.at},
        "forecast": {"offsets_at_risk": cost.offsets_at_risk, "at_most": cost.at_most, "age_ms": cost.age_ms},
        "partitions": {
            str(each.partition): {
                "state": each.state,
                "error": each.error,
                "destination_end": each.end,
                "source_end": each.live.high_watermark if each.live else None,
                "source_last_known": each.known.high_watermark if each.known else None,
                "last_mirrored_epoch": each.last_mirrored_epoch,
            }
            for each in facts.partitions
        },
    }


# ── the loop ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _work(work: Work, approval: Approval, wish: Approved, began: float, until: str | None) -> Outcome:
    waited, seconds = 0.0, None
    _translate_again(work, until)
    while todo := remaining(work.intent, work.facts, until):
        if seconds is None and todo == (route.MOVERS,):
            seconds = work.run.clock.monotonic() - began - waited
        waited += _one(work, todo[0], approval, wish)
        _look(work, todo[0])
    if left := tuple(step.id for step in remaining(work.intent, work.facts)):
        work.release()
    else:
        work.save(status=RunStatus.DONE)
        work.tell("end", "done", {"steps": [step.id for step in route.ROUTES[work.intent.mode]]})
    took = work.run.clock.monotonic() - began - waited if seconds is None else seconds
    return Outcome(record=work.record, evidence=work.evidence, left=left, seconds=took, waited=waited)


def _translate_again(work: Work, until: str | None) -> None:
    """Consumers of the source are not fenced: what they have committed since an earlier call is carried over too."""
    if not _gone_past(work) and route.GROUPS in route.asked_for(work.intent, until) and work.forget(route.GROUPS.id):
        _look(work, route.GROUPS)


def _gone_past(work: Work) -> bool:
    return work.record.no_return or past_return(work.intent, work.facts)


def _look(work: Work, step: Step) -> None:
    """See what became of `step`. A broker that dies meanwhile is no answer: nothing is decided before all is seen."""
    while True:
        try:
            work.look(ask_source=not _gone_past(work))
        except Stopped as lost:
            raise Interrupted(f"step {step.id} was done, and not seen: {lost.reason}") from lost
        except (CouldNotTell, BrokerError) as why:
            _again(work, step, why)
        else:
            return


def _must_go_on(work: Work, approval: Approval, wish: Approved) -> None:
    """The approval is looked at before every step, by the step's own facts and the time of the last heartbeat."""
    try:
        _must_permit(approval, wish, work.facts, work.clusters, work.run)
    except NotPermitted as why:
        work.tell("approval", "stopped", {"reason": why.reason})
        raise (why if work.facts.run is None else ApprovalVoid(why.reason)) from None
    if not work.run.by.left(work.run.clock.monotonic()):
        raise Interrupted(f"run {work.record.plan} is not done in time; next: {_next(work)}")


def _next(work: Work) -> str:
    todo = remaining(work.intent, work.facts)
    return f"{todo[0].id} ({todo[0].title})" if todo else "nothing"


def _one(work: Work, step: Step, approval: Approval, wish: Approved) -> float:
    """Do one step; what could not be told is tried again, what can be undone by itself is. Seconds of mere proof.

    A heartbeat comes first: the brokers put down when they took it, and that is what the approval is judged by.
    """
    try:
        if step is not route.HOLD:
            work.beat()
        _must_go_on(work, approval, wish)
        work.tell(step.id, "begins", {})
        work.tools.checkpoint(f"before:{step.id}")
        began = work.run.clock.monotonic()
        done = DOING[step.id](work)
    except _UNDONE_BY_ITSELF as missed:
        _undo(work, missed)
        raise
    except (OperatorFenced, Stopped) as lost:
        raise Interrupted(f"somebody else has taken this run over: {lost.reason}") from lost
    except (CouldNotTell, BrokerError) as why:
        _again(work, step, why)
        return 0.0
    seconds = work.run.clock.monotonic() - began
    work.tools.checkpoint(f"after:{step.id}")
    work.tell(step.id, "done", done.detail, seconds=seconds, waited=done.waited)
    return done.waited


def _again(work: Work, step: Step, why: TanistError) -> None:
    work.tell(step.id, "not yet", {"reason": str(why)})
    if not why.retriable or not work.run.by.left(work.run.clock.monotonic()):
        raise Interrupted(f"step {step.id} is not done: {why}") from why
    work.wait()


def _undo(work: Work, why: TanistError) -> None:
    """With a fresh deadline: undoing must not be cut short by what took too long."""
    by = work.run.clock.deadline(UNDO_SECONDS)
    work.run = work.observer.run = sides.Run(clock=work.run.clock, by=by)
    owed = undo.undo(work, why.name)
    work.tell("abort", "undone", {"reason": str(why), "owed": owed})
