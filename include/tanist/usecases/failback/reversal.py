"""The plan of a reversal: what both clusters are like, and what speaks against it. Nothing here changes anything."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import to_deny
from tanist.domain.approval.choosing import recorded
from tanist.domain.approval.entries import NotApproved
from tanist.domain.errors import MirrorExists, Refused, TanistError, TopicNotInMirror
from tanist.domain.failback.pending import pending
from tanist.domain.failback.reversal import (
    TAIL_UNDECIDED,
    Reversal,
    TailUndecided,
    cannot_continue,
    cost,
    limitations,
    problems,
    problems_of_recreation,
    recreated,
    returning,
)
from tanist.domain.failback.survey import not_compared
from tanist.domain.failover.plan import plan_of
from tanist.domain.kept_fences import what_stays
from tanist.domain.logins import logins_of, principals
from tanist.domain.moves import MoveStatus
from tanist.domain.owners import Owners
from tanist.domain.problems import ProblemCollector, about, refuse
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.domain.selection import Selection, only, pattern_problems
from tanist.usecases import approvals
from tanist.usecases.approvals import PlanKind, permit
from tanist.usecases.failback.recreation_plan import plan_recreations, uncompared_topics, unfit_topics
from tanist.usecases.failback.rescued import altered_topics
from tanist.usecases.failback.survey import NothingFailedOver, survey, topics_only_there
from tanist.usecases.failover.planning import AnotherPlan
from tanist.usecases.lock import Purpose, ensure_unlocked
from tanist.usecases.mirrors import take, writers
from tanist.usecases.mirrors.desire import must_be_free
from tanist.usecases.mirrors.observe import read_promotions
from tanist.usecases.snapshot import DestinationSnapshot, SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.approval.entries import Approval
    from tanist.domain.failback.reversal import ReturningTopic
    from tanist.domain.failback.survey import PartitionSurvey
    from tanist.domain.moves import MirrorMove
    from tanist.domain.names import MirrorName
    from tanist.domain.state_view import StateView
    from tanist.usecases.approvals import ApprovalTerms
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.recreation_plan import UnfitTopic
    from tanist.usecases.mirror import ReturnedMirror
    from tanist.usecases.mirrors.take import TopicPlan

PURPOSE: Final = Purpose(operation="mirrors reverse", waits=True, reverses=True, patient=True)


class MirrorStillCopies(Refused):
    name = "MIRROR_STILL_COPIES"
    operator_action = (
        "fail these topics over first (`tanist failover plan NAME`): a mirror has one direction; nothing was changed"
    )


class ReversalNotApproved(NotApproved):
    operator_action = "nothing was changed"


class AnotherReversal(AnotherPlan):
    operator_action = "`tanist mirrors reverse NAME --dry-run` shows the current plan; nothing was approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReversalRequest:
    """`exclude`: topics that stay behind, as regular expressions. `accept`: limitations that must be named.

    `recreate`: topics that are deleted at the old source and copied again if they cannot return as they are.
    `answers`: of the run of an orchestrator, the request that its approval answers; None: a command asks. `failover`:
    the plan of a failover that was approved with the reversal after it; None: the reversal has an approval of its own.
    `only`: the hash that the plan must have; None: any.
    """

    exclude: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    recreate: tuple[str, ...] = ()
    answers: str | None = None
    failover: str | None = None
    only: str | None = None

    def command(self, mirror: str, destination: str, *more: str) -> str:
        """What asks for this reversal of the mirror at `destination`, to be typed; `more`: further options."""
        return shlex.join((*self.words(mirror, destination), *more))

    def words(self, mirror: str, destination: str) -> tuple[str, ...]:
        """The same, word by word."""
        return ("tanist", "mirrors", "reverse", mirror, "--destination", destination, *self.options)

    @property
    def options(self) -> tuple[str, ...]:
        """What asks a command for the same."""
        named = (("--exclude", self.exclude), ("--accept", self.accept), ("--recreate", self.recreate))
        return tuple(word for option, values in named for value in values for word in (option, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReversal:
    """The plan, and what the survey has found."""

    plan: Reversal
    found: tuple[PartitionSurvey, ...]


def mirror_logins(clusters: ReturnedMirror, *views: StateView) -> frozenset[str]:
    """The principals that workers have at either cluster, which are never denied; if none is known, those of ours.

    `views`: the states of both clusters.
    """
    found = {login for view in views for login in principals(logins_of(view.workers()))}
    sides = (clusters.source, clusters.destination)
    return frozenset(found or {login for side in sides if (login := side.opening.principal())})


def given_at_source(view: StateView, mirror: MirrorName, topic: str) -> tuple[AclEntry, ...]:
    """The ACLs that an earlier failover to the old source has created there: the reversal takes them back."""
    found = view.topic(mirror, topic)
    return found.given_at_source if found is not None else ()


def plan(
    request: ReversalRequest, clusters: ReturnedMirror, command: CommandContext, *, approves: bool = False
) -> PlannedReversal:
    """The plan as the clusters are now. `approves`: for an approver, who need not have the permissions to run it.

    Raises:
        NothingFailedOver: the mirror has failed over nothing. MirrorStillCopies: it has topics that it still mirrors.
        MirrorLocked: a failover is unfinished. Problems, or the single error: everything that speaks against it.
    """
    if wrong := pattern_problems(request.exclude):
        refuse(wrong)
    spec, by = clusters.spec, command.by
    view = clusters.destination.state(STATE_TOPIC, by)
    ensure_unlocked(view, spec.mirror, PURPOSE)
    behind = _left_behind(view, spec.mirror, request)
    if not (returning_names := _candidates(view, spec.mirror) - behind.keys()):
        raise NothingFailedOver("--exclude leaves every topic behind, so there is nothing to reverse")
    found = survey(clusters, only(returning_names), command)
    names = tuple(sorted({each.partition.topic for each in found}))
    unfit = unfit_topics(view, clusters, names, command)
    unfit += uncompared_topics(found, unfit)
    again = _recreated(names, request, found, unfit)
    collected = ProblemCollector(_problems(found, request, unfit, again))
    collected.problems += _undecided(view, spec.mirror, behind, request)
    there = clusters.source.state(STATE_TOPIC, by)
    collected.problems += _owned(there, spec.mirror, spec.mirror_id)
    collected.attempt(lambda: must_be_free(there, spec.mirror, names))
    if not approves and not collected.problems:  # what is missing there was reported by name
        collected.attempt(lambda: topic_plans(clusters, there, names, command, again))
    collected.raise_all()
    mirrors = mirror_logins(clusters, view, there)
    topics = _returning(view, clusters, names, found, again, mirrors, command)
    taken_back = {name: given_at_source(view, spec.mirror, name) for name in names}
    writable = writers.writable(clusters.source, names, mirrors, by, taken_back)
    without_copy = topics_only_there(clusters, command)
    continued = [each for each in found if each.partition.topic not in again]
    costs = cost(topics, altered_topics(clusters, view, again, by))
    return PlannedReversal(
        plan=Reversal(
            mirror=spec.mirror,
            mirror_id=spec.id,
            source_cluster_id=spec.destination_cluster_id,
            destination_cluster_id=spec.source_cluster_id,
            topics=topics,
            limitations=tuple(sorted([*limitations(continued, behind, writable, without_copy), *costs])),
        ),
        found=found,
    )


def unfinished(clusters: ReturnedMirror, command: CommandContext) -> MirrorMove | None:
    """The reversal that was interrupted; None: there is none."""
    return clusters.destination.state(STATE_TOPIC, command.by).moving(clusters.spec.mirror)


def _candidates(view: StateView, mirror: MirrorName) -> set[str]:
    """The topics that were promoted.

    Raises:
        MirrorStillCopies, NothingFailedOver.
    """
    left = {topic.topic for topic in view.removed(mirror)}
    if not left:
        raise NothingFailedOver(f"mirror {mirror!r} has failed over no topic")
    if copied := [topic.topic for topic in view.mirrored(mirror)]:
        raise MirrorStillCopies(f"mirror {mirror!r} still copies {len(copied)} topic(s): {', '.join(copied[:5])}")
    return left


def _left_behind(view: StateView, mirror: MirrorName, request: ReversalRequest) -> dict[str, str]:
    """The topics that do not return, with the reason. Raises TopicNotInMirror, and as `_candidates`."""
    names = tuple(sorted(_candidates(view, mirror)))
    if not request.exclude:
        return {}
    selection = Selection(request.exclude)
    if idle := selection.idle(names):
        refuse(TopicNotInMirror(f"{text!r} matches no topic that mirror {mirror!r} has failed over") for text in idle)
    fences = {each.topic: each for each in view.source_fences(mirror)}
    why = "left behind by --exclude"
    return {name: "; ".join(filter(None, (why, what_stays(fences.get(name))))) for name in selection.of(names)}


def _undecided(
    view: StateView, mirror: MirrorName, behind: Collection[str], request: ReversalRequest
) -> list[TanistError]:
    """Tails of topics that stay behind: once the mirror has moved, no command rescues them any more."""
    if TAIL_UNDECIDED in request.accept:
        return []
    left = [each for each in pending(view, mirror) if each.topic in behind]
    return [
        TailUndecided(f"the divergent tails of {each.topic!r}, which stays behind, are {each.stage}") for each in left
    ]


def _recreated(
    names: Sequence[str], request: ReversalRequest, found: Sequence[PartitionSurvey], unfit: Sequence[UnfitTopic]
) -> frozenset[str]:
    """The topics that are deleted and copied again: those of the request that cannot return as they are.

    Raises:
        TopicNotInMirror: an expression of the request matches no topic that returns.
    """
    if wrong := pattern_problems(request.recreate):
        refuse(wrong)
    if not request.recreate:
        return frozenset()
    selection = Selection(request.recreate)
    if idle := selection.idle(tuple(names)):
        refuse(TopicNotInMirror(f"{text!r} matches no topic that the reversal takes back") for text in idle)
    lost = {each.topic for each in unfit if not each.mended}
    need = {each.topic for each in unfit}
    need |= {name for name in names if cannot_continue(each for each in found if each.partition.topic == name)}
    return frozenset(name for name in selection.of(tuple(names)) if name in need - lost)


def _problems(
    found: Sequence[PartitionSurvey], request: ReversalRequest, unfit: Sequence[UnfitTopic], again: Collection[str]
) -> list[TanistError]:
    """What the survey and the topics say against it; a topic that was replaced is reported as such only."""
    replaced = {each.topic for each in unfit if each.replaced}
    compared = [each for each in found if each.identical and each.partition.topic not in replaced]
    return [
        *problems([each for each in compared if each.partition.topic not in again], request.accept),
        *problems_of_recreation(each for each in compared if each.partition.topic in again),
        *(about(each.topic, each.error) for each in unfit if each.topic not in again),
    ]


def _returning(  # noqa: PLR0913, PLR0917  # what a plan is made of
    view: StateView,
    clusters: ReturnedMirror,
    names: Sequence[str],
    found: Sequence[PartitionSurvey],
    again: Collection[str],
    mirrors: frozenset[str],
    command: CommandContext,
) -> tuple[ReturningTopic, ...]:
    writing, mirror = clusters.source.acls.read(command.by).writing(names), clusters.spec.mirror
    planned = plan_recreations(view, clusters, sorted(again), not_compared(found), command)
    topics = []
    for name in names:
        epoch, rules = view.promotions(mirror, name), writing[name] - {*given_at_source(view, mirror, name)}
        if name in planned:
            partitions, recreation = planned[name]
            topics.append(recreated(name, epoch, partitions, recreation, to_deny(rules, mirrors)))
        else:
            ours = [each for each in found if each.partition.topic == name]
            topics.append(returning(name, epoch, ours, rules, mirrors))
    return tuple(topics)


def _owned(there: StateView, mirror: MirrorName, mirror_id: str) -> list[TanistError]:
    held = there.mirror(mirror)
    if held is None or held.mirror_id == mirror_id:
        return []
    return [MirrorExists(f"the old source has another mirror {mirror!r}")]


def topic_plans(
    clusters: ReturnedMirror,
    there: StateView,
    names: Sequence[str],
    command: CommandContext,
    again: Collection[str] = (),
) -> tuple[TopicPlan, ...]:
    """The configs of the topics at the old source while they are mirrored, and what is deferred.

    `there`: the state of the old source. `again`: topics that are deleted there, and created again.

    Raises:
        Problems, or the single error: everything that forbids it, at both clusters.
    """
    primary, old = SourceSnapshot(cluster=clusters.destination), DestinationSnapshot(cluster=clusters.source)
    shared = take.situation(old, there, replace(clusters.spec, replication_factor=None), command.by)
    others = Owners.besides(there, clusters.spec.mirror)
    situation = replace(shared, returning=True, replaced=frozenset(again), owners=others)
    read_promotions(primary, command.by)
    return take.examine(primary, old, names, situation, command.by)


# ── approval ──────────────────────────────────────────────────────────────────────────────────────────────────────


def approve(  # what an approver says, named
    plan_hash: str,
    request: ReversalRequest,
    clusters: ReturnedMirror,
    command: CommandContext,
    *,
    terms: ApprovalTerms,
) -> Approval:
    """Put our name under the plan, if the clusters still make it. `on_behalf_of`: for whom, if not for ourselves.

    Raises:
        AnotherReversal: they make another one. Misconfigured. NoApproverTopic. AuthorizationFailed: we are no approver.
        What `plan` raises.
    """
    made = plan(request, clusters, command, approves=True).plan
    named = ", ".join(each.name for each in made.limitations) or "nothing"
    says = f": {len(made.topics)} topic(s) return, and {named} speaks against it"
    request_id = request.answers or ""
    return approvals.approve(REVERSALS, plan_hash, made, terms, clusters, command, request=request_id, says=says)


REVERSALS: Final = PlanKind(
    read=Reversal.read,
    unreadable="is not one of a reversal",
    fits=lambda made, spec: (
        (made.mirror, made.mirror_id, made.source_cluster_id, made.destination_cluster_id)
        == (spec.mirror, spec.id, spec.destination_cluster_id, spec.source_cluster_id)
    ),
    unfit="the plan is for another mirror, or for other clusters than the mirror has now",
    not_approved=ReversalNotApproved,
    not_permitted=ReversalNotApproved,
    another=AnotherReversal,
    command="tanist mirrors reverse {mirror} --destination {destination} --approve {plan} --reason 'as shown'",
    without_topic=True,
)


def approval_of(
    made: Reversal, request: ReversalRequest, clusters: ReturnedMirror, command: CommandContext
) -> Approval:
    """The approval of the plan that the clusters make now.

    Raises:
        ReversalNotApproved: with the command that approves it.
    """
    if request.failover is not None:
        return _of_failover(made, request.failover, clusters, command)
    last = last_withdrawn(clusters, command)
    runs, used = ([last], last.used) if last else ([], ())
    found = permit(
        REVERSALS.with_options(request.options), made.hash, runs, clusters, command, request=request.answers, used=used
    )
    return found.approval


def last_withdrawn(clusters: ReturnedMirror, command: CommandContext) -> MirrorMove | None:
    """The last reversal, if it was withdrawn: its approval is used, and so are those that it remembers."""
    move = clusters.destination.state(STATE_TOPIC, command.by).move(clusters.spec.mirror)
    return move if move is not None and move.status is MoveStatus.WITHDRAWN else None


def _of_failover(made: Reversal, failover: str, clusters: ReturnedMirror, command: CommandContext) -> Approval:
    """The approval of the failover plan `failover`, which was approved with the reversal after it.

    Raises:
        ReversalNotApproved: it was not, or has not accepted what speaks against the reversal now.
    """
    mirror = clusters.spec.mirror
    run = clusters.destination.state(STATE_TOPIC, command.by).failover(mirror, failover)
    found = plan_of(run) if run is not None and run.status is RunStatus.DONE else None
    how = REVERSALS.approved_by(made.hash, clusters)
    if run is None or found is None or not found.intent.reverse:
        raise ReversalNotApproved(f"failover plan {failover} of mirror {mirror!r} has not approved a reversal{how}")
    last = last_withdrawn(clusters, command)
    if last is not None and recorded(run).id in last.approvals_used:
        raise ReversalNotApproved(f"the reversal that failover plan {failover} has approved was withdrawn{how}")
    if new := [each for each in made.limitations if not found.accepts(each)]:
        named = "; ".join(f"{each.name}: {each.detail}" for each in new)
        raise ReversalNotApproved(f"failover plan {failover} has not accepted {named}{how}")
    return recorded(run)
