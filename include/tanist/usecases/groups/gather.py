"""What is known about the groups of a mirror: from `__mirror_groups`, and from the source if it answers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.failover.periodic_health import rewound_groups
from tanist.domain.followed import group_is_followed
from tanist.domain.lag import KnownEnd, last_known
from tanist.domain.lineage import copied_until, primary_until
from tanist.domain.log_ends import Span
from tanist.domain.names import (
    DestinationOffset,
    EpochMs,
    MirrorName,
    MirrorPartition,
    SourceOffset,
    SourcePartition,
    TopicNames,
)
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC, GroupPosition, GroupSyncStatus
from tanist.domain.selection import EVERYTHING, topic_pattern
from tanist.domain.states import MirrorState
from tanist.usecases.groups.places import Places
from tanist.usecases.mirror import same_as_pinned
from tanist.usecases.snapshot import DestinationSnapshot, SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.log_ends import LogEnds
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import GroupFacts, Positions
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which groups and topics: regular expressions for whole names of groups; None: all topics of the mirror.

    `names`: exactly these groups; names are not read as expressions. `strategy`: the name of the one by which all are
    translated; empty: the best of those of the mirror. `every`: ask all of them, also where one is exact.
    `given`: positions that belong to no group, by the name of whatever keeps them: only they are translated, no
    cluster is asked about groups, and `groups` and `names` mean nothing.
    """

    groups: tuple[str, ...] = EVERYTHING
    names: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    strategy: str = ""
    every: bool = False
    ask_source: bool = True
    """False: the source is known to be down, so it is not queried and no timeout is spent on it."""
    given: Mapping[str, Mapping[MirrorPartition, SourceOffset]] | None = None

    @property
    def is_all(self) -> bool:
        """Whether no group and no topic of the mirror is left out."""
        return (self.groups, self.names, self.topics, self.given) == (EVERYTHING, None, None, None)

    def of(self, names: Iterable[str]) -> set[str]:
        """The groups of `names` that are selected."""
        if self.names is not None:
            return set(self.names) & set(names)
        patterns = [topic_pattern(text) for text in self.groups]
        return {name for name in names if any(pattern.fullmatch(name) for pattern in patterns)}


@dataclass(frozen=True, slots=True)
class Views:
    """The views of the state topics of a destination."""

    state: StateView
    offsets: StateView
    groups: StateView


def views(destination: DestinationSnapshot, context: CommandContext) -> Views:
    """All three state topics, read to their ends.

    Raises:
        UnsafeStateTopic, and what the destination answers if it cannot be read.
    """
    return Views(*(destination.state(topic, context.by) for topic in (STATE_TOPIC, OFFSETS_TOPIC, GROUPS_TOPIC)))


@dataclass(frozen=True, slots=True)
class Freshest:
    """A group's latest committed offset at the source; `at`: when it was committed, None if the source was queried."""

    offset: SourceOffset
    at: EpochMs | None
    direct: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """What the source answers now. `down`: why it does not answer; `errors`: by group."""

    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    positions: Mapping[str, Mapping[SourcePartition, SourceOffset]] = field(default_factory=dict)
    errors: Mapping[str, TanistError] = field(default_factory=dict)
    ends: Mapping[SourcePartition, LogEnds | TanistError] = field(default_factory=dict)
    down: TanistError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What is known about the groups of one mirror.

    `partitions`: those that are read. A position may be in another one, of which `copies` has the reason why there is
    no copy. `at_home`: failed-over partitions, by the groups that had a position there. Their offsets are no longer
    translated: what such a group commits at the destination is its position. `primary_until`: where the destination's
    own time as the primary ended, of a mirror that was reversed: up to there its consumers have read nothing that was
    copied.
    """

    spec: MirrorSpec
    partitions: frozenset[MirrorPartition]
    preparing: frozenset[MirrorPartition]
    positions: Mapping[str, Mapping[MirrorPartition, Freshest]]
    kinds: Mapping[str, str]
    copies: Mapping[MirrorPartition, Span[DestinationOffset] | TanistError]
    source_ends: Mapping[MirrorPartition, KnownEnd]
    followed: GroupSyncStatus | None
    source_answer: SourceAnswer
    now: EpochMs
    at_home: Mapping[str, tuple[MirrorPartition, ...]] = field(default_factory=dict)
    primary_until: Mapping[MirrorPartition, int] = field(default_factory=dict)
    rewound: frozenset[str] = frozenset()
    """Groups that the last sync has found set back at the source, and of which a person decides."""
    topic_ids: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By copy that somebody else makes: the ids of the topic at the source and of the copy, where both are known."""

    @property
    def names(self) -> tuple[str, ...]:
        """All groups that have, or had, a committed offset in the mirror."""
        return tuple(sorted(self.positions.keys() | self.at_home.keys()))

    def age_ms(self, position: Freshest) -> int | None:
        """The age of a known position, which may have moved since. None: unknown."""
        if position.direct:
            return 0
        return (
            max(0, self.now - self.followed.complete_until_ms)
            if self.followed and self.followed.complete_until_ms
            else None
        )


def gather(mirror: OpenMirror, chosen: Chosen, context: CommandContext, seen: Views | None = None) -> Gathered:
    """Read source and destination once. A source that does not answer is a fact here, never an error.

    Raises:
        what the destination answers if it cannot be read.
    """
    spec, destination = mirror.spec, DestinationSnapshot(cluster=mirror.destination)
    seen = seen or views(destination, context)
    places = Places.of(mirror, seen.state, chosen.topics, context)
    if chosen.given is not None:
        places = places.only(at for each in chosen.given.values() for at in each)
    partitions = places.partitions
    kept = seen.groups.group_positions(spec) if chosen.given is None else ()
    held = places.copies(each.partition for each in kept)
    ours = [each for each in kept if each.partition in held]
    source_answer = _ask(
        mirror, chosen, {each.group for each in ours}, sorted(map(spec.names.at_source, partitions)), context
    )
    copies = destination.ends(sorted(partitions), context.by)
    passed_on = _passed_on(seen.state, spec, partitions)
    positions = _merged(ours, source_answer, chosen, places) if chosen.given is None else _given(chosen.given)
    return Gathered(
        spec=spec,
        partitions=partitions,
        preparing=_preparing(seen.state, spec.mirror, partitions),
        positions=positions,
        kinds={each.group: each.kind for each in ours}
        | {name: facts.kind for name, facts in source_answer.groups.items()},
        copies={at: _span(each, passed_on.get(at)) for at, each in copies.items()}
        | places.troubles(at for each in positions.values() for at in each),
        source_ends=_ends(last_known(seen.state, spec.mirror), source_answer, spec.names),
        followed=seen.groups.groups_followed(spec),
        source_answer=source_answer,
        now=context.clock.now(),
        at_home=_at_home(seen.state, spec, kept, chosen) if chosen.topics is None else {},
        primary_until=_primary_until(seen.state, spec, partitions),
        rewound=frozenset(rewound_groups(seen.state, spec.mirror)),
        topic_ids=places.topic_ids(),
    )


def _given(
    positions: Mapping[str, Mapping[MirrorPartition, SourceOffset]],
) -> Mapping[str, Mapping[MirrorPartition, Freshest]]:
    """Positions as the caller has given them: they are the present ones."""
    return {
        name: {at: Freshest(offset, None, direct=True) for at, offset in each.items()}
        for name, each in positions.items()
    }


def _passed_on(
    state: StateView, spec: MirrorSpec, partitions: frozenset[MirrorPartition]
) -> Mapping[MirrorPartition, int]:
    """Where the copied records of failed-over partitions end: behind it the destination has records of its own."""
    found: dict[MirrorPartition, int] = {}
    for topic in state.removed(spec.mirror):
        entries = state.lineage(spec.mirror, topic.topic)
        for at in partitions.intersection(topic.all_partitions()):
            if (end := copied_until(entries, at, spec.destination_cluster_id)) is not None:
                found[at] = end
    return found


def _primary_until(
    state: StateView, spec: MirrorSpec, partitions: frozenset[MirrorPartition]
) -> Mapping[MirrorPartition, int]:
    """Not behind where copying began: the log of a topic that was re-created has nothing of that time."""
    found: dict[MirrorPartition, int] = {}
    for topic in state.topics(spec.mirror):
        entries = state.lineage(spec.mirror, topic.topic)
        for at in partitions.intersection(topic.all_partitions()):
            end = primary_until(entries, at, spec.destination_cluster_id)
            if end is not None:
                found[at] = min(end, topic.copy_start(at.partition))
    return found


def _at_home(
    state: StateView, spec: MirrorSpec, kept: Iterable[GroupPosition], chosen: Chosen
) -> Mapping[str, tuple[MirrorPartition, ...]]:
    taken = {topic.topic for topic in state.removed(spec.mirror)}
    found: defaultdict[str, list[MirrorPartition]] = defaultdict(list)
    for each in kept:
        if (at := spec.names.mirrored(each.partition)).topic in taken:
            found[each.group].append(at)
    return {name: tuple(sorted(found[name])) for name in sorted(chosen.of(found))}


def _preparing(
    state: StateView, mirror: MirrorName, partitions: Iterable[MirrorPartition]
) -> frozenset[MirrorPartition]:
    """Mirror partitions whose log start is still being filled up to the source's: their ends mean nothing yet."""
    seen = {at: state.observed(mirror, at) for at in partitions}
    return frozenset(at for at, each in seen.items() if each is not None and each.state is MirrorState.PREPARING)


def _span(ends: LogEnds | TanistError, passed_on: int | None) -> Span[DestinationOffset] | TanistError:
    if isinstance(ends, TanistError):
        return ends
    end = ends.high_watermark if passed_on is None else max(ends.start, min(passed_on, ends.high_watermark))
    return Span(DestinationOffset(ends.start), DestinationOffset(end))


def _merged(
    ours: Iterable[GroupPosition],
    source_answer: SourceAnswer,
    chosen: Chosen,
    places: Places,
) -> Mapping[str, Mapping[MirrorPartition, Freshest]]:
    """The source's answer takes precedence over stored positions; positions that it does not return are kept.

    A missing position is not taken for a deletion: the tail of `__consumer_offsets` removes deleted positions.
    """
    found: defaultdict[str, dict[MirrorPartition, Freshest]] = defaultdict(dict)
    spec, copies = places.spec, places.copies(at for each in source_answer.positions.values() for at in each)
    selected = chosen.of({*(each.group for each in ours), *source_answer.positions})
    names = {each for each in selected if group_is_followed(spec, each)}
    for each in ours:
        if each.group in names:
            found[each.group][spec.names.mirrored(each.partition)] = Freshest(each.offset, each.at, direct=False)
    for group, positions in source_answer.positions.items():
        for there, offset in positions.items():
            if group in names and (at := copies.get(there)) is not None:
                before = found[group].get(at)
                found[group][at] = Freshest(
                    offset, before.at if before and before.offset == offset else None, direct=True
                )
    return {group: positions for group, positions in sorted(found.items()) if positions}


def _ends(
    known: Mapping[SourcePartition, KnownEnd], source_answer: SourceAnswer, names: TopicNames
) -> Mapping[MirrorPartition, KnownEnd]:
    live = {
        at: KnownEnd(SourceOffset(each.high_watermark), each.observed_at)
        for at, each in source_answer.ends.items()
        if not isinstance(each, TanistError)
    }
    return {names.mirrored(at): each for at, each in {**known, **live}.items()}


# ── the source itself ─────────────────────────────────────────────────────────────────────────────────────────────


def _ask(
    mirror: OpenMirror, chosen: Chosen, kept: set[str], partitions: Sequence[SourcePartition], context: CommandContext
) -> SourceAnswer:
    spec, source = mirror.spec, mirror.source
    if not chosen.ask_source:
        return SourceAnswer(down=SourceNotAsked(f"{spec.source!r} is known not to answer"))
    if isinstance(source, TanistError):
        return SourceAnswer(down=source)
    try:
        cluster = SourceSnapshot(cluster=source)
        same_as_pinned(spec, cluster.cluster_id(context.first_contact()), None)
        if chosen.given is not None:
            return SourceAnswer(ends=cluster.ends(partitions, context.first_contact()))
        positions = source.positions(spec.mirror)
        return _answers(positions, cluster, chosen, kept, partitions, context.first_contact())
    except TanistError as down:
        return SourceAnswer(down=down)


def _answers(
    committed: Positions,
    cluster: SourceSnapshot,
    chosen: Chosen,
    kept: set[str],
    partitions: Sequence[SourcePartition],
    by: Deadline,
) -> SourceAnswer:
    groups = committed.groups(by)
    names = sorted(chosen.of(groups.keys() | kept))
    answers = committed.committed(names, by) if names else {}
    return SourceAnswer(
        groups=groups,
        positions={
            group: {
                SourcePartition(*at): SourceOffset(each.offset)
                for at, each in answer.items()
                if not isinstance(each, TanistError)
            }
            for group, answer in answers.items()
            if not isinstance(answer, TanistError)
        },
        errors={group: answer for group, answer in answers.items() if isinstance(answer, TanistError)},
        ends=cluster.ends(partitions, by),
    )


class SourceNotAsked(TanistError):
    name, exit_code = "SOURCE_NOT_ASKED", 3
    operator_action = "none: the committed offsets that are kept at the destination are used"
