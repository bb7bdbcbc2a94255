"""`tanist mirrors list|describe`: desired and observed states from the state topic, offsets from the clusters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tanist.domain import losses, records
from tanist.domain.circle import locate
from tanist.domain.detached import detached_here, detached_topics, explained
from tanist.domain.errors import AnotherCluster, TanistError
from tanist.domain.followed import is_followed, selected_by
from tanist.domain.growth import Growth, growth
from tanist.domain.lag import KnownEnd, PartitionRow, asked_again, is_loss_accepted, last_known
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, SourceOffset, TopicPartition
from tanist.domain.selection import EVERY_TOPIC
from tanist.domain.states import MIRROR_STATES, DesiredState, MirrorState
from tanist.domain.topic_configs import LOG_APPEND_TIME, TIMESTAMP_TYPE
from tanist.usecases import snapshot
from tanist.usecases.command import Silence
from tanist.usecases.mirror import same_as_pinned
from tanist.usecases.mirrors.followed import followed_in
from tanist.usecases.offset_policy import offset_policy
from tanist.usecases.snapshot import ClusterSnapshot, DestinationSnapshot, MirrorEnds, MirrorSnapshot, SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tanist.domain.detached_record import TopicDetached
    from tanist.domain.duties import DutyRun
    from tanist.domain.followed import FollowedTopic, FollowedTopics
    from tanist.domain.losses import TombstonesMissed
    from tanist.domain.names import MirrorPartition, SourcePartition, TopicNames
    from tanist.domain.offset_policy import OffsetPolicy
    from tanist.domain.records import MirrorSpec, PartitionObserved, TopicDesired
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext

_P = TypeVar("_P", bound=TopicPartition)
_NEVER: Final = EpochMs(0)
_ROWS = {row.number: row for row in MIRROR_STATES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One mirror with offsets of both clusters. `topics`: all that it has. `source_down`: why the source is silent.

    `detached`: all that were detached from it; `detached_rows`: of those whose copies are here, and which are selected.

    `sources`: of a mirror that somebody else copies, its topics by their names at the source, which select them, too.
    `versions`: with which protocol versions records are copied, of source and destination; None: unknown. `duties`: the
    last runs of what workers do for it; `at`: when this was read.
    """

    spec: MirrorSpec
    topics: tuple[str, ...]
    sources: tuple[str, ...] = ()
    rows: tuple[PartitionRow, ...]
    growth: Growth
    detached: tuple[str, ...] = ()
    detached_rows: tuple[PartitionRow, ...] = ()
    source_down: TanistError | None = None
    versions: tuple[Mapping[str, int] | None, Mapping[str, int] | None] = (None, None)
    duties: tuple[DutyRun, ...] = ()
    at: EpochMs = _NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """`topics`: how many are in the mirror. `detached`: those that were taken out of it, whose copies stay closed."""

    spec: MirrorSpec
    topics: int
    detached: tuple[TopicDetached, ...] = ()


def listing(view: StateView) -> tuple[Listed, ...]:
    """All mirrors of a destination, with the number of topics in each, and what was detached."""
    return tuple(
        Listed(spec=spec, topics=len(view.mirrored(spec.mirror)), detached=detached_topics(view, spec.mirror))
        for spec in view.mirrors()
    )


def moved_away(view: StateView) -> dict[str, str]:
    """The mirrors whose destination this cluster was until they were reversed, and the name of the present one."""
    found = {move.mirror: locate(move.mirror, view).forwarding for move in view.moves()}
    return {mirror: move.destination for mirror, move in found.items() if move is not None}


def ask(cluster: ClusterSnapshot[_P] | TanistError, partitions: Sequence[_P], by: Deadline) -> MirrorEnds[_P]:
    """The ends of `partitions`. Never raises: a cluster that does not answer is a fact here."""
    if isinstance(cluster, TanistError):
        return MirrorEnds(down=cluster)
    try:
        return MirrorEnds.of(cluster.ends(partitions, by))
    except TanistError as error:
        return MirrorEnds(down=error)


def ask_versions(cluster: ClusterSnapshot[Any] | TanistError, by: Deadline) -> Mapping[str, int] | None:
    """The protocol versions of a cluster; None: it does not answer."""
    try:
        return None if isinstance(cluster, TanistError) else cluster.cluster.logs.versions(by)
    except TanistError:
        return None


def ask_growth(
    source: SourceSnapshot | TanistError, topics: Sequence[TopicDesired], names_of: TopicNames, by: Deadline
) -> Growth:
    """Partitions of `topics` that only the source has. Never raises."""
    names = [names_of.topic_at_source(topic.topic) for topic in topics]
    try:
        answers = (
            dict.fromkeys(names, source) if isinstance(source, TanistError) else source.partition_counts(names, by)
        )
    except TanistError as error:
        answers = dict.fromkeys(names, error)
    return growth(topics, answers, names_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All inputs of one description."""

    state: StateView
    offsets: StateView
    """Of `__mirror_offsets`."""
    policy: OffsetPolicy
    source: MirrorEnds[SourcePartition]
    destination: MirrorEnds[MirrorPartition]


def assemble(spec: MirrorSpec, topics: Iterable[TopicDesired], seen: Observed) -> tuple[PartitionRow, ...]:
    """One row per partition: pure."""
    known, missed = last_known(seen.state, spec.mirror), seen.offsets.tombstones_missed(spec)
    names = spec.names
    return tuple(
        _row(_Place(topic, partition, names.at_source(partition), stamped), seen, spec, known, missed)
        for topic in topics
        for stamped in (dict(topic.deferred_configs).get(TIMESTAMP_TYPE) == LOG_APPEND_TIME,)
        for partition in topic.all_partitions()
    )


def is_resumed(spec: MirrorSpec, topic: TopicDesired, observed: PartitionObserved) -> bool:
    """Whether a person has resumed a FAILED partition, or accepted its loss, and no worker has followed yet."""
    resumed = observed.state is MirrorState.FAILED and observed.resumes != topic.resumes
    return resumed or is_loss_accepted(spec, observed)


class _Place(NamedTuple):
    """A partition of a mirror. `stamped`: the source's brokers stamp the records of its topic."""

    topic: TopicDesired
    partition: MirrorPartition
    at_source: SourcePartition
    stamped: bool


def _row(
    at: _Place,
    seen: Observed,
    spec: MirrorSpec,
    ends: Mapping[SourcePartition, KnownEnd],
    missed: Mapping[MirrorPartition, TombstonesMissed],
) -> PartitionRow:
    partition, at_source, known = at.partition, at.at_source, ends.get(at.at_source)
    observed = seen.state.observed(spec.mirror, partition)
    live, copy = seen.source.found.get(at_source), seen.destination.found.get(partition)
    return PartitionRow(
        mirror=spec.mirror,
        partition=partition,
        at_source=at_source,
        desired=at.topic.desired,
        state=observed.state if observed else MirrorState.UNKNOWN,
        source=asked_again(known, SourceOffset(live.high_watermark), live.observed_at) if live else known,
        destination_end=DestinationOffset(copy.high_watermark) if copy else None,
        observed=observed,
        map=seen.policy.map_of(partition),
        lost=seen.state.lost(spec.mirror, partition, observed.topic_id if observed else ""),
        source_error=seen.source.error(at_source),
        destination_error=seen.destination.error(partition),
        tombstones_missed=missed.get(partition),
        resume_requested=observed is not None and is_resumed(spec, at.topic, observed),
        log_append_time=at.stamped,
    )


def followed_rows(
    both: MirrorSnapshot, found: FollowedTopics, shown: Iterable[FollowedTopic], context: CommandContext
) -> tuple[PartitionRow, ...]:
    """One row per partition of the topics that are `shown`: where both logs end. Never raises."""
    spec, topics = both.spec, {each.copy: each for each in shown}
    partitions = [at for each in topics.values() for at in each.partitions()]
    there = [spec.names.at_source(at) for at in partitions]
    source = ask(found.source_down or both.source, there, context.first_contact())
    copies = ask(both.destination, partitions, context.by)
    return tuple(_followed_row(spec, topics[at.topic], at, source, copies) for at in partitions)


def _followed_row(
    spec: MirrorSpec,
    topic: FollowedTopic,
    partition: MirrorPartition,
    source: MirrorEnds[SourcePartition],
    destination: MirrorEnds[MirrorPartition],
) -> PartitionRow:
    at_source = spec.names.at_source(partition)
    live, copy = source.found.get(at_source), destination.found.get(partition)
    return PartitionRow(
        mirror=spec.mirror,
        partition=partition,
        desired=DesiredState.MIRRORING,
        state=MirrorState.UNKNOWN,
        source=KnownEnd(SourceOffset(live.high_watermark), live.observed_at) if live else None,
        destination_end=DestinationOffset(copy.high_watermark) if copy else None,
        observed=None,
        source_error=source.error(at_source),
        destination_error=destination.error(partition),
        followed="; ".join(filter(None, (f"copied by {spec.copied_by.in_words}", topic.why))),
        at_source=at_source,
    )


def reason(observed: PartitionObserved | None) -> str:
    """The row of the state machine that led to the state, and the worker's message."""
    if observed is None:
        return "no worker has reported it yet"
    row = _ROWS.get(observed.row)
    parts = [
        f"row {observed.row}" if observed.row else "",
        observed.error or "",
        observed.reason or (row.reason if row else ""),
    ]
    return ": ".join(part for part in parts if part)


def row_reason(row: PartitionRow) -> str:
    """Why a partition is in its state, and what else an operator must know of its copy."""
    missed, lost = row.tombstones_missed, row.lost
    why = {missed.name: f"{missed.name}: {missed.reason}"} if missed is not None else {}
    said = [row.followed or row.detached or reason(row.observed), *(why.get(name, name) for name in row.warnings)]
    said += [row.unread] if row.unread else []
    return "; ".join([*said, losses.describe(lost.ranges, lost.earlier)] if lost is not None else said)


def must_match(topics: Selection, found: Sequence[Described], *, detached: bool = False) -> None:
    """Raises TopicNotInMirror: an expression matches no topic of the mirrors `found`, or all are excluded.

    `detached`: one that was detached will do.
    """
    names = frozenset(
        name for each in found for name in (*each.topics, *each.sources, *(each.detached if detached else ()))
    )
    topics.chosen(names, f"topic of mirror {found[0].spec.mirror!r}" if len(found) == 1 else "topic of any mirror")


@dataclass(slots=True)
class Describer:
    """Describes mirrors of one destination repeatedly; connections stay open.

    `connect` opens the source that a spec names; if it raises, the source is unknown.
    """

    destination: Cluster
    connect: Callable[[str], Cluster]
    selection: Selection = EVERY_TOPIC
    _sources: dict[str, Cluster | TanistError] = field(default_factory=dict)
    _silence: Silence | None = None

    def describe(self, mirror: MirrorName | None, context: CommandContext) -> tuple[Described, ...]:
        """One mirror, or all of them.

        Raises:
            UnknownMirror: no mirror has that name; and the destination's error if it cannot be read.
        """
        first = self._destination()
        first.cluster_id(context.first_contact())
        state = first.state(records.STATE_TOPIC, context.by)
        specs = (snapshot.spec_of(state, mirror, first.name, any_copier=True),) if mirror else state.mirrors()
        destinations = chain((first,), (self._destination() for _ in specs))
        pairs = (
            MirrorSnapshot(spec=spec, source=self._snapshot(spec.source), destination=destination)
            for spec, destination in zip(specs, destinations, strict=False)
        )
        return tuple(self._described(both, context) for both in pairs)

    def _destination(self) -> DestinationSnapshot:
        """Of the destination; nothing has been read."""
        return DestinationSnapshot(cluster=self.destination)

    def _followed(self, both: MirrorSnapshot, context: CommandContext) -> Described:
        """One that somebody else copies: its topics are found now, and nothing is on record of its partitions."""
        spec, source = both.spec, self._source(both, context)
        found = followed_in(replace(both, source=source), context)
        shown = selected_by(self.selection, found)
        seen = followed_rows(replace(both, source=source), found, shown, context)
        return Described(
            spec=spec,
            topics=tuple(sorted(each.copy for each in found.topics.values())),
            sources=tuple(sorted(found.topics)),
            rows=seen,
            growth=Growth(),
            source_down=found.source_down,
            versions=(
                ask_versions(found.source_down or source, context.first_contact()),
                ask_versions(both.destination, context.by),
            ),
            duties=both.destination.state(records.STATE_TOPIC, context.by).duty_runs(spec.mirror),
            at=context.clock.now(),
        )

    def _described(self, both: MirrorSnapshot, context: CommandContext) -> Described:
        if is_followed(both.spec):
            return self._followed(both, context)
        spec, state = both.spec, both.destination.state(records.STATE_TOPIC, context.by)
        every, apart = state.mirrored(spec.mirror), detached_topics(state, spec.mirror)
        here = detached_here(state, spec)
        shown = frozenset(self.selection.among((*(topic.topic for topic in every), *here)))
        topics = tuple(topic for topic in every if topic.topic in shown)
        closed = {name: each for name, each in here.items() if name in shown}
        asked = (*topics, *(each.kept for each in closed.values()))
        partitions = [partition for topic in asked for partition in topic.all_partitions()]
        source = self._source(both, context)
        offsets = both.destination.state(records.OFFSETS_TOPIC, context.by)
        seen = Observed(
            state=state,
            offsets=offsets,
            source=ask(source, [spec.names.at_source(each) for each in partitions], context.first_contact()),
            destination=ask(both.destination, partitions, context.by),
            policy=offset_policy(spec, self.destination, state, offsets, context.by),
        )
        down = seen.source.down
        return Described(
            spec=spec,
            topics=tuple(topic.topic for topic in every),
            rows=assemble(spec, topics, seen),
            detached=tuple(each.topic for each in apart),
            detached_rows=tuple(
                replace(row, detached=explained(closed[row.partition.topic], spec))
                for row in assemble(spec, asked[len(topics) :], seen)
            ),
            growth=ask_growth(down or source, topics, spec.names, context.first_contact()),
            source_down=down,
            versions=(
                ask_versions(down or source, context.first_contact()),
                ask_versions(both.destination, context.by),
            ),
            duties=state.duty_runs(spec.mirror),
            at=context.clock.now(),
        )

    def _source(self, both: MirrorSnapshot, context: CommandContext) -> SourceSnapshot | TanistError:
        """The source whose id the spec pins, or why it cannot be reached."""
        spec, source = both.spec, both.source
        self._silence = self._silence or Silence(context.clock)
        if isinstance(source, TanistError):
            return source
        if (why := self._silence.of(spec.source)) is not None:
            return why
        try:
            cluster_id = source.cluster_id(context.first_contact())
            same_as_pinned(spec, cluster_id, None)
        except AnotherCluster as elsewhere:
            return elsewhere
        except TanistError as error:
            self._silence.keep(spec.source, error)
            return error
        return source

    def _snapshot(self, source: str) -> SourceSnapshot | TanistError:
        """A new snapshot of the source of that name, or why there is no way to it."""
        if source not in self._sources:
            try:
                self._sources[source] = self.connect(source)
            except TanistError as error:
                self._sources[source] = error
        cluster = self._sources[source]
        return cluster if isinstance(cluster, TanistError) else SourceSnapshot(cluster=cluster)
