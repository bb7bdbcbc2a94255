"""`tanist mirrors add|pause|resume`: desired states of topics. All problems are reported at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.detached import (
    attach,
    detached_elsewhere,
    detached_here,
    detached_topics,
    forgotten,
    refusal,
)
from tanist.domain.errors import Misconfigured, Refused, TanistError, TopicAlreadyInMirror, TopicNotInMirror
from tanist.domain.mapped_settings import ADOPT, ONLY_MAPPED, must_be_identical
from tanist.domain.names import mirror_name
from tanist.domain.owners import Owners
from tanist.domain.problems import ProblemCollector, refuse
from tanist.domain.records import TopicDesired
from tanist.domain.selection import Selection, pattern_problems
from tanist.domain.state_record import Tombstone
from tanist.domain.state_view import StateView
from tanist.domain.states import DesiredState, MirrorState
from tanist.usecases import snapshot
from tanist.usecases.lock import changing
from tanist.usecases.mirror import identify, same_as_pinned, spec_at
from tanist.usecases.mirrors import forget, take, writers
from tanist.usecases.mirrors.adopting import Adoption
from tanist.usecases.mirrors.observe import promotion_epochs_on_add, raised_promotions
from tanist.usecases.mirrors.starts import behind_records, with_source_starts
from tanist.usecases.snapshot import MirrorSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import MirrorSpec, PartitionObserved
    from tanist.domain.state_record import StateRecord
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.logs import LogPrefixes
    from tanist.usecases.command import CommandContext
    from tanist.usecases.lock import LockedMirror, Rehearsal
    from tanist.usecases.mirrors.take import TopicPlan


class MirrorTopicAlreadyPaused(Refused):
    name = "MIRROR_TOPIC_ALREADY_PAUSED"
    operator_action = "`tanist mirrors resume` starts it again"


class MirrorTopicNotPaused(Refused):
    name = "MIRROR_TOPIC_NOT_PAUSED"
    operator_action = "see `tanist mirrors describe`"


def must_be_free(view: StateView, mirror: MirrorName, topics: Iterable[str]) -> None:
    """Raises TopicAlreadyInMirror where another mirror has one of `topics`, whoever copies it, or has detached it."""
    others = Owners.besides(view, mirror)
    for topic in topics:
        if owner := others.of(topic):
            raise TopicAlreadyInMirror(f"{topic!r} belongs to {owner} by now")


def take_in(
    append: Callable[[Sequence[StateRecord]], StateView],
    before: StateView,
    mirror: MirrorName,
    records: Sequence[StateRecord],
) -> None:
    """Write `records`, and undo that if another mirror has added one of their topics at the same time.

    If two mirrors write at the same time, the later one withdraws, or both do; never none. `append` returns a view that
    contains what it has written.

    Raises:
        TopicAlreadyInMirror: the records are restored to those of `before`.
    """
    topics = [each.topic for each in records if isinstance(each, TopicDesired)]
    must_be_free(before, mirror, topics)
    after = append(records)
    try:
        must_be_free(after, mirror, topics)
    except TopicAlreadyInMirror:
        append([before.get(each.key) or Tombstone(each.key) for each in records])
        raise


_MOST_NAMED: Final = 5
_PORTION: Final = 50
"""Topics that are created at a time: in far less time than after which a silent holder of the lock counts as dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What was written, or would be in a dry run. `failed`: partitions whose logs are compared again.

    `continued`: of topics that were detached and go on where they stopped, the end of each partition of the copy.
    """

    spec: MirrorSpec
    topics: tuple[TopicDesired, ...]
    warnings: tuple[str, ...] = ()
    failed: tuple[PartitionObserved, ...] = ()
    continued: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def checked(mirror: str, topics: Selection) -> MirrorName:
    """The mirror's name, after the command line was checked."""
    found = ProblemCollector(pattern_problems((*topics.include, *topics.exclude)))
    name = found.attempt(lambda: mirror_name(mirror))
    if not topics.include:
        found.problems.append(Misconfigured("no topic is selected: give --topic REGEX"))
    found.raise_all()
    return name or mirror_name(mirror)


# ── pause and resume ──────────────────────────────────────────────────────────────────────────────────────────────


Change = Callable[[TopicDesired, StateView], TopicDesired | TanistError]
"""The new desired state of a topic, or why it cannot change."""


def paused(topic: TopicDesired, _view: StateView) -> TopicDesired | TanistError:
    """`topic` with the desired state PAUSED."""
    if topic.desired is DesiredState.PAUSED:
        return MirrorTopicAlreadyPaused(f"{topic.topic!r} of mirror {topic.mirror!r} is paused already")
    return replace(topic, desired=DesiredState.PAUSED)


def resumed(topic: TopicDesired, view: StateView) -> TopicDesired | TanistError:
    """`topic` with the desired state MIRRORING, and a request for its FAILED partitions, see row 904."""
    failed = failed_partitions(topic, view)
    if topic.desired is not DesiredState.PAUSED and not failed:
        return MirrorTopicNotPaused(
            f"{topic.topic!r} of mirror {topic.mirror!r} is not paused, and no partition of it is FAILED"
        )
    resumes = topic.resumes + (1 if failed else 0)
    return replace(topic, desired=DesiredState.MIRRORING, restored=False, resumes=resumes)


def failed_partitions(topic: TopicDesired, view: StateView) -> tuple[PartitionObserved, ...]:
    """The partitions of a topic that are FAILED."""
    seen = (view.observed(topic.mirror, at) for at in topic.all_partitions())
    return tuple(each for each in seen if each is not None and each.state is MirrorState.FAILED)


def decide(
    view: StateView,
    mirror: MirrorName,
    topics: Selection,
    change: Change,
    now: EpochMs,
) -> tuple[TopicDesired, ...]:
    """The new desired states of all `topics` of `mirror`.

    Raises:
        Problems, or the single error: for each topic that cannot change, and each expression without a topic.
    """
    known = {topic.topic: topic for topic in view.mirrored(mirror)}
    problems: list[TanistError] = [
        TopicNotInMirror(f"{text!r} matches no topic of mirror {mirror!r}: {_some(known)}")
        for text in topics.unmatched(known)
    ]
    answers = [change(known[name], view) for name in topics.of(known)]
    problems += [answer for answer in answers if isinstance(answer, TanistError)]
    if problems:
        refuse(problems)
    return tuple(replace(answer, changed_at=now) for answer in answers if isinstance(answer, TopicDesired))


def _some(names: Sequence[str] | dict[str, TopicDesired]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    return f"it has {', '.join(shown[:_MOST_NAMED])}{more}" if shown else "it has none"


def set_desired(
    mirror: str,
    topics: Selection,
    change: Change,
    destination: Cluster,
    context: CommandContext,
) -> Desired:
    """Pause or resume (`change`) topics of a mirror; changes nothing if any of them cannot."""
    name = checked(mirror, topics)
    (cluster_id,) = identify((destination,), context)
    operation = "mirrors pause" if change is paused else "mirrors resume"

    def decided(view: StateView) -> tuple[TopicDesired, ...]:
        return decide(view, name, topics, change, context.clock.now())

    with changing(destination, name, operation, context, decided) as mirror_now:
        same_as_pinned(mirror_now.spec, None, cluster_id)
        view = mirror_now.view()
        desired = decided(view)
        failed = tuple(each for topic in desired for each in failed_partitions(topic, view))
        context.announce([topic.topic for topic in desired])
        mirror_now.append(desired)
    return Desired(spec=mirror_now.spec, topics=desired, failed=() if change is paused else failed)


# ── add ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Topics that are added although there is a reason against it.

    `promoted`: those that were failed over from this source to another cluster. `adopt`: those that have records at the
    destination. `into_existing`: with mapped offsets, those that have records of others. `prefixes`: of a mirror, it
    compares the logs of both clusters, of topics that are adopted and of detached ones; None: those that have records
    are refused.
    """

    promoted: bool = False
    adopt: bool = False
    into_existing: bool = False
    prefixes: Callable[[MirrorSpec], LogPrefixes] | None = None


def add(
    mirror: str,
    topics: Selection,
    destination: Cluster,
    connect: Callable[[str], Cluster],
    context: CommandContext,
    accepted: Accepted = Accepted(),
) -> Desired:
    """Add topics of the source to a mirror. `connect` opens the source by the name that the spec gives.

    Raises, besides what the clusters do, all that speaks against it; TopicIsDetached: its copy is at the source.
    """
    name = checked(mirror, topics)
    spec = spec_at(destination, name, context)
    if accepted.adopt:
        must_be_identical(spec, ADOPT)
    if accepted.into_existing and not spec.is_mapped:
        raise Misconfigured(ONLY_MAPPED.format("--into-existing"))
    source = connect(spec.source)
    (source_id,) = identify((source,), context)
    same_as_pinned(spec, source_id, None)

    def examined(view: StateView) -> tuple[tuple[TopicPlan, ...], Mapping[str, int]]:
        both = MirrorSnapshot.of(snapshot.still(view, spec), source, destination)
        plans = _examine(both, topics, view, accepted, context.by)
        return plans, promotion_epochs_on_add(
            both.reachable_source(), view, name, [p.name for p in plans], context.by, acknowledged=accepted.promoted
        )

    with changing(destination, name, "mirrors add", context, examined) as mirror_now:
        view, now = mirror_now.view(), mirror_now.spec
        plans, entered = examined(view)
        bare, back = _returned([p.desired(now, entered[p.name], context.clock.now()) for p in plans], view, now)
        if not now.deny_writers and any(each.denied for each in bare):  # altered while they were detached
            writers.must_be_permitted(destination, context.by)
        desired, writable = writers.with_denied(bare, now, view, destination, context.by)
        context.announce([topic.topic for topic in desired])
        if not context.dry_run:
            _forget_earlier_maps(view, plans, destination, mirror_now)
            _apply(plans, (*desired, *back, *raised_promotions(view, now, entered)), destination, mirror_now, view)
            mirror_now.confirm()
            if now.deny_writers:
                writers.deny(desired, destination, context.by)
            else:
                desired = writers.allow_again(desired, mirror_now, destination)
    dropped = (warning for plan in plans for warning in plan.warnings)
    continued = {plan.name: plan.copy_starts for plan in plans if plan.continues}
    anew = sorted(
        {plan.name for plan in plans} & {each.topic for each in detached_topics(view, name)} - continued.keys()
    )
    gone = (f"{topic} was detached, and its copy is empty or gone: it is copied from its start" for topic in anew)
    still = (
        f"{each.topic} was paused before it was detached, and is paused again: `tanist mirrors resume`"
        for each in desired
        if each.desired is DesiredState.PAUSED
    )
    return Desired(spec=now, topics=desired, warnings=(*writable, *dropped, *gone, *still), continued=continued)


def _returned(
    desired: Sequence[TopicDesired], view: StateView, spec: MirrorSpec
) -> tuple[list[TopicDesired], list[StateRecord]]:
    """`desired`, of which those that were detached come back; and what is written with them."""
    here, names = detached_here(view, spec), {each.topic for each in desired}
    topics, records = [], list(forgotten(e for e in detached_topics(view, spec.mirror) if e.topic in names))
    for new in desired:
        topic, states = attach(here[new.topic], new, spec) if new.topic in here else (new, ())
        topics.append(topic)
        records += states
    return topics, records


def _forget_earlier_maps(
    view: StateView, plans: Sequence[TopicPlan], destination: Cluster, mirror_now: LockedMirror | Rehearsal
) -> None:
    """Delete offset maps of topics that were in the mirror before, once it is clear that they can be added.

    A detached topic that goes on where it stopped keeps its own.
    """
    mirror = mirror_now.spec.mirror
    gone = {each.topic for each in view.removed(mirror)} | {each.topic for each in detached_topics(view, mirror)}
    gone -= {plan.name for plan in plans if plan.continues}
    if back := [plan.name for plan in plans if plan.name in gone]:
        mirror_now.confirm()
        forget.runs(destination, mirror_now, back)


def _examine(
    both: MirrorSnapshot, topics: Selection, view: StateView, accepted: Accepted, by: Deadline
) -> tuple[TopicPlan, ...]:
    spec, source, destination = both.spec, both.reachable_source(), both.destination
    prefixes = accepted.prefixes(spec) if accepted.prefixes and not spec.is_mapped else None
    apart = detached_here(view, spec) if prefixes else {}
    situation = take.situation(
        destination, view, spec, by, adopting=accepted.adopt, detached={n: e.kept for n, e in apart.items()}
    )
    given_up = frozenset(detached_here(view, spec)) if spec.is_mapped else frozenset()
    situation = replace(situation, into_existing=accepted.into_existing, given_up=given_up)
    names = take.selection_names(source, Selection(topics.include, (*topics.exclude, *spec.exclude)), by, spec.names)
    copies = [spec.names.mirrored_topic(name) for name in names]
    taken = [TopicAlreadyInMirror(f"{n!r} is in {owner}") for n in copies if (owner := situation.owners.of(n))]
    away = detached_elsewhere(view, spec)
    problems = (*taken, *(refusal(away[n], spec) for n in copies if n in away))
    if problems:
        refuse(problems)
    adoption = Adoption.of(spec, view, source, prefixes, by) if prefixes else None
    plans = take.examine(source, destination, names, situation, by, adoption)
    if accepted.into_existing:
        plans = behind_records(plans, destination, by)
    return with_source_starts(plans, spec, source, by)


def _apply(
    plans: Sequence[TopicPlan],
    records: Sequence[StateRecord],
    destination: Cluster,
    mirror_now: LockedMirror | Rehearsal,
    before: StateView,
) -> None:
    """Confirms the lock between portions, so that a long command does not count as dead."""
    try:
        for first in range(0, len(plans), _PORTION):
            mirror_now.confirm()
            take.make(destination, plans[first : first + _PORTION], mirror_now.command.by)
        take_in(mirror_now.append, before, mirror_now.spec.mirror, records)
    except TopicAlreadyInMirror:
        raise
    except TanistError as error:
        raise take.partial(error) from error
