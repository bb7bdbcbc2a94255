"""`tanist offsets lookup`: destination offsets of positions that are kept outside Kafka.

They are translated and proved by the functions that translate committed offsets of groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tanist.domain.detached import detached_topics, refusal
from tanist.domain.errors import Misconfigured, Refused, TanistError, TopicNotInMirror
from tanist.domain.followed import copies_of, is_followed
from tanist.domain.lineage import copied_until
from tanist.domain.names import MOST_OFFSETS, MirrorPartition, SourceOffset, SourcePartition
from tanist.domain.problems import ProblemCollector
from tanist.domain.states import DesiredState
from tanist.domain.translation import Unknown
from tanist.usecases.groups.gather import views
from tanist.usecases.groups.items import position_item
from tanist.usecases.groups.sync import SyncRequest, translate_positions
from tanist.usecases.mirrors.followed import followed
from tanist.usecases.snapshot import DestinationSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.detached_record import TopicDetached
    from tanist.domain.followed import FollowedTopics
    from tanist.domain.reconciliation.job import PositionRequest
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.mirror import OpenMirror


class PartitionNotInMirror(Refused):
    name = "PARTITION_NOT_IN_MIRROR"
    operator_action = "see `tanist mirrors describe`: the mirror adds new partitions of the source by itself"


class PartitionNotFollowed(PartitionNotInMirror):
    operator_action = "see `tanist mirrors describe`: neither cluster has that partition of the topic"


class CopyEndNotRecorded(Refused):
    name = "COPY_END_NOT_RECORDED"
    operator_action = "find the records at the destination by their keys or timestamps; nothing was translated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """A position that was asked about, by its name at the source, and what came of it."""

    position: PositionRequest
    row: PositionRow

    @property
    def is_unknown(self) -> bool:
        return isinstance(self.row.translation, Unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """`source_down`: why the source does not answer, so that nothing is proved."""

    found: tuple[LookedUp, ...]
    source_down: TanistError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRequest:
    """`positions`: by the names of the source. `how`: strategy and time for proofs; it selects no groups."""

    positions: tuple[PositionRequest, ...]
    how: SyncRequest = field(default_factory=SyncRequest)


def lookup(mirror: OpenMirror, request: LookupRequest, context: CommandContext) -> Lookup:
    """The translation of each position, in their order. Changes nothing.

    Topics that were failed over are translated, too: up to where their copied records end, behind which the
    destination has records of its own.

    Raises:
        Misconfigured, TopicNotInMirror, PartitionNotInMirror, CopyEndNotRecorded: of every position that cannot be one
        of this mirror; no log is read then. Otherwise as `translate_positions`.
    """
    seen = views(DestinationSnapshot(cluster=mirror.destination), context)
    found = followed(mirror, context) if is_followed(mirror.spec) else None
    places = _places(_Known.of(seen.state, mirror.spec, found), request.positions)
    given = {
        str(number): {at: SourceOffset(position.offset)}
        for number, (position, at) in enumerate(zip(request.positions, places, strict=True))
    }
    chosen = replace(request.how.chosen, given=given)
    gathered, rows = translate_positions(mirror, replace(request.how, chosen=chosen), context, seen)
    by_name = {row.group: row for row in rows}
    return Lookup(
        found=tuple(
            LookedUp(position=position, row=by_name[name])
            for name, position in zip(given, request.positions, strict=True)
        ),
        source_down=gathered.source_answer.down,
    )


def _places(known: _Known, positions: Sequence[PositionRequest]) -> tuple[MirrorPartition, ...]:
    """The mirror partition of each position. Raises what is wrong with any of them."""
    findings = ProblemCollector()
    found = [findings.attempt(partial(known.place, position)) for position in positions]
    findings.problems = list({str(problem): problem for problem in findings.problems}.values())
    findings.raise_all()
    return tuple(at for at in found if at is not None)


@dataclass(frozen=True, slots=True)
class _Known:
    """The partitions of a mirror, by their names at the source; those that have left it, too."""

    state: StateView
    spec: MirrorSpec
    copies: Mapping[SourcePartition, MirrorPartition]
    topics: Mapping[str, TopicDesired | None]
    """By the names of the source; None: somebody else copies it, and nothing of it is on record."""
    detached: Mapping[str, TopicDetached]
    found: FollowedTopics | None

    @classmethod
    def of(cls, state: StateView, spec: MirrorSpec, found: FollowedTopics | None) -> _Known:
        """`found`: the topics of a mirror that somebody else copies."""
        copies = {spec.names.at_source(at): at for at in (found.partitions() if found else ())}
        topics: dict[str, TopicDesired | None] = dict.fromkeys(found.topics if found else ())
        for topic in state.topics(spec.mirror):
            for at in topic.all_partitions():
                there = spec.names.at_source(at)
                copies[there], topics[there.topic] = at, topic
        detached = {
            spec.names.at_source(MirrorPartition(each.topic, 0)).topic: each
            for each in detached_topics(state, spec.mirror)
        }
        return cls(state, spec, copies, topics, detached, found)

    def place(self, position: PositionRequest) -> MirrorPartition:
        """The mirror partition of a position. Raises what is wrong with it."""
        mirror, topic, at = self.spec.mirror, position.topic, SourcePartition(position.topic, position.partition)
        if not 0 <= position.offset <= MOST_OFFSETS:
            raise Misconfigured(f"{position.offset} is not a valid offset of {at}")
        if topic in self.detached:
            raise refusal(self.detached[topic], self.spec)
        if self.found is not None and at not in self.copies and _may_be_copied(self.spec, self.found, at):
            return self.spec.names.mirrored(at)  # its row says why there is no copy
        if topic not in self.topics:
            raise TopicNotInMirror(f"mirror {mirror!r} copies no topic {topic!r} of {self.spec.source!r}")
        if at not in self.copies:
            kind = PartitionNotInMirror if self.found is None else PartitionNotFollowed
            raise kind(f"mirror {mirror!r} has no partition {position.partition} of topic {topic!r}")
        copy, wanted = self.copies[at], self.topics[topic]
        if wanted is not None and wanted.desired is DesiredState.REMOVED and not self._end_is_recorded(copy):
            raise CopyEndNotRecorded(f"{copy} has left mirror {mirror!r}, and where its copied records end is unknown")
        return copy

    def _end_is_recorded(self, at: MirrorPartition) -> bool:
        entries = self.state.lineage(self.spec.mirror, at.topic)
        return copied_until(entries, at, self.spec.destination_cluster_id) is not None


def _may_be_copied(spec: MirrorSpec, found: FollowedTopics, at: SourcePartition) -> bool:
    """Whether the source has, or may have, a partition of a topic in a mirror that somebody else copies."""
    topic = found.topics.get(at.topic)
    if at.partition < 0:
        return False
    if topic is None:
        return found.source_down is not None and bool(copies_of(spec, [at.topic]))
    return topic.at_source is None or at.partition < topic.at_source


def lookup_item(found: LookedUp) -> dict[str, Any]:
    """One position as JSON; the names of a group's row, where both have the same thing."""
    position, row = position_item(found.row), found.row
    return {
        "group": found.position.group,
        "topic": found.position.topic,
        "partition": found.position.partition,
        "source_offset": found.position.offset,
        "destination_topic": row.partition.topic,
        **{name: position[name] for name in ("destination_offset", "precision", "reason", "proof", "proof_reason")},
        "clamped": row.clamped,
        "strategy": row.translator.name,
    }
