"""The topics and groups of a mirror that somebody else copies: found by its filters and names whenever they are asked.

Nothing of them is on record: what the source has, and what is at the destination under the name of its copy, is all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.copier import CopiedByAnother, Copier
from tanist.domain.errors import TanistError
from tanist.domain.fake_group import is_fake
from tanist.domain.names import MirrorPartition
from tanist.domain.problems import ProblemCollector
from tanist.domain.selection import EVERYTHING, Selection, topic_pattern
from tanist.domain.translators.choice import StrategyChoice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tanist.domain.names import SourcePartition
    from tanist.domain.records import MirrorSpec

_INTERNAL: Final = ("__", ".internal", "-internal", ".replica")
_HEARTBEATS: Final = "heartbeats"


def is_followed(spec: MirrorSpec) -> bool:
    """Whether somebody else copies the records of the mirror."""
    return spec.copied_by is not Copier.TANIST


def copied_here(spec: MirrorSpec) -> MirrorSpec:
    """`spec`, of a mirror whose records Tanist copies. What writes to topics of a mirror is allowed for no other one.

    Raises:
        CopiedByAnother: somebody else copies them.
    """
    if is_followed(spec):
        raise CopiedByAnother(f"{spec.copied_by.in_words} copies the records of mirror {spec.mirror!r}, not Tanist")
    return spec


# ── which topics ──────────────────────────────────────────────────────────────────────────────────────────────────


def is_internal(topic: str) -> bool:
    """Whether a topic is one of clients or replicators, by MirrorMaker 2's conventions.

    `topics.exclude` of MirrorMaker 2 by default, `ReplicationPolicy.isInternalTopic`, and its heartbeats.
    """
    first, *ends = _INTERNAL
    heartbeats = topic == _HEARTBEATS or topic.endswith(f".{_HEARTBEATS}")
    return topic.startswith(first) or topic.endswith(tuple(ends)) or heartbeats


def copies_of(spec: MirrorSpec, topics: Iterable[str]) -> dict[str, str]:
    """Of the `topics` of the source those that are in the mirror, each with the name of its copy, sorted.

    An internal topic is in it only if a filter is its plain name.
    """
    chosen = Selection(spec.include or EVERYTHING, spec.exclude)
    named = frozenset(Selection(spec.include).literals())
    found = (
        (topic, spec.names.copy_of(topic)) for topic in chosen.of(topics) if topic in named or not is_internal(topic)
    )
    return {topic: copy for topic, copy in found if copy is not None}


def sources_of(spec: MirrorSpec, copies: Iterable[str]) -> dict[str, str]:
    """The same by the topics of the destination, where the source does not answer.

    With equal names on both sides these are all topics that the filters match, whoever made them.
    """
    return copies_of(spec, (source for copy in copies if (source := spec.names.source_of(copy)) is not None))


def followed_by(specs: Iterable[MirrorSpec], topic: str) -> MirrorSpec | None:
    """Of `specs` the mirror that somebody else copies, and whose copy of some topic has the name `topic`; None: none.

    A copy that does not exist yet counts: its replicator creates it, and writes to it, at any time.
    """
    return next((spec for spec in specs if is_followed(spec) and sources_of(spec, [topic])), None)


class CopyTrouble(StrEnum):
    """What is wrong with a copy. AMBIGUOUS: the topic of its name belongs to another mirror."""

    MISSING, UNREADABLE, AMBIGUOUS = "MISSING", "UNREADABLE", "AMBIGUOUS"
    FEWER_PARTITIONS, MORE_PARTITIONS = "FEWER_PARTITIONS", "MORE_PARTITIONS"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedTopic:
    """A topic of the source and its copy. Numbers of partitions: None if there is no such topic, or it is not known.

    Topic ids are empty where they are not reported. `trouble`: None: the copy has as many partitions as the source, as
    far as that is known. `why`: the trouble in words.
    """

    source: str
    copy: str
    at_source: int | None = None
    at_destination: int | None = None
    source_topic_id: str = ""
    copy_topic_id: str = ""
    trouble: CopyTrouble | None = None
    why: str = ""

    def partitions(self) -> tuple[MirrorPartition, ...]:
        """Those of the copy that have a partition at the source; if the source is not known, all of the copy.

        None of a copy that belongs to another mirror.
        """
        if self.at_destination is None or self.trouble is CopyTrouble.AMBIGUOUS:
            return ()
        count = self.at_destination if self.at_source is None else min(self.at_source, self.at_destination)
        return tuple(MirrorPartition(self.copy, n) for n in range(count))


class NoCopy(TanistError):
    """A position cannot be translated, as the mirror has no copy of its partition, or none that is known to be its."""

    name, exit_code = "NO_COPY", 3
    operator_action = "see `tanist mirrors describe`, and what copies the records of the mirror; nothing was committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsSeen:
    """What one cluster tells of topics: partitions, or why they are not known, and ids."""

    partitions: Mapping[str, int | TanistError] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedTopics:
    """The topics of a mirror by their names at the source. `source_down`: why the source did not tell them."""

    topics: Mapping[str, FollowedTopic]
    source_down: TanistError | None = None

    def partitions(self) -> tuple[MirrorPartition, ...]:
        """All partitions that have a copy, sorted."""
        return tuple(sorted(at for each in self.topics.values() for at in each.partitions()))

    def trouble(self, there: SourcePartition, copy: str) -> NoCopy:
        """Why a partition of the mirror is not among `partitions`. `copy`: the name of its topic's copy."""
        topic = self.topics.get(there.topic)
        if topic is not None:
            return NoCopy(topic.why or f"{copy} has no partition {there.partition}")
        if self.source_down is None:
            return NoCopy(f"the source has no topic {there.topic}")
        return NoCopy(f"the destination has no topic {copy}")

    def troubled(self) -> tuple[FollowedTopic, ...]:
        """Those with which something is wrong."""
        return tuple(each for each in self.topics.values() if each.trouble is not None)


def paired(
    wanted: Mapping[str, str],
    source: TopicsSeen | TanistError,
    destination: TopicsSeen,
    taken: Mapping[str, str],
) -> FollowedTopics:
    """What is known of each topic and its copy. `wanted`: the copy of each topic. `source`: or why it is silent.

    `taken`: copies that another mirror has, and which one, in words.
    """
    down = source if isinstance(source, TanistError) else None
    there = TopicsSeen() if isinstance(source, TanistError) else source
    found = (_pair(topic, copy, there, destination, taken.get(copy)) for topic, copy in wanted.items())
    return FollowedTopics(topics={each.source: each for each in found}, source_down=down)


def _pair(topic: str, copy: str, there: TopicsSeen, here: TopicsSeen, taken: str | None) -> FollowedTopic:
    counts = (there.partitions.get(topic), here.partitions.get(copy))
    trouble, why = next(_troubles(copy, *counts, taken), (None, ""))
    at_source, at_destination = (count if isinstance(count, int) else None for count in counts)
    return FollowedTopic(
        source=topic,
        copy=copy,
        at_source=at_source,
        at_destination=at_destination,
        source_topic_id=there.ids.get(topic, ""),
        copy_topic_id=here.ids.get(copy, ""),
        trouble=trouble,
        why=why,
    )


def _troubles(
    copy: str, at_source: int | TanistError | None, at_destination: int | TanistError | None, taken: str | None
) -> Iterator[tuple[CopyTrouble, str]]:
    if taken is not None:
        yield CopyTrouble.AMBIGUOUS, f"{copy} is in {taken}"
    if at_destination is None or isinstance(at_destination, UnknownTopicOrPartition):
        yield CopyTrouble.MISSING, f"the destination has no topic {copy}"
    for error in (at_source, at_destination):
        if isinstance(error, TanistError):
            yield CopyTrouble.UNREADABLE, str(error)
    if isinstance(at_source, int) and isinstance(at_destination, int):
        seen = f"{copy} has {at_destination} partition(s), and {at_source} at the source"
        if at_destination < at_source:
            yield CopyTrouble.FEWER_PARTITIONS, seen
        if at_destination > at_source:
            yield CopyTrouble.MORE_PARTITIONS, seen


def selected_by(selection: Selection, found: FollowedTopics) -> tuple[FollowedTopic, ...]:
    """The topics that are selected by either of their names, and excluded by none, by the names of their copies."""
    names = {name for each in found.topics.values() for name in (each.source, each.copy)}
    chosen = frozenset(Selection(selection.include).among(names))
    excluded = frozenset(Selection(selection.exclude).of(names))
    every = sorted(found.topics.values(), key=lambda each: each.copy)
    return tuple(
        each for each in every if chosen & {each.source, each.copy} and not excluded & {each.source, each.copy}
    )


# ── which groups, and how they are translated ─────────────────────────────────────────────────────────────────────


def group_is_followed(spec: MirrorSpec, group: str) -> bool:
    """Whether positions of `group` are kept and translated. Without filters those of all groups are.

    Never those of a mirror itself, whose destination the source may be.
    """
    return not is_fake(group) and _group_matches(spec.group_include, spec.group_exclude, group)


@lru_cache(maxsize=1 << 14)
def _group_matches(include: tuple[str, ...], exclude: tuple[str, ...], group: str) -> bool:
    wanted = not include or any(topic_pattern(text).fullmatch(group) for text in include)
    return wanted and not any(topic_pattern(text).fullmatch(group) for text in exclude)


def sync_is_due(spec: MirrorSpec, before: int, now: int) -> bool:
    """Whether positions of its groups are committed by the run at `now`; the last one that did well was at `before`.

    Both are in seconds since 1970. However late a run is, the intervals that have ended since `before` make it due.
    """
    every = spec.sync_groups_seconds
    return every == 0 or before // every != now // every


def strategy_problems(settings: Sequence[str]) -> tuple[TanistError, ...]:
    """What is wrong with STRATEGY or STRATEGY=REGEX texts; empty: nothing."""
    found = ProblemCollector()
    for text in settings:
        found.attempt(partial(StrategyChoice.parse, text))
    return tuple(found.problems)
