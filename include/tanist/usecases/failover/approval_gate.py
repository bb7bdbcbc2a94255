"""The gate of the approval: on which one a run is, and whether the facts still are what was approved."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.answers import attempt
from tanist.domain.approval.choosing import EXPIRED, recorded, unexpired
from tanist.domain.approval.entries import ApprovalUsed, NoApproverTopic, NotApproved, NotPermitted, approvals
from tanist.domain.errors import CouldNotTell, Refused, TanistError
from tanist.domain.failback.reversal import writable_limitation
from tanist.domain.failover.commands import approve_command, plan_command
from tanist.domain.failover.kept_plans import is_full, kept_plan, to_keep
from tanist.domain.failover.limitations import limitations
from tanist.domain.failover.objections import news, objections, only_for_now
from tanist.domain.failover.plan import ApprovedPlan, past_return
from tanist.domain.failover.reserve import SEEN_LATER
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.ports.clock import Deadline
from tanist.usecases.approvals import Permit, PlanKind, find_approval, read_plan
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.route import STEP_IDS
from tanist.usecases.mirrors.writers import writable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.approval.entries import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent, Plan
    from tanist.domain.limitation import Limitation
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Clock
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror


_AGAIN_SECONDS: Final = 0.5
KEEP_SECONDS: Final = 5.0
"""A plan is shown even where it cannot be stored, so nobody waits long for that."""


class AnotherPlan(Refused):
    name = "ANOTHER_PLAN"
    operator_action = "`tanist failover plan` shows the current plan; nothing was approved"


class PlanBlocked(Refused):
    name = "PLAN_BLOCKED"
    operator_action = (
        "this plan cannot be approved: resolve the limitations named above and plan again; nothing was changed"
    )


def keep(plan: Plan, clusters: OpenMirror, command: CommandContext) -> str:
    """Store the words of `plan` at the destination, and forget expired ones; nothing is written where that is done.

    As workers write: it fences no command, and takes no lock. Returns why it could not be stored; empty: it is.
    """
    by = Deadline(min(command.by.at, command.clock.deadline(KEEP_SECONDS).at))
    try:
        with closing(clusters.destination.open_store(STATE_TOPIC, None, by, appends=True)) as store:
            view, spec = store.view(), clusters.spec
            approved = _approved(clusters, command) if is_full(view, spec) else None
            if records := to_keep(plan, view, spec, command.clock.now(), approved):
                store.append(records, by)
    except TanistError as why:
        return why.reason
    return ""


def of_reversal(clusters: OpenMirror, intent: Intent, command: CommandContext) -> tuple[Limitation, ...]:
    """The limitations of the reversal that are known before the failover; none while the source does not answer."""
    source = clusters.source
    if isinstance(source, TanistError):
        return ()
    own = source.opening.principal()
    found = writable(source, intent.names, {own} if own else set(), command.by)
    return (writable_limitation(found),) if found else ()


def _approved(clusters: OpenMirror, command: CommandContext) -> frozenset[str] | None:
    """The plans of which an approval has not expired; None: this login cannot read that."""
    found = attempt(lambda: clusters.destination.approvals.all(command.by))
    if isinstance(found, TanistError):
        return frozenset() if isinstance(found, NoApproverTopic) else None
    return frozenset(each.plan for each in unexpired(found, command.clock.now()))


def kept_words(plan: str, clusters: OpenMirror, command: CommandContext) -> str | None:
    """The words of the plan with this hash, as they were shown; None: it is not kept."""
    observer = Observer(clusters=clusters, context=command)
    found = kept_plan(observer.view(), clusters.spec, plan, command.clock.now())
    return None if found is None else found.plan_json


def must_be_covered(plan: str, words: str, clusters: OpenMirror, command: CommandContext) -> Facts:
    """Whether the `words` of the plan with the hash `plan` cover what both clusters are now; returns those facts.

    Fewer offsets at risk, or a limitation that is gone, voids nothing. What a cluster does not tell for the moment is
    asked again until the deadline.

    Raises:
        AnotherPlan: it names what they do not cover. PlanBlocked: what nobody can accept. NotPermitted: the words are
        of an earlier mirror of the name, or cannot be read. NotToldNow.
    """
    seen = read_words(plan, words, clusters)
    observer = Observer(clusters=clusters, context=command)
    facts = _known_facts(seen, observer, command)
    against = (each for each in limitations(seen.intent, facts) if each.name != SEEN_LATER)
    refuse_blocked(seen.intent, tuple(against), clusters.destination.name)
    reversal = of_reversal(clusters, seen.intent, command) if seen.intent.reverse else ()
    refuse_blocked(seen.intent, reversal, clusters.destination.name)
    unseen = [*news(seen, facts), *(each for each in reversal if not seen.accepts(each))]
    what = [f"{each.name}: {each.detail}" for each in sorted(unseen)]
    if seen.steps != STEP_IDS:
        what.append("another version of Tanist made it, with another route")
    if what:
        again = plan_command(seen.intent, clusters.destination.name)
        raise AnotherPlan(f"plan {plan} does not cover what is so now: {'; '.join(what)}. Plan again: {again}")
    return facts


def _known_facts(seen: ApprovedPlan, observer: Observer, command: CommandContext) -> Facts:
    """The facts, once all is known that matters. Raises NotToldNow."""
    facts = once_told(
        lambda: observer.look_for(seen.intent, ""),
        lambda facts: only_for_now(news(seen, facts)),
        command.clock,
        command.by,
    )
    if only_for_now(found := news(seen, facts)):
        raise NotToldNow("; ".join(f"{each.name}: {each.detail}" for each in found))
    return facts


def refuse_blocked(intent: Intent, found: Sequence[Limitation], destination: str) -> None:
    """Raises PlanBlocked where nobody can accept something, with all of that and the command that plans again."""
    if blocking := [each for each in found if each.blocks]:
        what = "; ".join(f"{each.name}: {each.detail}" for each in blocking)
        source_down = any(each.name == "SOURCE_DOWN" for each in blocking)
        again = plan_command(intent, destination, source_down=source_down)
        raise PlanBlocked(f"{what}. Plan again: {again}")


def read_words(plan: str, words: str, clusters: OpenMirror) -> ApprovedPlan:
    """The plan with these words. Raises NotPermitted: this version cannot read it, or it is of another mirror."""
    try:
        seen = ApprovedPlan.read(words)
    except (ValueError, KeyError, TypeError, RecursionError) as unreadable:
        raise NotPermitted(f"plan {plan} cannot be read by this version: {unreadable}") from unreadable
    spec, intent = clusters.spec, seen.intent
    pinned = (spec.mirror, spec.id, spec.source_cluster_id, spec.destination_cluster_id)
    if (intent.mirror, intent.mirror_id, intent.source_cluster_id, intent.destination_cluster_id) != pinned:
        raise NotPermitted(f"plan {plan} is of an earlier mirror {intent.mirror!r}, or of its other direction")
    return seen


class NotToldNow(CouldNotTell):
    """Not known for the moment, such as a partition without a leader; that voids nothing."""

    name = "NOT_TOLD_NOW"
    operator_action = "none: it is asked again until the deadline; nothing was changed meanwhile"


def once_told(look: Callable[[], Facts], is_awaited: Callable[[Facts], bool], clock: Clock, by: Deadline) -> Facts:
    """The first facts of which nothing is awaited, else those at the deadline.

    Plans and approvals wait here for what a cluster does not tell for the moment.
    """
    while True:
        facts = look()
        if not is_awaited(facts) or not by.left(clock.monotonic()):
            return facts
        clock.wait(_AGAIN_SECONDS)


class ApprovalVoid(NotPermitted):
    name = "APPROVAL_VOID"
    operator_action = (
        "no producer is fenced yet: undo the run with `tanist failover abort`, then plan again (with --mode unplanned "
        "where the source does not answer)"
    )


def _fits(plan: ApprovedPlan, spec: MirrorSpec) -> bool:
    """Neither an older plan nor the record of an older mirror has an id."""
    intent, pinned = plan.intent, (spec.mirror, spec.source_cluster_id, spec.destination_cluster_id)
    same = intent.mirror_id == spec.id or not (intent.mirror_id or spec.mirror_id)
    return same and (intent.mirror, intent.source_cluster_id, intent.destination_cluster_id) == pinned


FAILOVERS: Final = PlanKind(
    read=ApprovedPlan.read,
    unreadable="cannot be read by this version",
    fits=_fits,
    unfit="the plan is for an earlier mirror of this name, or for other clusters than the mirror has now",
    not_approved=NotApproved,
    not_permitted=NotPermitted,
    another=AnotherPlan,
    command="tanist failover approve {mirror} {plan} --destination {destination} --reason 'as shown'",
)


@dataclass(frozen=True, slots=True)
class ApprovalGate:
    """Of the plan with the hash `plan`. `request`: what its approval must answer (`choose`); None: a command's own."""

    plan: str
    request: str | None
    clusters: OpenMirror
    command: CommandContext

    def permit(self, view: StateView) -> Permit[ApprovedPlan]:
        """The approval of the run that is to be continued, or a fresh one; of this very mirror. Asks no cluster.

        Raises:
            NotApproved, ApprovalUsed, NotPermitted.
        """
        approval = self._approval(view)
        return Permit(approval, read_plan(FAILOVERS, approval, self.clusters))

    def is_approved_anew(self, view: StateView) -> bool:
        """Whether there is an approval that no run has used yet."""
        try:
            self._approval(view)
        except (ApprovalUsed, NotApproved, NoApproverTopic):  # the last: at a new destination since a reversal
            return False
        return True

    def must_permit(self, permit: Permit[ApprovedPlan], facts: Facts) -> None:
        """Behind the point of no return nothing is asked any more.

        Raises:
            NotPermitted: it does not permit what `facts` are now; ApprovalVoid, where the run has begun.
            NotToldNow: a cluster does not tell for the moment.
        """
        if past_return(facts):
            return
        reported = self.clusters.destination.approvals.brokers_time(self.command.by)
        now = self.command.clock.now()
        if reasons := objections(permit.approval, permit.approved, facts, STEP_IDS, now, reported):
            said = "; ".join(f"{reason.name}: {reason.detail}" for reason in reasons)
            if only_for_now(reasons):
                raise NotToldNow(said)
            begun = facts.run is not None and facts.run.status is RunStatus.RUNNING
            if not begun and self.request is None and all(reason.name == EXPIRED for reason in reasons):
                said = f"{said}: {self._approve_command(permit)}"
            kind = ApprovalVoid if begun else NotPermitted
            raise kind(said)

    def _approve_command(self, permit: Permit[ApprovedPlan]) -> str:
        kept = kept_words(self.plan, self.clusters, self.command) is not None
        return approve_command(permit.approved.intent, self.plan, self.clusters.destination.name, kept=kept)

    def _approval(self, view: StateView) -> Approval:
        mirror = self.clusters.spec.mirror
        held = view.failover(mirror, self.plan)
        if held is not None and held.status is RunStatus.RUNNING and held.no_return:
            return recorded(held)
        if held is None or held.status is not RunStatus.RUNNING:
            runs = view.failovers(mirror)
            return find_approval(FAILOVERS, self.plan, runs, self.clusters, self.command, request=self.request)
        entries = self.clusters.destination.approvals.all(self.command.by)
        ours = (each for each in approvals(entries) if (each.mirror, each.plan) == (mirror, self.plan) and each.genuine)
        own = [each for each in ours if each.id == held.approval]
        if not own:
            raise NotApproved(f"approval {held.approval} of run {self.plan} no longer exists")
        return own[0]
