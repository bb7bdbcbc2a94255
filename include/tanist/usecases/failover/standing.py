"""What `tanist status` says of the failovers of the past; what does not answer is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import AnotherCluster, TanistError
from tanist.domain.failover.health import (
    barrier_check,
    fences_check,
    left_behind_check,
    openings_check,
    promoted_check,
    runs_check,
)
from tanist.domain.failover.plan import NOT_SHUT_OUT, plan_of
from tanist.domain.logins import logins_of, principals
from tanist.domain.promotions import promoted_twice, recreated, still_promoted
from tanist.domain.records import RunStatus
from tanist.ports.clock import Deadline
from tanist.ports.producer_fencing import Kept, ProducerFence
from tanist.usecases.failover.answers import attempt
from tanist.usecases.failover.context import SOURCE_SECONDS
from tanist.usecases.failover.left_behind import left_behind
from tanist.usecases.failover.source_fences import look_at_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.checks import Check
    from tanist.domain.fences import FencedTopic
    from tanist.domain.names import TopicPartition
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.opening import Opening
    from tanist.ports.producer_fencing import ProducerFencing
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.context import FailoverContext
    from tanist.usecases.readers import Silence


def checks(clusters: FailoverContext, view: StateView, silence: Silence, context: CommandContext) -> tuple[Check, ...]:
    """Do they still hold? None of this stops a failover of other topics. A source that is silent is not asked again."""
    spec, fencing, opening = clusters.spec, clusters.destination.producer_fencing, clusters.destination.opening
    left = view.removed(spec.mirror)
    ids = _topic_ids(clusters, [topic.topic for topic in left], context) if left else {}
    known = {} if isinstance(ids, TanistError) else ids
    promoted = still_promoted(view, spec.mirror, known)
    taken = [at for topic in promoted for at in topic.all_partitions()]
    gone = ids if isinstance(ids, TanistError) else recreated(view, spec.mirror, ids)
    return (
        promoted_check(gone, promoted_twice(view, spec.mirror, known), len(left)),
        left_behind_check(_left_behind(clusters, view, silence, context) if left else {}),
        barrier_check(_producers_fenced(spec, taken, fencing, context), _bare(spec, taken, fencing, context)),
        openings_check(*_shut_out(spec, view, promoted, opening, context)),
        fences_check(*_fences(clusters, view, silence, context), frozenset(each.topic for each in left)),
        runs_check(view.failovers(spec.mirror)),
    )


def _topic_ids(
    clusters: FailoverContext, names: Sequence[str], context: CommandContext
) -> Mapping[str, str] | TanistError:
    return attempt(lambda: clusters.destination.replicas.cluster(names, context.by).topic_ids)


def _left_behind(
    clusters: FailoverContext, view: StateView, silence: Silence, context: CommandContext
) -> dict[TopicPartition, int | TanistError] | TanistError:
    source = clusters.source
    if isinstance(source, TanistError):
        return source
    if (why := silence.of(source.name)) is not None:
        return why
    by = Deadline(min(context.by.at, context.clock.deadline(SOURCE_SECONDS).at))
    found = attempt(lambda: left_behind(clusters.spec, view, source.logs, source.replicas, by))
    if isinstance(found, TanistError) and not isinstance(found, AnotherCluster):
        silence.keep(source.name, found)
    return found


def _fences(
    clusters: FailoverContext, view: StateView, silence: Silence, context: CommandContext
) -> tuple[tuple[FencedTopic, ...], Mapping[str, bool | None]]:
    """The fences of this mirror's source, recorded or not, and what the source says of each, as far as it answers."""
    mirror = clusters.spec.mirror
    source, held = clusters.source, view.source_fences(mirror)
    if isinstance(source, TanistError) or silence.of(source.name) is not None:
        return held, {}
    by = Deadline(min(context.by.at, context.clock.deadline(SOURCE_SECONDS).at))
    seen = attempt(lambda: look_at_all(source.fencing, view, mirror, by))
    if isinstance(seen, TanistError):
        return held, {}
    return (*held, *seen.unrecorded.values()), seen.known()


def _producers_fenced(
    spec: MirrorSpec, partitions: list[TopicPartition], fencing: ProducerFencing, context: CommandContext
) -> dict[TopicPartition, bool | TanistError]:
    writers = dict.fromkeys(partitions, spec.producer_ids)
    answers = attempt(lambda: fencing.proof(writers, context.by)) if partitions else {}
    if isinstance(answers, TanistError):
        return dict.fromkeys(partitions, answers)
    return {at: _stands(answers[at]) for at in partitions}


def _bare(
    spec: MirrorSpec, partitions: list[TopicPartition], fencing: ProducerFencing, context: CommandContext
) -> dict[TopicPartition, bool | TanistError]:
    """Of partitions whose topic is compacted: whether nothing but a marker is their barrier."""
    topics = {at.topic for at in partitions}
    policies = attempt(lambda: fencing.compacted(topics, context.by)) if topics else {}
    if isinstance(policies, TanistError):
        return dict.fromkeys(partitions, policies)
    found: dict[TopicPartition, bool | TanistError] = {}
    found |= {at: why for at in partitions if isinstance(why := policies[at.topic], TanistError)}
    writers = spec.producer_ids
    asked = {at: writers for at in partitions if policies[at.topic] is True}
    answers = attempt(lambda: fencing.kept(asked, context.by)) if asked else {}
    if isinstance(answers, TanistError):
        return found | dict.fromkeys(asked, answers)
    bare = {at: kept if isinstance(kept, TanistError) else kept is Kept.BARE for at, kept in answers.items()}
    return found | bare


def _shut_out(
    spec: MirrorSpec, view: StateView, promoted: Sequence[TopicDesired], opening: Opening, context: CommandContext
) -> tuple[Mapping[str, bool | TanistError], frozenset[str]]:
    """Of topics that took over with the mirror shut out: whether it still is. And its logins, as workers tell them."""
    done = [each for each in view.failovers(spec.mirror) if each.status is RunStatus.DONE]
    plans = [plan for each in done if (plan := plan_of(each)) and NOT_SHUT_OUT not in plan.limitations]
    proved = {topic for plan in plans for topic in plan.intent.names}
    names = [topic.topic for topic in promoted if topic.topic in proved]
    reported = logins_of(view.workers())
    logins = principals(reported)
    guarded = attempt(lambda: opening.has_authorizer(context.by)) if names and logins else False
    if guarded is not True:
        return {} if guarded is False else dict.fromkeys(names, guarded), logins
    if any(login.unbound for login in reported):
        return dict.fromkeys(names, False), logins
    answers = attempt(lambda: opening.shut_out(names, context.by, logins))
    return (dict.fromkeys(names, answers) if isinstance(answers, TanistError) else answers), logins


def _stands(answer: ProducerFence | TanistError) -> bool | TanistError:
    return answer if isinstance(answer, TanistError) else answer is ProducerFence.FENCED
