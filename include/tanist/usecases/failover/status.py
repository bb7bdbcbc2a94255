"""`tanist failover status`: runs on record, what is left of them, and who has not moved."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.acl_rules import acl_principals
from tanist.domain.answers import attempt
from tanist.domain.circle import pending_reversal, reversal_check
from tanist.domain.errors import AnotherCluster, TanistError
from tanist.domain.failback.pending import findings_check, findings_of, tails_check, tails_of, undecided
from tanist.domain.failover.health import barrier_check, left_behind_check, openings_check, promoted_check, runs_check
from tanist.domain.failover.invariants import check_invariants
from tanist.domain.failover.past_checks import fences_check
from tanist.domain.failover.plan import NOT_SHUT_OUT, ApprovedPlan, plan_of
from tanist.domain.failover.reasons import NOT_GRANTED, access_check
from tanist.domain.failover.stored_reserves import reserves_check
from tanist.domain.kept_fences import fence_groups
from tanist.domain.logins import logins_of, principals
from tanist.domain.promotions import promoted_twice, recreated, still_promoted
from tanist.domain.readers import NO_READERS, Readers, ReadingGroups, readers
from tanist.domain.records import GROUPS_TOPIC, STATE_TOPIC, FailoverRun, RunStatus
from tanist.domain.write_access import shut_out_of
from tanist.domain.writers import writers
from tanist.ports.fencing import Kept, ProducerFence
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.route import ROUTE, STEP_IDS
from tanist.usecases.failover.source_seen import look_at_all_fences, look_at_fences, soon
from tanist.usecases.failover.steps.notify_source import left_behind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.checks import Check
    from tanist.domain.circle import PendingReversal
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.invariants import Breach
    from tanist.domain.fences import FencedTopic, SourceFences
    from tanist.domain.kept_fences import FenceGroup
    from tanist.domain.names import MirrorPartition, SourcePartition
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.domain.writer_identity import WriterIdentity
    from tanist.ports.clock import Deadline
    from tanist.usecases.command import CommandContext, Silence
    from tanist.usecases.mirror import OpenMirror
    from tanist.usecases.snapshot import ClusterSnapshot, DestinationSnapshot, MirrorSnapshot


def checks(both: MirrorSnapshot, silence: Silence, context: CommandContext) -> tuple[Check, ...]:
    """Do they still hold? None of this stops a failover of other topics. A source that is silent is not asked again."""
    spec, copy, by = both.spec, both.destination, context.by
    view = copy.state(STATE_TOPIC, by)
    left = view.removed(spec.mirror)
    ids = attempt(lambda: copy.registry([topic.topic for topic in left], by).topic_ids) if left else {}
    known = {} if isinstance(ids, TanistError) else ids
    promoted = still_promoted(view, spec.mirror, known)
    taken = [at for topic in promoted for at in topic.all_partitions()]
    gone = ids if isinstance(ids, TanistError) else recreated(view, spec.mirror, ids)
    return (
        promoted_check(gone, promoted_twice(view, spec.mirror, known), len(left)),
        reserves_check(
            (
                each
                for topic in (() if spec.is_mapped else promoted)
                if (each := view.copied_up_to(spec.mirror, topic.topic)) is not None
            ),
            spec.destination,
        ),
        tails_check(tails_of(view, spec.mirror), undecided(view, spec.mirror)),
        findings_check(findings_of(view, spec.mirror)),
        left_behind_check(_left_behind(both, view, silence, context) if left else {}),
        _barrier(writers(view, spec, taken), {} if spec.is_mapped else _bare(spec, taken, copy, by), copy, by),
        access_check(_locked_out(spec, view, promoted, copy, by), _readers(both, view, silence, context), _alter(spec)),
        openings_check(_shut_out(spec, view, promoted, copy, by), principals(logins_of(view.workers()))),
        fences_check(*_fences(both, view, silence, context), _must_stand(both.spec, view, left), both.spec),
        runs_check(view.failovers(spec.mirror)),
        reversal_check(pending_reversal(view, spec.mirror)),
    )


def _must_stand(spec: MirrorSpec, view: StateView, left: Sequence[TopicDesired]) -> frozenset[str]:
    """The topics without whose source fence producers could write to both clusters, as their fences name them.

    Not those that another mirror has now: it copies what producers write at its source.
    """
    kept = (each.topic for group in fence_groups(view, spec) if group.kept for each in group.watched(view))
    others = view.of_other_mirrors(spec.mirror)
    ours = (spec.names.topic_at_source(each.topic) for each in left if each.topic not in others)
    return frozenset((*ours, *(topic for topic in kept if topic not in others)))


def _left_behind(
    both: MirrorSnapshot, view: StateView, silence: Silence, context: CommandContext
) -> dict[SourcePartition, int | TanistError] | TanistError:
    source = both.source
    if isinstance(source, TanistError):
        return source
    if (why := silence.of(source.name)) is not None:
        return why
    by = soon(context)
    found = attempt(lambda: left_behind(both.spec, view, source, by))
    if isinstance(found, TanistError) and not isinstance(found, AnotherCluster):
        silence.keep(source.name, found)
    return found


def _fences(
    both: MirrorSnapshot, view: StateView, silence: Silence, context: CommandContext
) -> tuple[tuple[FencedTopic, ...], Mapping[str, bool | None]]:
    """All fences of this mirror, recorded or not, and what their cluster says of each, as far as it answers."""
    fences: list[FencedTopic] = []
    known: dict[str, bool | None] = {}
    for group in fence_groups(view, both.spec):
        held = group.watched(view)
        fences += held
        cluster = both.source if group.spec.source == both.spec.source else both.destination
        if isinstance(cluster, TanistError) or silence.of(cluster.name) is not None:
            continue
        seen = _source_seen(group, cluster, view, context)
        if not isinstance(seen, TanistError):
            fences += seen.unrecorded.values()
            known |= seen.known()
    return tuple(fences), known


def _source_seen(
    group: FenceGroup, cluster: ClusterSnapshot[Any], view: StateView, context: CommandContext
) -> SourceFences | TanistError:
    by = soon(context)
    if group.kept:
        return attempt(lambda: look_at_fences(cluster, group.watched(view), (), by))
    return attempt(lambda: look_at_all_fences(cluster, view, group.spec, by))


def _barrier(
    written_by: Mapping[MirrorPartition, WriterIdentity],
    bare: Mapping[MirrorPartition, bool | TanistError],
    copy: DestinationSnapshot,
    by: Deadline,
) -> Check:
    answers = attempt(lambda: copy.producer_fences(written_by, by)) if written_by else {}
    if isinstance(answers, TanistError):
        return barrier_check(dict.fromkeys(written_by, answers), bare)
    forgotten = [at for at in written_by if answers[at] is ProducerFence.FORGOTTEN]
    return barrier_check({at: _stands(answers[at]) for at in written_by}, bare, forgotten)


def _bare(
    spec: MirrorSpec, partitions: list[MirrorPartition], copy: DestinationSnapshot, by: Deadline
) -> dict[MirrorPartition, bool | TanistError]:
    """Of partitions whose topic is compacted: whether nothing but a marker is their barrier."""
    topics = {at.topic for at in partitions}
    policies = attempt(lambda: copy.compacted(topics, by)) if topics else {}
    if isinstance(policies, TanistError):
        return dict.fromkeys(partitions, policies)
    found: dict[MirrorPartition, bool | TanistError] = {}
    found |= {at: why for at in partitions if isinstance(why := policies[at.topic], TanistError)}
    asked = {at: spec.writer for at in partitions if policies[at.topic] is True}
    answers = attempt(lambda: copy.kept(asked, by)) if asked else {}
    if isinstance(answers, TanistError):
        return found | dict.fromkeys(asked, answers)
    bare = {at: kept if isinstance(kept, TanistError) else kept is Kept.BARE for at, kept in answers.items()}
    return found | bare


_KEEPS_WRITE: Final = frozenset({NOT_SHUT_OUT, NOT_GRANTED})
"""What was accepted where the mirror's login keeps its WRITE."""


def _shut_out(
    spec: MirrorSpec, view: StateView, promoted: Sequence[TopicDesired], copy: DestinationSnapshot, by: Deadline
) -> Mapping[str, bool | TanistError]:
    """Of topics that took over with the mirror shut out: whether it still is."""
    done = [each for each in view.failovers(spec.mirror) if each.status is RunStatus.DONE]
    plans = [plan for each in done if (plan := plan_of(each)) and not _KEEPS_WRITE & plan.limitations]
    proved = {topic for plan in plans for topic in plan.intent.names}
    names = [topic.topic for topic in promoted if topic.topic in proved]
    reported = logins_of(view.workers())
    logins = principals(reported)
    guarded = attempt(lambda: copy.authorizer(by)) if names and logins else False
    if guarded is not True:
        return {} if guarded is False else dict.fromkeys(names, guarded)
    if any(login.unbound for login in reported):
        return dict.fromkeys(names, False)
    answers = attempt(lambda: copy.shut_out(names, by, logins))
    return dict.fromkeys(names, answers) if isinstance(answers, TanistError) else answers


def _locked_out(
    spec: MirrorSpec, view: StateView, promoted: Sequence[TopicDesired], copy: DestinationSnapshot, by: Deadline
) -> dict[str, tuple[str, ...]] | TanistError:
    """By topic, who could write at the old source and may not here; none where people grant it, and we may not look."""
    guarded = attempt(lambda: copy.authorizer(by)) if promoted else False
    if isinstance(guarded, TanistError) or not guarded:
        return guarded or {}
    found = attempt(lambda: copy.writing([topic.topic for topic in promoted], by))
    if isinstance(found, TanistError):
        return found if spec.grant_writers else {}
    own = copy.cluster.opening.principal()  # which `open` has denied where no worker reports a login
    mirrors = principals(logins_of(view.workers())) or frozenset({own} if own else ())
    return {topic.topic: shut_out_of(topic.deferred_acls, found[topic.topic], mirrors) for topic in promoted}


def _alter(spec: MirrorSpec) -> str:
    where = shlex.join(("tanist", "mirrors", "alter", spec.mirror, "--destination", spec.destination, "--acl", "RULE"))
    return f"`{where}` with `tanist metadata sync`"


def _readers(both: MirrorSnapshot, view: StateView, silence: Silence, context: CommandContext) -> Readers:
    """Of the groups that have positions in topics that are mirrored now."""
    spec, source, copy = both.spec, both.source, both.destination
    copies = {
        spec.names.topic_at_source(each.topic): each.topic
        for each in view.mirrored(spec.mirror)
        if not view.promoted(spec.mirror, each.topic)
    }
    topics: dict[str, set[str]] = {}
    for each in copy.state(GROUPS_TOPIC, context.by).group_positions(spec) if copies else ():
        if each.partition.topic in copies:
            topics.setdefault(each.group, set()).add(each.partition.topic)
    guarded = attempt(lambda: copy.authorizer(context.by)) if topics else False
    if guarded is False:
        return NO_READERS
    if isinstance(source, TanistError) or silence.of(source.name) is not None:
        return Readers(unknown="the source does not answer, so nobody knows who may read there", groups=len(topics))
    found = attempt(lambda: (source.acls(soon(context)), copy.acls(context.by)))
    if isinstance(found, TanistError):
        return Readers(unknown=f"ACLs cannot be read: {found.reason}", groups=len(topics))
    own = (each.cluster.opening.principal() for each in (source, copy))
    return readers(
        ReadingGroups(
            topics=topics,
            copies=copies,
            principals=acl_principals(spec.acl_principals),
            spared=principals(logins_of(view.workers())) | {each for each in own if each is not None},
        ),
        *found,
    )


def _stands(answer: ProducerFence | TanistError) -> bool | TanistError:
    return answer if isinstance(answer, TanistError) else answer is ProducerFence.FENCED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """`left`, ids of steps in order, and `broken` are what the facts say now; `facts` None: the run is over."""

    record: FailoverRun
    left: tuple[str, ...]
    facts: Facts | None
    age_ms: int
    broken: tuple[Breach, ...] = ()
    reversal: PendingReversal | None = None
    """Of the last run: the reversal after it, or another one, that is left to be completed."""


def runs(clusters: OpenMirror, command: CommandContext) -> tuple[RunSeen, ...]:
    """All runs of a mirror, the latest last."""
    observer = Observer(clusters=clusters, context=command)
    view = observer.view()
    found = sorted(view.failovers(clusters.spec.mirror), key=lambda run: run.started_at)
    seen = tuple(_seen(record, observer, command) for record in found)
    left = pending_reversal(view, clusters.spec.mirror)
    return (*seen[:-1], replace(seen[-1], reversal=left)) if seen and left is not None else seen


def _seen(record: FailoverRun, observer: Observer, command: CommandContext) -> RunSeen:
    approved_plan = ApprovedPlan.read(record.plan_json)
    age = max(0, command.clock.now() - record.at)
    if record.status is not RunStatus.RUNNING:
        return RunSeen(record=record, left=() if record.status is RunStatus.DONE else STEP_IDS, facts=None, age_ms=age)
    intent = approved_plan.intent
    facts = observer.look_for(intent, record.plan)
    left = ROUTE.left(intent, facts)
    return RunSeen(record=record, left=left, facts=facts, age_ms=age, broken=check_invariants(facts))


def record(clusters: OpenMirror, plan: str, command: CommandContext) -> FailoverRun | None:
    """What is on record of the run of `plan`; None: it never began."""
    observer = Observer(clusters=clusters, context=command)
    return observer.view().failover(clusters.spec.mirror, plan)
