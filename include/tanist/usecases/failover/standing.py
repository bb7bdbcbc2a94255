"""What `tanist status` says of the failovers of the past; what does not answer is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import AnotherCluster, TanistError
from tanist.domain.failover.health import (
    barrier_check,
    fences_check,
    left_behind_check,
    openings_check,
    runs_check,
)
from tanist.domain.failover.plan import NOT_SHUT_OUT, plan_of
from tanist.domain.logins import logins_of, principals
from tanist.domain.records import RunStatus
from tanist.domain.states import Wish
from tanist.ports.clock import Deadline
from tanist.ports.sealing import Barrier, Kept
from tanist.usecases.failover import source_fences
from tanist.usecases.failover.clusters import SOURCE_SECONDS, Source
from tanist.usecases.failover.left_behind import left_behind, taken_over
from tanist.usecases.failover.observe import attempt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.checks import Check
    from tanist.domain.fences import FencedTopic
    from tanist.domain.names import TopicPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.opening import Opening
    from tanist.ports.sealing import Sealing
    from tanist.usecases.failover.clusters import Clusters
    from tanist.usecases.readers import Silence
    from tanist.usecases.sides import Run


def checks(clusters: Clusters, view: StateView, silence: Silence, run: Run) -> tuple[Check, ...]:
    """Do they still hold? None of this stops a failover of other topics. A source that is silent is not asked again."""
    spec, sealing, opening = clusters.spec, clusters.destination.sealing, clusters.destination.opening
    taken = [at for t in taken_over(spec, view) for at in t.all_partitions()]
    return (
        left_behind_check(_left_behind(clusters, view, silence, run) if taken else {}),
        barrier_check(_sealed(spec, taken, sealing, run), _bare(spec, taken, sealing, run)),
        openings_check(*_shut_out(spec, view, opening, run)),
        fences_check(*_fences(clusters, view, silence, run), frozenset(each.topic for each in taken_over(spec, view))),
        runs_check(view.failovers(spec.mirror)),
    )


def _left_behind(
    clusters: Clusters, view: StateView, silence: Silence, run: Run
) -> dict[TopicPartition, int | TanistError] | TanistError:
    source = clusters.source
    if not isinstance(source, Source):
        return source
    if (why := silence.of(source.side.name)) is not None:
        return why
    by = Deadline(min(run.by.at, run.clock.deadline(SOURCE_SECONDS).at))
    found = attempt(lambda: left_behind(clusters.spec, view, source.side.logs, source.replicas, by))
    if isinstance(found, TanistError) and not isinstance(found, AnotherCluster):
        silence.keep(source.side.name, found)
    return found


def _fences(
    clusters: Clusters, view: StateView, silence: Silence, run: Run
) -> tuple[tuple[FencedTopic, ...], Mapping[str, bool | None]]:
    """The fences of this mirror's source, recorded or not, and what the source says of each, as far as it answers."""
    mirror = clusters.spec.mirror
    source, held = clusters.source, view.source_fences(mirror)
    if not isinstance(source, Source) or silence.of(source.side.name) is not None:
        return held, {}
    by = Deadline(min(run.by.at, run.clock.deadline(SOURCE_SECONDS).at))
    others = {each.topic for each in view.topics(mirror)} - {each.topic for each in held}
    seen = attempt(lambda: source_fences.look(source.fencing, held, others, by))
    if isinstance(seen, TanistError):
        return held, {}
    return (*held, *seen.unrecorded.values()), seen.known()


def _sealed(
    spec: MirrorSpec, partitions: list[TopicPartition], sealing: Sealing, run: Run
) -> dict[TopicPartition, bool | TanistError]:
    writers = dict.fromkeys(partitions, spec.producer_ids)
    answers = attempt(lambda: sealing.proof(writers, run.by)) if partitions else {}
    if isinstance(answers, TanistError):
        return dict.fromkeys(partitions, answers)
    return {at: _stands(answers[at]) for at in partitions}


def _bare(
    spec: MirrorSpec, partitions: list[TopicPartition], sealing: Sealing, run: Run
) -> dict[TopicPartition, bool | TanistError]:
    """Of partitions whose topic is compacted: whether nothing but a marker is their barrier."""
    topics = {at.topic for at in partitions}
    policies = attempt(lambda: sealing.compacted(topics, run.by)) if topics else {}
    if isinstance(policies, TanistError):
        return dict.fromkeys(partitions, policies)
    found: dict[TopicPartition, bool | TanistError] = {}
    found |= {at: why for at in partitions if isinstance(why := policies[at.topic], TanistError)}
    writers = spec.producer_ids
    asked = {at: writers for at in partitions if policies[at.topic] is True}
    answers = attempt(lambda: sealing.kept(asked, run.by)) if asked else {}
    if isinstance(answers, TanistError):
        return found | dict.fromkeys(asked, answers)
    bare = {at: kept if isinstance(kept, TanistError) else kept is Kept.BARE for at, kept in answers.items()}
    return found | bare


def _shut_out(
    spec: MirrorSpec, view: StateView, opening: Opening, run: Run
) -> tuple[Mapping[str, bool | TanistError], frozenset[str]]:
    """Of topics that took over with the mirror shut out: whether it still is. And its logins, as workers tell them."""
    done = [each for each in view.failovers(spec.mirror) if each.status is RunStatus.DONE]
    plans = [plan for each in done if (plan := plan_of(each)) and NOT_SHUT_OUT not in plan.limitations]
    proved = {topic for plan in plans for topic in plan.intent.names}
    names = [t.topic for t in view.topics(spec.mirror) if t.wish is Wish.REMOVED and t.topic in proved]
    told = logins_of(view.workers())
    logins = principals(told)
    guarded = attempt(lambda: opening.has_authorizer(run.by)) if names and logins else False
    if guarded is not True:
        return {} if guarded is False else dict.fromkeys(names, guarded), logins
    if any(login.unbound for login in told):
        return dict.fromkeys(names, False), logins
    answers = attempt(lambda: opening.shut_out(names, run.by, logins))
    return (dict.fromkeys(names, answers) if isinstance(answers, TanistError) else answers), logins


def _stands(answer: Barrier | TanistError) -> bool | TanistError:
    return answer if isinstance(answer, TanistError) else answer is Barrier.SEALED
