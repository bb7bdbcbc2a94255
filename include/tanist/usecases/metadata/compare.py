"""Differences of metadata between source and mirror: read both clusters, then the state; decide each topic alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tanist.domain import metadata
from tanist.domain.detached import detached_topics, explained
from tanist.domain.errors import MirrorProducerFenced, TanistError, TopicNotInMirror
from tanist.domain.growth import new_topics
from tanist.domain.metadata import (
    MIRROR_WIDE,
    Change,
    Copy,
    Decision,
    Kind,
    MayFollow,
    MetadataRow,
    MetadataRules,
    Outcome,
)
from tanist.domain.names import mirror_name
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.problems import ProblemCollector, exit_code
from tanist.domain.promotions import copy_blocked_reason
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.selection import EVERYTHING, Selection, pattern_problems
from tanist.domain.state_view import NOTHING_YET
from tanist.domain.states import DesiredState
from tanist.usecases import snapshot
from tanist.usecases.lock import ensure_unlocked
from tanist.usecases.metadata.denying import denied_writers
from tanist.usecases.metadata.synced import SYNCED, MetadataLook
from tanist.usecases.mirror import same_as_pinned, spec_at
from tanist.usecases.mirrors import take
from tanist.usecases.mirrors.observe import promotion_epochs_on_add, read_promotions
from tanist.usecases.snapshot import MirrorSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.metadata.synced import Seen
    from tanist.usecases.mirrors.take import Situation, TopicPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """Which topics of which mirror: regular expressions that match whole names.

    `reset`: remove configs, too, that somebody has set on a mirror topic alone.
    """

    mirror: str
    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    reset: bool = False

    @property
    def whole(self) -> bool:
        """Whether it is about all topics, and about what belongs to none."""
        return self.include == EVERYTHING and not self.exclude


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataComparison:
    """One decision for each topic that was compared, by name."""

    spec: MirrorSpec
    decisions: tuple[Decision, ...]

    @property
    def due(self) -> dict[str, Decision]:
        """The changes to make, by topic."""
        return {decision.topic: decision for decision in self.decisions if decision.due}

    @property
    def rows(self) -> tuple[MetadataRow, ...]:
        return tuple(row for decision in self.decisions for row in decision.rows)


def diff(
    request: MetadataRequest, destination: Cluster, connect: Callable[[str], Cluster], context: CommandContext
) -> MetadataComparison:
    """The changes that `sync` would make. Changes nothing.

    Raises:
        MirrorLocked: a failover is under way. AnotherCluster, UnknownMirror, TopicNotInMirror.
        A cluster's error if it cannot be queried at all; an error of a single topic is a row.
    """
    return comparing(request, destination, connect, context)(None)


def comparing(
    request: MetadataRequest, destination: Cluster, connect: Callable[[str], Cluster], context: CommandContext
) -> Callable[[Collection[str] | None], MetadataComparison]:
    """A function that compares all requested topics (None) or some of them, any number of times.

    The result holds for the time of the call: compare again under the lock before acting on it. That call also raises
    UnknownMirror if the mirror was deleted and created again meanwhile.
    """
    name = _checked(request)
    spec = spec_at(destination, name, context)
    source = connect(spec.source)

    def compare(only: Collection[str] | None) -> MetadataComparison:
        view = destination.state(STATE_TOPIC, context.by)
        both = MirrorSnapshot.of(snapshot.still(view, spec), source, destination)
        return _compare(request, both, view, context, only)

    return compare


def _checked(request: MetadataRequest) -> MirrorName:
    found = ProblemCollector(pattern_problems((*request.include, *request.exclude)))
    found.attempt(lambda: mirror_name(request.mirror))
    found.raise_all()
    return mirror_name(request.mirror)


def _compare(
    request: MetadataRequest,
    both: MirrorSnapshot,
    view: StateView,
    context: CommandContext,
    only: Collection[str] | None,
) -> MetadataComparison:
    spec, at_source = both.spec, both.reachable_source()
    ensure_unlocked(view, spec.mirror)
    source_id = at_source.cluster_id(context.first_contact())
    same_as_pinned(spec, source_id, None)
    names = at_source.topic_names(context.by)
    chosen = None if only is None or MIRROR_WIDE in only else only
    inside, outside, apart = (
        tuple(name for name in some if chosen is None or name in chosen) for some in _names(request, spec, view, names)
    )
    reported = read_promotions(at_source, context.by)
    look = MetadataLook(both=both, names=inside, by=context.by, whole=chosen is None and request.whole)
    seen = look.seen()
    found = {synced.kind: synced.read(look) for synced in SYNCED}
    # The record is read after the source: a fence that shows in what was read has its run on record by now.
    view = both.destination.cluster.state(STATE_TOPIC, context.by)
    ensure_unlocked(view, spec.mirror)
    situation = take.situation(both.destination, view, spec, context.by)
    rules = _rules(both, view, situation, lost=any(copy is None for _, copy in seen.values()), context=context)
    rules = replace(rules, reset=request.reset)
    decisions = [
        *_of_mirror((view, reported), spec, seen, found, rules),
        *_outside(both, outside, view, situation, context),
        *(
            metadata.left(each.topic, Outcome.SKIPPED, explained(each, spec))
            for each in detached_topics(view, spec.mirror)
            if each.topic in apart
        ),
    ]
    if spec.deny_writers:
        decisions = denied_writers(decisions, view, spec.mirror, both.destination, context.by)
    return MetadataComparison(spec=spec, decisions=tuple(sorted(decisions, key=lambda each: each.topic)))


def _names(
    request: MetadataRequest, spec: MirrorSpec, view: StateView, at_source: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Topics of the mirror, those that its filters match at the source but that are not in it, and detached topics.

    All by the names of their copies.
    """
    chosen = Selection(request.include, request.exclude)
    inside = chosen.of(each.topic for each in view.topics(spec.mirror))
    outside = chosen.of(map(spec.names.mirrored_topic, new_topics(spec, at_source, view)))
    apart = chosen.of(each.topic for each in detached_topics(view, spec.mirror))
    if request.include != EVERYTHING and not inside and not outside and not apart:
        raise TopicNotInMirror(f"{', '.join(request.include)} matches no topic of mirror {spec.mirror!r}")
    return inside, outside, apart


def _rules(
    both: MirrorSnapshot, view: StateView, situation: Situation, *, lost: bool, context: CommandContext
) -> MetadataRules:
    runs = both.destination.state(OFFSETS_TOPIC, context.by) if lost else NOTHING_YET
    return MetadataRules(
        known=situation.known_configs,
        replication_factor=both.spec.replication_factor,
        holes=both.spec.holes,
        is_mapped=both.spec.is_mapped,
        fences={both.spec.names.mirrored_topic(each.topic): each for each in view.source_fences(both.spec.mirror)},
        mapped=frozenset(at.topic for at in OffsetPolicy.of(runs, both.spec).with_ranges),
        excluded=both.spec.config_exclude,
    )


def _of_mirror(
    views: tuple[StateView, StateView],
    spec: MirrorSpec,
    seen: Mapping[str, tuple[Seen, Seen]],
    found: Mapping[Kind, Any],
    rules: MetadataRules,
) -> Iterator[Decision]:
    """`views`: of the state topics of destination and source. `found`: what each kind has read."""
    view, reported = views
    topics: dict[str, TopicDesired] = {}
    for topic in view.topics(spec.mirror):
        name = topic.topic
        if name not in seen:
            continue  # not asked for, or taken in while we looked
        bar = copy_blocked_reason(view, reported, spec.mirror, name)
        if isinstance(bar, MirrorProducerFenced):
            yield metadata.left(name, Outcome.SKIPPED, bar.reason)
        elif bar is not None:
            yield metadata.left(name, Outcome.CONFLICT, str(bar))
        elif topic.desired is DesiredState.PAUSED:
            yield metadata.left(name, Outcome.SKIPPED, metadata.PAUSED)
        elif stopped := metadata.blocked(topic, *seen[name], rules):
            yield stopped
        else:
            topics[name] = topic
    mirror = MayFollow(spec=spec, view=view, topics=topics, rules=rules)
    shares = {synced.kind: synced.decide(mirror, found[synced.kind]) for synced in SYNCED}
    for name, topic in topics.items():
        yield metadata.decided(topic, {kind: each[name] for kind, each in shares.items() if name in each})
    if wide := {kind: each[MIRROR_WIDE] for kind, each in shares.items() if MIRROR_WIDE in each}:
        yield metadata.mirror_wide(wide)


# ── topics of the source that the mirror's filters match, and that are not in it ──────────────────────────────────


def _outside(
    both: MirrorSnapshot, names: Sequence[str], view: StateView, situation: Situation, context: CommandContext
) -> Iterator[Decision]:
    source = both.reachable_source()
    for name in names:
        if owner := situation.owners.of(name):
            yield metadata.left(name, Outcome.SKIPPED, f"it is in {owner}")
            continue
        try:
            there = both.spec.names.topic_at_source(name)
            (plan,) = take.examine(source, both.destination, [there], situation, context.by)
            entered = promotion_epochs_on_add(source, view, both.spec.mirror, [name], context.by, acknowledged=False)
        except TanistError as error:
            certain = exit_code(error) in {1, 2}
            yield metadata.left(name, Outcome.CONFLICT if certain else Outcome.UNKNOWN, str(error))
        else:
            yield _addition(plan, both.spec, entered[name], context.clock.now())


def _addition(plan: TopicPlan, spec: MirrorSpec, promotion_epoch: int, now: EpochMs) -> Decision:
    new = plan.new_topic()
    row = MetadataRow(
        topic=plan.name,
        kind=Kind.TOPIC,
        name=plan.name,
        change=Change.ADD,
        source=f"{new.partitions} partition(s)",
        destination="empty" if plan.exists else None,
        reason="not in the mirror, but matched by its filters",
    )
    copy = Copy(partitions=new.partitions, replication_factor=new.replication_factor, configs=new.configs)
    return Decision(
        topic=plan.name,
        rows=(row,),
        changes=({} if plan.exists else {Kind.TOPIC: copy}) | {Kind.CONFIG: plan.changes},
        wanted=plan.desired(spec, promotion_epoch, now),
    )
