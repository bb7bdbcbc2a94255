"""The loop of a run: decide what is left, do one step, look what became of it, check that nothing is broken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.approval.entries import NotPermitted
from tanist.domain.errors import (
    AuthorizationFailed,
    BrokerError,
    CouldNotTell,
    Interrupted,
    Stopped,
    TanistError,
    TimedOut,
)
from tanist.domain.failover.invariants import Breach, check_invariants
from tanist.domain.records import RunStatus
from tanist.domain.rights import step_needs
from tanist.usecases.failover.abort import undo
from tanist.usecases.failover.route import GROUPS, ROUTE, STEP_IDS
from tanist.usecases.failover.step import UNDO_SECONDS, StepContext, StepRefused, Undoing
from tanist.usecases.failover.steps.drain import DrainMissed
from tanist.usecases.failover.steps.fence import FenceLeaks, ProducersWrite
from tanist.usecases.failover.steps.fence_producers import reserve_estimates, reserve_gaps
from tanist.usecases.rights import REFUSALS
from tanist.usecases.runs.runner import DONE, STOPPED, UNDONE, Done, RowRunner

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import ApprovedPlan, Intent
    from tanist.usecases.approvals import Permit
    from tanist.usecases.failover.approval_gate import ApprovalGate
    from tanist.usecases.failover.observe import Observer
    from tanist.usecases.failover.route import Step
    from tanist.usecases.failover.step import RunSession
    from tanist.usecases.failover.tools import Tools
    from tanist.usecases.mirror import OpenMirror
    from tanist.usecases.runs.runner import Journal

INVARIANTS: Final = "invariants"
"""In the evidence: in place of a step, where an invariant is broken."""
_BELIEVE_SECONDS: Final = 5.0
"""Brokers learn of a rule within milliseconds of its making, each by itself: what is still broken then is."""


class InvariantBroken(TimedOut):
    """Seen again and again for seconds, before anything was sealed."""

    name, retriable = "INVARIANT_BROKEN", False
    operator_action = "the run was undone: find the cause of the violation named above, then plan again"


_UNDONE_BY_ITSELF: Final = (DrainMissed, FenceLeaks, ProducersWrite)


class Ran(NamedTuple):
    """What came of the loop. `seconds`, `waited`, `did` and `broken`: as in `RunOutcome`."""

    facts: Facts
    seconds: float
    waited: float
    did: tuple[str, ...]
    broken: tuple[Breach, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One call of a run that holds its mirror's lock. Facts are handed from step to step, and kept nowhere."""

    gate: ApprovalGate
    permit: Permit[ApprovedPlan]
    clusters: OpenMirror
    tools: Tools
    observer: Observer
    session: RunSession
    journal: Journal

    @property
    def intent(self) -> Intent:
        return self.permit.approved.intent

    def work(self, facts: Facts, began: float, until: str | None) -> Ran:
        """Do what is left, up to and including the step `until`. `began`: when the call did.

        Raises:
            NotPermitted, Interrupted, MirrorLocked. StepRefused: a permission is missing, nothing is undone.
            DrainMissed, FenceLeaks, ProducersWrite, InvariantBroken: everything was undone.
        """
        clock, waited, seconds = self.session.command.clock, 0.0, None
        did, broken = list[str](), dict[Breach, None]()
        facts = self._translate_again(facts, until)
        while todo := ROUTE.remaining(self.intent, facts, until=until):
            step = todo[0]
            if seconds is None and todo == ROUTE.rows[-1:]:  # what clients wait for is done
                seconds = clock.monotonic() - began - waited
            if (done := self._act(step, facts)) is not None:
                did.append(step.id)
                waited += done.waited
            facts = self._seen(step, done)
            facts, found = self._check(step, facts, until, done=done is not None)
            broken |= dict.fromkeys(found)
        took = clock.monotonic() - began - waited if seconds is None else seconds
        return Ran(facts, took, waited, tuple(did), tuple(broken))

    def end(self, ran: Ran) -> tuple[str, ...]:
        """Say on record that the run is done, or let go of it; ids of what is left then."""
        if left := ROUTE.left(self.intent, ran.facts):
            self.session.release()
            return left
        self.session.save(status=RunStatus.DONE, reason="; ".join(map(str, ran.broken)))
        pending = {"reversal": "pending"} if self.intent.reverse else {}
        view = self.session.view()
        found = {
            "may_be_reused": reserve_gaps(view, self.intent),
            "reserve_estimated": reserve_estimates(view, self.intent),
        }
        reserves = {name: partitions for name, partitions in found.items() if partitions}
        self.journal.report("end", DONE, {"steps": list(STEP_IDS), **pending, **reserves})
        return ()

    # ── one step ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _translate_again(self, facts: Facts, until: str | None) -> Facts:
        """Consumers of the source are not fenced: what they have committed since an earlier call is carried over."""
        record = self.session.record
        if record.no_return or GROUPS not in ROUTE.up_to(until) or GROUPS.id not in record.marks:
            return facts
        self.session.forget(GROUPS.id)
        return replace(facts, run=self.session.record)

    def _act(self, step: Step, facts: Facts) -> Done | None:
        """What the step has to show for itself; None: what could not be told is tried again.

        A heartbeat comes first: brokers put down when they took it, and that is what the approval is judged by.
        """
        rows = RowRunner(journal=self.journal, clock=self.session.command.clock, checkpoint=self.tools.checkpoint)
        try:
            self.session.beat()
            self._must_go_on(facts)
            return rows.attempt(step, self._context(facts))
        except _UNDONE_BY_ITSELF as missed:
            self._undo(missed)
            raise
        except Stopped as stopped:
            raise Interrupted(f"step {step.id} failed: {stopped.reason}") from stopped
        except (AuthorizationFailed, *REFUSALS) as refused:
            raise self._refused(step, refused) from refused
        except (CouldNotTell, BrokerError) as why:
            self._again(step, why)
            return None

    def _context(self, facts: Facts) -> StepContext:
        approved, clusters, command = self.permit.approved, self.clusters, self.session.command
        return StepContext(
            approved=approved,
            intent=approved.intent,
            clusters=clusters,
            spec=clusters.spec,
            source=clusters.source,
            destination=clusters.destination,
            command=command,
            clock=command.clock,
            by=command.by,
            patience=self.tools.patience,
            facts=facts,
            session=self.session,
            observer=self.observer,
            checkpoint=self.tools.checkpoint,
            move_groups=self.tools.move_groups,
        )

    def _must_go_on(self, facts: Facts) -> None:
        """The approval is looked at before every step, by the step's own facts and the time of the last heartbeat."""
        try:
            self.gate.must_permit(self.permit, facts)
        except NotPermitted as why:
            self.journal.report("approval", STOPPED, {"reason": why.reason})
            raise
        command = self.session.command
        if not command.by.left(command.clock.monotonic()):
            raise Interrupted(
                f"the failover of plan {self.session.record.plan} did not finish in time; next: {self._next(facts)}"
            )

    def _refused(self, step: Step, why: TanistError) -> TanistError:
        """What ends the run at once, with the permission that is missing; before it has begun nothing was changed."""
        needs = step_needs(step.id, mapped=self.clusters.spec.is_mapped)
        said = why.reason if isinstance(why, AuthorizationFailed) else f"{why.reason}: it needs {needs}"
        self.journal.report(step.id, STOPPED, {"reason": said})
        return (StepRefused if self.session.begun else AuthorizationFailed)(f"step {step.id} was refused: {said}")

    def _next(self, facts: Facts) -> str:
        todo = ROUTE.remaining(self.intent, facts)
        if not todo:
            return "nothing"
        hindrance = self.journal.hindrance(todo[0].id)
        return f"{todo[0].id} ({todo[0].title}){f': {hindrance}' if hindrance else ''}"

    def _again(self, step: Step, why: TanistError) -> None:
        """Wait for the next attempt.

        Raises:
            Interrupted: time is over. It names what was in the way, not that the last attempt was cut short.
        """
        self.journal.hindered_by(step.id, why)
        command = self.session.command
        if not why.retriable or not command.by.left(command.clock.monotonic()):
            raise Interrupted(f"step {step.id} failed: {self.journal.hindrance(step.id)}") from why
        self.session.wait()

    # ── what became of it ─────────────────────────────────────────────────────────────────────────────────────────

    def _seen(self, step: Step, done: Done | None) -> Facts:
        """The facts after `step`. A broker that dies meanwhile is no answer: nothing is decided before all is seen."""
        if done is not None and done.facts is not None:
            return replace(done.facts, run=self.session.record)
        while True:
            try:
                record = self.session.record
                return self.observer.look_for(self.intent, record.plan, ask_source=not record.no_return)
            except Stopped as lost:
                raise Interrupted(f"step {step.id} was done, but its result could not be read: {lost.reason}") from lost
            except (CouldNotTell, BrokerError) as why:
                self._again(step, why)

    def _check(self, step: Step, facts: Facts, until: str | None, *, done: bool) -> tuple[Facts, tuple[Breach, ...]]:
        """The facts, and the invariants that they break behind the point of no return. `done`: `step` was.

        Raises:
            InvariantBroken: before that point one is broken that no step to come mends; everything was undone.
        """
        if not self.session.begun or not (found := check_invariants(facts)):
            return facts, ()
        clock, just_done = self.session.command.clock, step.id if done else None
        by = clock.deadline(_BELIEVE_SECONDS)
        while not self.session.record.no_return and _unmended(
            found, ROUTE.remaining(self.intent, facts, until=until), just_done
        ):
            if not by.left(clock.monotonic()):
                broken = InvariantBroken("; ".join(map(str, found)))
                self._report(found)
                self._undo(broken)
                raise broken
            self.session.wait()
            facts = self._seen(step, None)
            found = check_invariants(facts)
        if found:
            self._report(found)
        return facts, found if self.session.record.no_return else ()

    def _report(self, found: tuple[Breach, ...]) -> None:
        named = [{"name": each.name, "topic": each.topic, "detail": each.detail} for each in found]
        self.journal.report(INVARIANTS, "broken", {"broken": named, "reason": "; ".join(map(str, found))})

    def _undo(self, why: TanistError) -> None:
        """With a fresh deadline: undoing must not be cut short by what took too long."""
        command = self.session.command
        session = replace(self.session, command=replace(command, by=command.clock.deadline(UNDO_SECONDS)))
        undoing = Undoing(intent=self.intent, clusters=self.clusters, session=session, checkpoint=self.tools.checkpoint)
        owed = undo(undoing, why.name)
        self.journal.report("abort", UNDONE, {"reason": str(why), "owed": owed})


def _unmended(found: tuple[Breach, ...], todo: tuple[Step, ...], just_done: str | None) -> bool:
    """Whether something is broken that the step `just_done` should have mended, or that nothing to come will."""
    mending = {step.id for step in todo} - {just_done}
    return any(each.mended_by not in mending for each in found)
