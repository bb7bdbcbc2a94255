"""`tanist failover plan|approve`: what is looked at, and what is said, before anything is done."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tanist.domain.approval.words import hash_of
from tanist.domain.checks import Mode, Readiness
from tanist.domain.detached import detached_topics, refusal
from tanist.domain.errors import GroupNotInMirror, Misconfigured, Refused
from tanist.domain.failback.way_back import must_be_reversible
from tanist.domain.failover.commands import approve_command, plan_command
from tanist.domain.failover.facts import SKEW_MS, SourceState, is_locked
from tanist.domain.failover.failed_over import must_be_inside
from tanist.domain.failover.forecast import Forecast, at_least, forecast
from tanist.domain.failover.limitations import limitations, make_plan, planned_intent, word
from tanist.domain.failover.objections import only_for_now
from tanist.domain.failover.plan import FailoverRequest, Intent, Plan, TopicIntent
from tanist.domain.failover.reserve import DEFAULT_RESERVE, Reserve, reserve
from tanist.domain.lag import last_known
from tanist.domain.names import iso_time
from tanist.domain.problems import refuse
from tanist.domain.records import GROUPS_TOPIC, STATE_TOPIC
from tanist.domain.selection import EVERYTHING, Selection, pattern_problems
from tanist.ports.clock import Deadline
from tanist.usecases.approvals import sign
from tanist.usecases.failover.approval_gate import (
    AnotherPlan,
    PlanBlocked,
    keep,
    kept_words,
    must_be_covered,
    of_reversal,
    once_told,
    read_words,
    refuse_blocked,
)
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.route import ROUTE, STEP_IDS
from tanist.usecases.failover.unfinished_runs import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.approval.entries import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import ApprovedPlan
    from tanist.domain.names import EpochMs, TopicNames
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.usecases.approvals import ApprovalTerms
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror
    from tanist.usecases.snapshot import MirrorSnapshot


_RECENT_MS: Final = 5_000
_WORKERS_WRITE_SECONDS: Final = 2.0
"""Workers store what they see every second, and at once that the source does not answer any more."""


class SourceAnswers(Refused):
    """Said once, before a run begins. A run that has begun counts, records and continues."""

    name = "SOURCE_ANSWERS"
    operator_action = (
        "drain it instead, by a planned failover of the same topics (in Airflow mode: planned); or run the same "
        "command with --although-it-answers (in Airflow the same name); nothing was changed"
    )


class SourceSeenByWorkers(Refused):
    name = "SOURCE_SEEN_BY_WORKERS"
    operator_action = (
        "check the connection of this host to the source; to fail over all the same, say with --max-loss how many "
        "offsets may be lost, because the number moves as long as workers copy; nothing was changed"
    )


def must_not_answer(intent: Intent, facts: Facts, destination: str) -> None:
    """An unplanned failover loses what a planned one would drain. `destination`: its name.

    Raises:
        SourceAnswers: every partition of the source answers, and no run has begun.
    """
    if intent.mode is Mode.UNPLANNED and facts.source.state is SourceState.ALIVE and not is_locked(facts):
        planned = plan_command(replace(intent, mode=Mode.PLANNED, dead_since=None), destination)
        raise SourceAnswers(
            f"the source of mirror {intent.mirror!r} answers for all partitions of the plan; drained, none is lost: "
            f"{planned}"
        )


def must_not_be_seen_by_workers(intent: Intent, facts: Facts, observer: Observer, before: StateView) -> None:
    """Where workers see the source and we do not, the number of lost offsets moves, so somebody has to say it.

    `before`: the state as it was read before the source was asked. Waits for what workers store next, where they have
    seen it lately.

    Raises:
        SourceSeenByWorkers.
    """
    if (
        intent.mode is not Mode.UNPLANNED
        or facts.source.state is not SourceState.SILENT
        or facts.source.another_cluster
    ):
        return
    seen = _seen(before, intent, observer.clusters.spec.names)
    if seen is None or facts.now - seen > _RECENT_MS:
        return
    observer.context.clock.wait(_WORKERS_WRITE_SECONDS)
    now = _seen(observer.view(), intent, observer.clusters.spec.names)
    if now is not None and now > seen:
        raise SourceSeenByWorkers(
            f"workers reached the source at {iso_time(now)}, this host does not: {facts.source.reason}; "
            f"{at_least(intent, facts)} offset(s) are not copied yet"
        )


def _seen(view: StateView, intent: Intent, names: TopicNames) -> EpochMs | None:
    """When the source answered a worker that still reaches it; None: none does."""
    ours = frozenset(map(names.at_source, intent.partitions))
    ends = last_known(view, intent.mirror).items()
    return max((end.at for at, end in ends if at in ours and end.silent_since is None), default=None)


MOMENT_SECONDS: Final = 10.0
"""What is not known for the moment is waited for by a plan, which shows it where it lasts."""
FINISH_SECONDS: Final = 10.0
"""What a plan needs after that."""
Show: TypeAlias = "Callable[[ApprovedPlan, Facts], None]"
__all__ = ["AnotherPlan", "FailoverRequest", "PlanBlocked"]  # what `approve` takes and raises, beside its own


class PlanNotKept(Refused):
    name = "PLAN_NOT_KEPT"
    operator_action = "run `tanist failover plan` and approve what it prints; nothing was approved"

    def __init__(self, plan: str, destination: str, made: Sequence[str] = ()) -> None:
        """`made`: the plans that the given options make instead."""
        others = f", and the options make {' and '.join(made)}" if made else ""
        super().__init__(f"plan {plan} is not kept at {destination!r}{others}")
        self.made = tuple(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """`destination`: the name of its connection. `kept`: whether its words are stored; else `not_kept` may say why."""

    plan: Plan
    facts: Facts
    forecast: Forecast
    left: tuple[str, ...]
    destination: str
    kept: bool = False
    not_kept: str = ""

    @property
    def approve_command(self) -> str | None:
        """What approves it, to be typed; None: nobody can."""
        plan = self.plan
        return None if self.blocked else approve_command(plan.intent, plan.hash, self.destination, kept=self.kept)

    @property
    def word(self) -> Readiness:
        """As `tanist status` says it of the same facts."""
        return word(self.plan.limitations)

    @property
    def reserve(self) -> Reserve:
        """What is reserved, as the facts are now."""
        return reserve(self.plan.intent, self.facts)

    @property
    def blocked(self) -> bool:
        return any(reason.blocks for reason in self.plan.limitations)


def plan(request: FailoverRequest, clusters: OpenMirror, command: CommandContext) -> Planned:
    """The plan as the facts make it now, or in a moment where a cluster does not tell them; changes nothing.

    Raises:
        TopicNotInMirror, GroupNotInMirror: an expression matches nothing of the mirror. Misconfigured: it is none.
        NoWayBack: the mirror could not be reversed afterwards.
        SourceSeenByWorkers: somebody has to say how much may be lost.
    """
    if request.dead_since is not None and request.dead_since > command.clock.now() + SKEW_MS:
        raise Misconfigured(f"--source-dead-since lies in the future: {iso_time(request.dead_since)}")
    observer = Observer(clusters=clusters, context=command)
    snapshot = observer.snapshot()
    view = snapshot.destination.state(STATE_TOPIC, command.by)
    wanted = chosen(view, clusters, request.topics)
    if clusters.spec.is_mapped and request.reserve is not None:
        raise Misconfigured(
            "--reserve is for mirrors with identical offsets: the offsets of this mirror's copies are theirs"
        )
    if request.reverse:
        must_be_reversible(clusters.spec, request.mode, wanted, view.mirrored(clusters.spec.mirror))
    _must_match(request.groups, snapshot, command)
    bare = intent_of(clusters.spec, request, wanted)
    facts = _known_facts(bare, request, wanted, snapshot, observer)
    if request.loss_tolerance is None:
        must_not_be_seen_by_workers(bare, facts, observer, view)
    made = make_plan(planned_intent(bare, facts, request.loss_tolerance), facts, STEP_IDS)
    if request.reverse:
        made = replace(
            made, limitations=tuple(sorted((*made.limitations, *of_reversal(clusters, made.intent, command))))
        )
    left = ROUTE.left(made.intent, facts)
    there = clusters.destination.name
    return Planned(plan=made, facts=facts, forecast=forecast(made.intent, facts), left=left, destination=there)


def _known_facts(
    bare: Intent, request: FailoverRequest, wanted: Sequence[TopicDesired], snapshot: MirrorSnapshot, observer: Observer
) -> Facts:
    """The facts, once all is known that matters, or as they are after a while: what is counted is what may be lost.

    Nobody waits where something else blocks: such a plan cannot be approved anyway.
    """
    clock, patient, unread = observer.context.clock, request.mode is Mode.PLANNED, [snapshot]

    def look() -> Facts:
        return observer.look(wanted, snapshot=unread.pop() if unread else None, patient=patient)

    def is_awaited(facts: Facts) -> bool:
        found = limitations(planned_intent(bare, facts, request.loss_tolerance), facts)
        return only_for_now(tuple(each for each in found if each.blocks or each.momentary))

    by = min(observer.context.by.at - FINISH_SECONDS, clock.deadline(MOMENT_SECONDS).at)
    return once_told(look, is_awaited, clock, Deadline(by))


def plan_and_keep(request: FailoverRequest, clusters: OpenMirror, command: CommandContext) -> Planned:
    """As `plan`; its words are stored at the destination, where our login may write them. Nothing else is changed."""
    return kept(plan(request, clusters, command), clusters, command)


def kept(found: Planned, clusters: OpenMirror, command: CommandContext) -> Planned:
    """`found`, stored where that can be."""
    why = keep(found.plan, clusters, command)
    return replace(found, kept=not why, not_kept=why)


def intent_of(spec: MirrorSpec, request: FailoverRequest, wanted: Sequence[TopicDesired]) -> Intent:
    """What is asked for, before the facts fill in the rest."""
    unplanned = request.mode is Mode.UNPLANNED
    budget = (0 if spec.is_mapped else DEFAULT_RESERVE) if request.reserve is None else request.reserve
    return Intent(
        mirror=spec.mirror,
        mirror_id=spec.id,
        mode=request.mode,
        source_cluster_id=spec.source_cluster_id,
        destination_cluster_id=spec.destination_cluster_id,
        topics=tuple(TopicIntent(topic=t.topic, partitions=t.partitions, source_id=t.source_topic_id) for t in wanted),
        groups=request.groups,
        reserve=budget if unplanned else 0,
        dead_since=request.dead_since if unplanned else None,
        reverse=request.reverse,
    )


def chosen(view: StateView, clusters: OpenMirror, topics: Selection) -> tuple[TopicDesired, ...]:
    """Those of `topics` that are in the mirror. Who asks for all leaves detached ones out, and the plan says so.

    Raises:
        TopicIsDetached, or several: one was asked for. TopicNotInMirror (TopicsFailedOver: no more). Misconfigured.
    """
    mirror = clusters.spec.mirror
    topics.check()
    must_be_inside(view, clusters.spec, topics)
    inside = {topic.topic: topic for topic in view.mirrored(mirror)}
    apart = {each.topic: each for each in detached_topics(view, mirror)}
    has = ", ".join(sorted(inside)[:5]) or "none"
    found = topics.chosen({*inside, *apart}, f"topic of mirror {mirror!r}, which has {has}")
    asked = [name for name in found if name in apart and topics.include not in {(), EVERYTHING}]
    if asked:
        refuse(refusal(apart[name], clusters.spec) for name in asked)
    return tuple(inside[name] for name in found if name in inside)


def _must_match(groups: tuple[str, ...], snapshot: MirrorSnapshot, command: CommandContext) -> None:
    """An expression that matches none of the groups that are kept is a typing mistake."""
    if problems := pattern_problems(groups):
        refuse(problems)
    if groups == EVERYTHING:
        return
    spec, view = snapshot.spec, snapshot.destination.state(GROUPS_TOPIC, command.by)
    kept = {each.group for each in view.group_positions(spec)}
    if idle := Selection(groups).idle(tuple(kept)):
        refuse(GroupNotInMirror(f"{text!r} matches no group of mirror {spec.mirror!r}") for text in idle)


def must_not_be_blocked(found: Planned) -> None:
    """Raises PlanBlocked, with everything that nobody can accept."""
    refuse_blocked(found.plan.intent, found.plan.limitations, found.destination)


def approve_typed(  # what is approved, and what about it was typed
    plan_hash: str,
    typed: Mapping[str, Any],
    clusters: OpenMirror,
    command: CommandContext,
    *,
    terms: ApprovalTerms,
    show: Show | None = None,
) -> Approval:
    """Approve the plan with this hash. `typed`: fields of FailoverRequest that somebody has given.

    A kept plan needs none of them; what is given must be what it says. Else they must make the plan, in either mode if
    none is given.

    Raises:
        AnotherPlan: the kept plan says otherwise. PlanNotKept: with what they make. Otherwise as `approve`.
    """
    approve_as = partial(approve, plan_hash, terms=terms, show=show)
    if (words := kept_words(plan_hash, clusters, command)) is not None:
        _must_say(plan_hash, read_words(plan_hash, words, clusters).intent, typed, clusters, command)
        return approve_as(None, clusters, command)
    modes = [typed["mode"]] if "mode" in typed else [Mode.PLANNED] if typed.get("reverse") else list(Mode)
    others: list[str] = []
    for mode in modes:
        try:
            return approve_as(FailoverRequest(**{**typed, "mode": mode}), clusters, command)
        except PlanNotKept as missing:
            others += missing.made
    raise PlanNotKept(plan_hash, clusters.destination.name, others)


def _must_say(
    plan_hash: str, intent: Intent, typed: Mapping[str, Any], clusters: OpenMirror, command: CommandContext
) -> None:
    """Raises AnotherPlan unless the plan is what was typed."""
    if problems := pattern_problems(each for name in ("include", "exclude", "groups") for each in typed.get(name, ())):
        refuse(problems)
    own = FailoverRequest(
        mode=intent.mode,
        include=tuple(map(re.escape, intent.names)),
        groups=intent.groups,
        reverse=intent.reverse,
    )
    observer = Observer(clusters=clusters, context=command)
    known = [each.topic for each in observer.view().mirrored(clusters.spec.mirror)]
    if unlike := differences(intent, replace(own, **typed), known):
        raise AnotherPlan(f"plan {plan_hash} is another one: {'; '.join(unlike)}")


def approve(  # noqa: PLR0913  # what an approver says, named
    plan_hash: str,
    wanted: FailoverRequest | None,
    clusters: OpenMirror,
    command: CommandContext,
    *,
    terms: ApprovalTerms,
    request: str = "",
    shown: str = "",
    show: Show | None = None,
) -> Approval:
    """Put our name under a plan, if its words cover what both clusters are now.

    The words are those of the kept plan with this hash; else those that were `shown`, if they have it; else those of
    the plan that `wanted` makes now, if it has it.

    `request`: as in `approvals.sign`. `show`: is given what is about to be signed.

    Raises:
        AnotherPlan: the words do not cover it. PlanBlocked: what nobody can accept. PlanNotKept: there are no words.
        NoApproverTopic. AuthorizationFailed: we are no approver.
    """
    words = kept_words(plan_hash, clusters, command)
    if words is None and hash_of(shown) == plan_hash:
        words = shown
    if words is not None:
        facts = must_be_covered(plan_hash, words, clusters, command)
    else:
        now = _made_by(wanted, plan_hash, clusters, command)
        words, facts = now.plan.canonical_plan, now.facts
        must_not_be_blocked(now)
    shows = partial(show, read_words(plan_hash, words, clusters), facts) if show is not None else None
    return sign(words, terms, clusters, command, request=request, show=shows)


def _made_by(wanted: FailoverRequest | None, plan_hash: str, clusters: OpenMirror, command: CommandContext) -> Planned:
    """The plan that `wanted` makes now, if that is the one with this hash. Raises PlanNotKept."""
    if wanted is None:
        raise PlanNotKept(plan_hash, clusters.destination.name)
    if (now := plan(wanted, clusters, command)).plan.hash != plan_hash:
        raise PlanNotKept(plan_hash, clusters.destination.name, [f"the {wanted.mode} plan {now.plan.hash}"])
    return now
