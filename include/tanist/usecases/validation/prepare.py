"""The inputs of a validation: partitions, their offset maps, and reasons why a partition cannot be validated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.compaction import is_compacted
from tanist.domain.delivery import Delivery
from tanist.domain.errors import (
    ConnectionLost,
    Misconfigured,
    SourceSilent,
    TanistError,
    TimedOut,
    TopicNotInMirror,
    Unreachable,
)
from tanist.domain.exclusive import exclusive_ranges
from tanist.domain.followed import is_followed
from tanist.domain.growth import growth
from tanist.domain.lineage import segments
from tanist.domain.names import MirrorPartition, SourcePartition
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, Engine
from tanist.domain.selection import Selection
from tanist.domain.states import MirrorState
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.domain.validation.job import Level, PartitionRequest
from tanist.usecases.mirror import same_as_pinned
from tanist.usecases.mirrors.describe import reason
from tanist.usecases.mirrors.followed import followed_in
from tanist.usecases.validation.settling import settled_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.exclusive import ExclusiveRange
    from tanist.domain.followed import FollowedTopic
    from tanist.domain.growth import Growth
    from tanist.domain.lineage import Segment
    from tanist.domain.names import MirrorName
    from tanist.domain.offset_map import AnchoredSpan
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror
    from tanist.usecases.snapshot import MirrorSnapshot
    from tanist.usecases.validation.settling import SettledOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRequest:
    """`level` None: the level that is cheap for the mirror's engine. Nothing in `include`: see `chosen`."""

    level: Level | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """Topics of a mirror, the view of the state topic, and partitions that only the source has."""

    view: StateView
    spec: MirrorSpec
    topics: tuple[TopicDesired, ...]
    growth: Growth


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    level: Level
    partitions: tuple[PartitionRequest, ...]


def prepare(clusters: OpenMirror, request: ValidationRequest, context: CommandContext) -> Prepared:
    """What to compare, from the state topics of the mirror. Partitions that only the source has cannot be validated.

    Raises:
        TopicNotInMirror; AnotherCluster: the source leads elsewhere now; Misconfigured: an expression, the source is
        not configured, or batches of a mapped mirror are to be compared; SourceSilent;
        CouldNotTell: the destination does not answer.
    """
    both, spec = clusters.snapshot(), clusters.spec
    if is_followed(spec):
        return _prepare_followed(both, request, context)
    level = request.level or _level(spec)
    if spec.is_mapped and level is Level.BATCHES:
        raise Misconfigured(
            f"--level batches: mirror {spec.mirror!r} has mapped offsets, and its batches are written anew in "
            "transactions of the mirror: compare with --level records"
        )
    found = mirrored(both, Selection(request.include, request.exclude), context)
    offsets = settled_offsets(both, found.view, found.topics, context)
    return Prepared(
        level=level,
        partitions=(
            *(_partition(found, topic, at, offsets) for topic in found.topics for at in topic.all_partitions()),
            *(_uncopied(found, at) for at in found.growth.partitions),
        ),
    )


def _level(spec: MirrorSpec) -> Level:
    return Level.BATCHES if spec.engine is Engine.BATCHES and not spec.is_mapped else Level.RECORDS


def _prepare_followed(both: MirrorSnapshot, request: ValidationRequest, context: CommandContext) -> Prepared:
    """Of topics that somebody else copies: records, at the offsets that an offset map says, else at the same ones.

    Raises as `chosen_followed`. Misconfigured: batches are to be compared, which only Tanist copies.
    """
    spec = both.spec
    if request.level is Level.BATCHES:
        raise Misconfigured(f"--level batches: {spec.copied_by.in_words} writes the records in batches of its own")
    topics = chosen_followed(both, Selection(request.include, request.exclude), context)
    offsets = OffsetPolicy.of(both.destination.state(OFFSETS_TOPIC, context.by), spec)
    return Prepared(
        level=request.level or Level.RECORDS,
        partitions=tuple(request for topic in topics for request in _of_followed(spec, topic, offsets)),
    )


def _of_followed(spec: MirrorSpec, topic: FollowedTopic, offsets: OffsetPolicy) -> Iterator[PartitionRequest]:
    """All partitions of both sides; those that one of them lacks are not equal."""
    other_offsets = (
        f"compared at equal offsets, which {spec.copied_by.in_words} does not promise: `tanist reconcile "
        f"{spec.mirror}` tells which records have no copy at any offset"
    )
    known = frozenset(topic.partitions())
    for n in range(max(topic.at_source or 0, topic.at_destination or 0)):
        at = MirrorPartition(topic.copy, n)
        yield PartitionRequest(
            partition=at,
            at_source=SourcePartition(topic.source, n),
            state=MirrorState.MIRRORING if at in known else MirrorState.UNKNOWN,
            note="" if at in known else topic.why,
            runs=offsets.map_of(at).runs,
            other_offsets="" if at in offsets.with_ranges else other_offsets,
        )


def chosen_followed(both: MirrorSnapshot, selection: Selection, context: CommandContext) -> tuple[FollowedTopic, ...]:
    """The topics that somebody else copies, and that `selection` has by their names at the source; announces them.

    Raises:
        TopicNotInMirror: an expression matches none, or there is none. SourceSilent, or what else its error is: the
        source does not tell its topics.
    """
    found = followed_in(both, context)
    if found.source_down is not None:
        raise _as_silent(found.source_down)
    if not found.topics:
        raise TopicNotInMirror(f"mirror {both.spec.mirror!r} has no topics")
    names = selection.chosen(found.topics, f"topic of mirror {both.spec.mirror!r}")
    context.announce(names)
    return tuple(found.topics[name] for name in names)


def _as_silent(error: TanistError) -> TanistError:
    return SourceSilent(error.reason) if isinstance(error, (Unreachable, TimedOut, ConnectionLost)) else error


def mirrored(both: MirrorSnapshot, selection: Selection, context: CommandContext) -> Mirrored:
    """The topics of a mirror that `selection` has; announces them, then queries the source. Raises as `prepare`."""
    view = both.destination.state(STATE_TOPIC, context.by)
    topics = chosen(view, both.spec.mirror, selection)
    context.announce([topic.topic for topic in topics])
    return Mirrored(view=view, spec=both.spec, topics=topics, growth=_growth(both, topics, context))


def _growth(both: MirrorSnapshot, topics: Sequence[TopicDesired], context: CommandContext) -> Growth:
    """Partitions that only the source has, after its cluster id was checked."""
    source = both.reachable_source()
    try:
        same_as_pinned(both.spec, source.cluster_id(context.first_contact()), None)
        names = both.spec.names
        counts = source.partition_counts([names.topic_at_source(topic.topic) for topic in topics], context.by)
        return growth(topics, counts, names)
    except (Unreachable, TimedOut, ConnectionLost) as silent:
        raise _as_silent(silent) from silent


def chosen(view: StateView, mirror: MirrorName, selection: Selection) -> tuple[TopicDesired, ...]:
    """The topics that were named; otherwise those that are mirrored; otherwise, after a failover, those that were.

    Raises:
        TopicNotInMirror: an expression matches no topic, or the mirror has none.
    """
    every = view.topics(mirror)
    topics = {topic.topic: topic for topic in (every if selection.include else view.mirrored(mirror) or every)}
    if not topics:
        raise TopicNotInMirror(f"mirror {mirror!r} has no topics")
    return tuple(topics[name] for name in selection.chosen(topics, f"topic of mirror {mirror!r}"))


def _partition(found: Mirrored, topic: TopicDesired, at: MirrorPartition, offsets: SettledOffsets) -> PartitionRequest:
    observed = found.view.observed(topic.mirror, at)
    reserve = _reserve(found.view, topic, at)
    places = offsets.policy.map_of(at)
    return PartitionRequest(
        partition=at,
        at_source=found.spec.names.at_source(at),
        state=observed.state if observed else MirrorState.UNKNOWN,
        note=reason(observed),
        promoted=found.view.promoted(topic.mirror, topic.topic),
        runs=places.runs,
        until=places.until,
        source_end=offsets.ends.get(at),
        unread=places.unread,
        may_repeat=found.spec.is_mapped and found.spec.delivery is Delivery.AT_LEAST_ONCE,
        unknown_growth=found.growth.trouble(topic.topic),
        compacted=is_compacted(dict(topic.deferred_configs).get(CLEANUP_POLICY, "")),
        old_end=reserve.start if reserve else None,
        reserve_end=reserve.end if reserve else None,
        copy_start=topic.copy_start(at.partition),
        source_start=topic.source_start(at.partition),
        exclusive=tuple(_exclusive(found, topic, at, offsets.policy)),
        other_offsets=_not_in_detail(places.why_not),
    )


def _not_in_detail(why_not: Mapping[AnchoredSpan, str]) -> str:
    """Why it is not known of some source offsets where they are in the copy; empty: it is of all."""
    first = min(why_not, key=lambda span: span.start, default=None)
    if first is None:
        return ""
    where = f"from source offset {first.start.source} up to {first.until.source}"
    return f"compared at offsets that are not known exactly, first {where}: {why_not[first]}"


def _exclusive(
    found: Mirrored, topic: TopicDesired, at: MirrorPartition, offsets: OffsetPolicy
) -> Iterator[ExclusiveRange]:
    promoted, entries = found.view.promoted(topic.mirror, topic.topic), found.view.lineage(topic.mirror, topic.topic)
    return exclusive_ranges(entries, at, found.spec, offsets.map_of(at), promoted=promoted)


def _reserve(view: StateView, topic: TopicDesired, at: MirrorPartition) -> Segment | None:
    """What the last promotion has reserved; None: nothing, or the topic is in the mirror."""
    if not view.promoted(topic.mirror, topic.topic):
        return None
    epoch = view.promotions(topic.mirror, topic.topic)
    found = (each for each in segments(view.lineage(topic.mirror, topic.topic), at) if each.reserved)
    return next((each for each in found if each.promotion_epoch == epoch), None)


def _uncopied(found: Mirrored, there: SourcePartition) -> PartitionRequest:
    at = found.spec.names.mirrored(there)
    promoted = found.view.promoted(found.spec.mirror, at.topic)
    why = "than took over" if promoted else f"than are mirrored: `tanist metadata sync {found.spec.mirror}`"
    note = f"the source has more partitions {why}"
    return PartitionRequest(partition=at, at_source=there, state=MirrorState.UNKNOWN, note=note, promoted=promoted)
