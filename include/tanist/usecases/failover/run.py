"""`tanist failover run`: observe, decide, act, record; killed anywhere, it is simply run again.

Two gates: the lock of the mirror (`usecases.lock`), and the approval (`approval_gate`). Behind them `runner` does the
steps of `route`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tanist.domain.answers import attempt
from tanist.domain.approval.entries import NotPermitted
from tanist.domain.checks import Mode, named
from tanist.domain.circle import locate
from tanist.domain.errors import (
    AuthorizationFailed,
    BrokerError,
    CouldNotTell,
    Interrupted,
    MirrorLocked,
    OperatorFenced,
    Refused,
    TanistError,
)
from tanist.domain.failover.forecast import forecast
from tanist.domain.failover.plan import lived_on, past_return, plan_of
from tanist.domain.names import iso_time
from tanist.domain.records import FailoverRun, RunStatus
from tanist.domain.state_record import Tombstone
from tanist.usecases.failover.approval_gate import ApprovalGate, NotToldNow
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.planning import must_not_answer
from tanist.usecases.failover.route import GROUPS, ROUTE, STEP_IDS
from tanist.usecases.failover.runner import Runner
from tanist.usecases.failover.step import WAIT_SECONDS, RunSession, record_of
from tanist.usecases.failover.steps.lock_mirror import ensure_permissions
from tanist.usecases.lock import Purpose, ensure_unlocked, mirror_lock
from tanist.usecases.runs.runner import NOT_YET, Journal, open_evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.approval.entries import Approval
    from tanist.domain.failover.evidence import Evidence
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.invariants import Breach
    from tanist.domain.failover.plan import ApprovedPlan
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.usecases.approvals import Permit
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.tools import Tools
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.mirror import OpenMirror

FRESH_SECONDS: Final = 3.0
"""A look that is older says what was before this process was frozen."""


class RunAborted(Refused):
    name = "RUN_ABORTED"
    operator_action = (
        "source fences that could not be lifted are pending (`tanist fence show`); to fail over, plan again"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """`seconds`: from the call until all could be written to, without `waited`, which only waited for proofs.

    `left`: steps of the route that are still to be done; the run is RUNNING then, and nobody is at work.
    `did`: ids of the steps that this call did, in order. `broken`: what was seen to be wrong behind the point of no
    return, where nothing stops a run.
    """

    record: FailoverRun
    evidence: Evidence
    left: tuple[str, ...] = ()
    seconds: float
    waited: float
    did: tuple[str, ...] = ()
    broken: tuple[Breach, ...] = ()


def run(  # noqa: PLR0913 -- what a caller may ask for, named
    plan: str,
    clusters: OpenMirror,
    tools: Tools,
    command: CommandContext,
    *,
    until: str | None = None,
    request: str | None = None,
    although_it_answers: bool = False,
) -> RunOutcome:
    """Run an approved plan to its end, or go on with one that was cut short.

    `until`: only as far as the postcondition of that step. The run stays RUNNING with nobody at work, and the next call
    takes it over at once; every call checks everything. Where that step is done already nothing is: but every call that
    comes past the groups before the point of no return translates them again. `request`: what its approval must answer
    (`choose`). `although_it_answers`: an unplanned failover of a source that answers is meant.

    Raises:
        Misconfigured: the route has no step `until`. SourceAnswers: nothing was changed.
        NotApproved, ApprovalUsed, NotPermitted, NoApproverTopic, RunUnderWay: nothing was changed.
        AuthorizationFailed: this login lacks what is needed behind the point of no return, where nothing is past it.
        DrainMissed, FenceLeaks, ProducersWrite, InvariantBroken: everything was undone. RunAborted: somebody else has
        undone it.
        Interrupted: partial, run it again.
    """
    command = replace(command, holder=tools.runner, is_process_dead=tools.is_process_dead)
    began = command.clock.monotonic()
    observer = Observer(clusters=clusters, context=command)
    gate, view = ApprovalGate(plan, request, clusters, command), observer.view()
    if (over := _over(gate, view, tools, until)) is not None:
        return over
    ROUTE.up_to(until)
    purpose = _purpose(gate, view)
    ensure_unlocked(view, clusters.spec.mirror, purpose)
    first = _look_again(gate, observer, observer.view, tools)
    if not although_it_answers:
        must_not_answer(first.permit.approved.intent, first.facts, clusters.destination.name)
    if (done := _done_already(first, tools, until)) is not None:
        return done
    with mirror_lock(clusters.destination, clusters.spec.mirror, purpose, command) as lock:
        look = _look_behind(lock, first, gate, observer, tools)
        if (move := lock.view().moving(clusters.spec.mirror)) is not None:
            lock.append([Tombstone(move.key)])
        return _go(_runner(lock, look, gate, tools, observer), look.facts, began, until)


def _purpose(gate: ApprovalGate, view: StateView) -> Purpose:
    """Why the lock is taken. Only while a reversal to here is unfinished does that depend on the mode of the plan."""
    arrival = locate(gate.clusters.spec.mirror, view).arrival
    disaster = arrival is not None and gate.permit(view).approved.intent.mode is Mode.UNPLANNED
    return Purpose(operation=f"failover {gate.plan}", plan=gate.plan, waits=True, disaster=disaster)


# ── before anything is locked ─────────────────────────────────────────────────────────────────────────────────────


class _Look(NamedTuple):
    """`at`: when it began, monotonic seconds. `epoch`: of the lock, which was free then; None: somebody had it."""

    permit: Permit[ApprovedPlan]
    facts: Facts
    at: float
    epoch: int | None


def _look_again(gate: ApprovalGate, observer: Observer, view: Callable[[], StateView], tools: Tools) -> _Look:
    """As `_look`. While a cluster does not answer, or tell what matters, and there is time it is asked again.

    Raises:
        AuthorizationFailed: it does not tell what matters, and this login lacks permissions.
    """
    clock = gate.command.clock
    while True:
        try:
            return _look(gate, observer, view())
        except (CouldNotTell, BrokerError) as why:
            if not why.retriable or not gate.command.by.left(clock.monotonic()):
                raise
            if isinstance(why, NotToldNow):  # for want of a permission, nothing is known however long it takes
                ensure_permissions(gate.permit(view()).approved.intent, gate.clusters, gate.command)
            tools.report(STEP_IDS[0], NOT_YET, str(why))
            clock.wait(WAIT_SECONDS)


def _look(gate: ApprovalGate, observer: Observer, view: StateView) -> _Look:
    """What both clusters are like now, and the approval, which permits it.

    Raises:
        NotApproved, ApprovalUsed, NotPermitted.
    """
    at, held = gate.command.clock.monotonic(), view.lock(gate.clusters.spec.mirror)
    permit = gate.permit(view)
    intent = permit.approved.intent
    facts = observer.look_for(intent, gate.plan)
    gate.must_permit(permit, facts)
    return _Look(permit, facts, at, 0 if held is None else None if held.holder else held.epoch)


def _over(gate: ApprovalGate, view: StateView, tools: Tools, until: str | None) -> RunOutcome | None:
    """The outcome of a run that has reached its end, and so every step; None: it has not, or was approved anew."""
    found = view.failover(gate.clusters.spec.mirror, gate.plan)
    if found is None or found.status is not RunStatus.DONE:
        return None
    if until is None and gate.is_approved_anew(view):
        return None
    _must_be_the_last_life(found, gate.clusters.spec, view)
    return RunOutcome(record=found, evidence=open_evidence(tools.sink, found, {}), seconds=0.0, waited=0.0)


def _must_be_the_last_life(done: FailoverRun, spec: MirrorSpec, view: StateView) -> None:
    """Raises NotPermitted where topics of the run were added to the mirror again: it failed over their earlier life."""
    approved = plan_of(done)
    if approved is None:
        return
    intent = approved.intent
    pinned = (spec.source_cluster_id, spec.destination_cluster_id)
    if (intent.source_cluster_id, intent.destination_cluster_id) != pinned:
        return  # the mirror was reversed since, perhaps by this very failover
    if again := lived_on(intent, view):
        raise NotPermitted(
            f"plan {done.plan} is {done.status} since {iso_time(done.at)}, of an earlier life of {named(again, ', ')}, "
            "which the mirror copies again since, or has failed over by a later plan"
        )


def _done_already(look: _Look, tools: Tools, until: str | None) -> RunOutcome | None:
    """The outcome where nothing is left up to the step that was asked for: nothing is locked for that."""
    facts, intent = look.facts, look.permit.approved.intent
    if until is None or facts.run is None or facts.run.runner or ROUTE.remaining(intent, facts, until=until):
        return None  # a run that somebody was killed at is released by whoever comes next
    if not past_return(facts) and GROUPS in ROUTE.up_to(until):
        return None  # they are translated again
    left = ROUTE.left(intent, facts)
    return RunOutcome(
        record=facts.run, evidence=open_evidence(tools.sink, facts.run, {}), left=left, seconds=0.0, waited=0.0
    )


# ── behind the lock ───────────────────────────────────────────────────────────────────────────────────────────────


def _look_behind(lock: LockedMirror, first: _Look, gate: ApprovalGate, observer: Observer, tools: Tools) -> _Look:
    """What was seen before, where nobody else can have been at work since; else it is looked at again."""
    if first.epoch == lock.epoch - 1 and gate.command.clock.monotonic() - first.at <= FRESH_SECONDS:
        return first._replace(permit=gate.permit(lock.view()))
    return _look_again(gate, observer, lock.view, tools)


def _runner(lock: LockedMirror, look: _Look, gate: ApprovalGate, tools: Tools, observer: Observer) -> Runner:
    """The run as it begins, or goes on. Its evidence is written: a folder that cannot be written to stops it here."""
    clusters, before, permit = gate.clusters, look.facts.run, look.permit
    record = record_of(before, permit.approval, clusters.spec, gate.command)
    begun = before is not None and before.status is RunStatus.RUNNING
    evidence = open_evidence(tools.sink, record, _evidence_head(permit.approval, permit.approved, look.facts, clusters))
    tools.sink.flush(evidence)
    return Runner(
        gate=gate,
        permit=permit,
        clusters=clusters,
        tools=tools,
        observer=observer,
        session=RunSession(lock=lock, command=gate.command, record=record, begun=begun),
        journal=Journal(sink=tools.sink, listener=tools.report, clock=gate.command.clock, evidence=evidence),
    )


def _evidence_head(approval: Approval, plan: ApprovedPlan, facts: Facts, clusters: OpenMirror) -> Mapping[str, Any]:
    """Approval, forecast and facts as they are when the run begins."""
    cost = forecast(plan.intent, facts)
    return {
        "mode": plan.intent.mode,
        "source": [clusters.spec.source, plan.intent.source_cluster_id],
        "destination": [clusters.spec.destination, plan.intent.destination_cluster_id],
        "topics": list(plan.intent.names),
        "groups": list(plan.intent.groups),
        "limitations_accepted": sorted(plan.limitations),
        "approval": {"id": approval.id, "by": approval.approver, "reason": approval.reason, "at": approval.at},
        "forecast": {"offsets_at_risk": cost.offsets_at_risk, "estimate": cost.estimate, "age_ms": cost.age_ms},
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


def _go(runner: Runner, facts: Facts, began: float, until: str | None) -> RunOutcome:
    session, journal = runner.session, runner.journal
    try:
        ran = runner.work(facts, began, until)
        left = runner.end(ran)
    except (MirrorLocked, OperatorFenced) as lost:
        raise _lost(runner, lost) from lost
    except (NotPermitted, Interrupted, AuthorizationFailed) as why:
        stopped = str(why)
        attempt(lambda: session.release(stopped))
        raise
    return RunOutcome(
        record=session.record,
        evidence=journal.evidence,
        left=left,
        seconds=ran.seconds,
        waited=ran.waited,
        did=ran.did,
        broken=ran.broken,
    )


def _lost(runner: Runner, why: TanistError) -> TanistError:
    """Somebody else has the mirror now: an abort has undone this run, or it is gone on with."""
    record, view = runner.session.record, attempt(runner.observer.view)
    found = None if isinstance(view, TanistError) else view.failover(record.mirror, record.plan)
    if found is not None and found.approval == record.approval and found.status is RunStatus.ABORTED:
        return RunAborted(f"plan {found.plan} was undone in the meantime: {found.reason}")
    return Interrupted(f"another process has taken over this run: {why.reason}")
