"""What MirrorMaker 2 has written about the partitions of a mirror, read from both of its clusters."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import TanistError
from tanist.domain.log_ends import LogEnds, Span
from tanist.domain.mirrormaker import folding
from tanist.domain.mirrormaker.history import Mm2Partition, kept, lives, to_tell_apart
from tanist.domain.mirrormaker.records import (
    DEFAULT_SEPARATOR,
    HEARTBEATS,
    TopicsOfMirrorMaker,
    is_checkpoints_topic,
    is_syncs_topic,
)
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset, iso_time
from tanist.domain.translation import Proof
from tanist.ports.positions import Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tanist.domain.mirrormaker.folding import Folded
    from tanist.domain.mirrormaker.records import Checkpoint, OffsetSync, TopicRead
    from tanist.domain.names import EpochMs, SourcePartition
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror

_E = TypeVar("_E")
_F = TypeVar("_F")

_MOST_NAMED: Final = 3
_NOT_ASKED: Final = "it was not asked for"


class SyncsAt(StrEnum):
    """Where MM2 writes its offset-syncs (`offset-syncs.topic.location`)."""

    SOURCE, DESTINATION = "source", "destination"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mm2Setting:
    """How MM2 is configured, as far as its topics are named after it.

    Aliases: None: the names of the mirror's connections. `syncs_at`: None: wherever it is clear.
    """

    source_alias: str | None = None
    destination_alias: str | None = None
    separator: str = DEFAULT_SEPARATOR
    syncs_at: SyncsAt | None = None

    def topics(self, source: str, destination: str) -> TopicsOfMirrorMaker:
        """The names of its topics between two connections."""
        return TopicsOfMirrorMaker(
            source_alias=self.source_alias or source,
            destination_alias=self.destination_alias or destination,
            separator=self.separator,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Topic(Generic[_F]):
    """One topic of MM2, folded. `found`: None: it was not read, and `why`. `is_missing`: it is certainly not there."""

    name: str
    at: str
    found: _F | None = None
    why: str = ""
    is_missing: bool = False
    written_at: EpochMs | None = None
    notes: tuple[str, ...] = ()


_SyncsTopic: TypeAlias = "_Topic[Mapping[SourcePartition, tuple[OffsetSync, ...]]]"
_CheckpointsTopic: TypeAlias = "_Topic[Mapping[MirrorPartition, Mapping[str, Checkpoint]]]"


def read_mm2(
    mirror: OpenMirror,
    partitions: Collection[MirrorPartition],
    context: CommandContext,
    setting: Mm2Setting | None = None,
    *,
    ask_source: bool = True,
    checkpoints: bool = True,
) -> Mapping[MirrorPartition, Mm2Partition]:
    """What MM2's topics say of each partition; what is missing or broken is a reason in it, never an error.

    The topics are read before the ends of the logs, so that no sync of a log that still is as MM2 left it lies behind
    its end. Records are compared only where offset-syncs go backwards. `ask_source`: False: it is known to be down.
    `checkpoints`: False: they are not read, as only an explanation shows them: there are none then, and no notes.
    """
    wanted = tuple(sorted(partitions))
    return _Reading(mirror, wanted, context, setting or Mm2Setting(), ask_source, checkpoints).partitions()


@dataclass
class _Reading:
    mirror: OpenMirror
    wanted: Sequence[MirrorPartition]
    context: CommandContext
    setting: Mm2Setting
    ask_source: bool
    ask_checkpoints: bool
    names: TopicsOfMirrorMaker = field(init=False)

    def __post_init__(self) -> None:
        spec = self.mirror.spec
        self.names = self.setting.topics(spec.source, spec.destination)

    def partitions(self) -> Mapping[MirrorPartition, Mm2Partition]:
        """Of all that are wanted."""
        ours, there = self._syncs_at_source(), self._syncs_at_destination()
        checkpoints = self._checkpoints()
        alike = self._alike()
        chosen = {at: _chosen(self._source_of(at), (ours, there), self.setting, alike) for at in self.wanted}
        found = self._kept({at: each for at, each in chosen.items() if not isinstance(each, str)})
        general = (*checkpoints.notes, *self._heartbeat())
        answers: dict[MirrorPartition, Mm2Partition] = {}
        for at in self.wanted:
            choice = chosen[at]
            known = Mm2Partition(missing=choice) if isinstance(choice, str) else found[at]
            topic_notes = () if isinstance(choice, str) else choice[0].notes
            answers[at] = replace(
                known, checkpoints=_of_groups(checkpoints, at), notes=(*known.notes, *topic_notes, *general)
            )
        return answers

    # ── MM2's topics ──────────────────────────────────────────────────────────────────────────────────────────────

    def _syncs_at_source(self) -> _SyncsTopic:
        name, source = self.names.syncs_at_source, self.mirror.source
        if self.setting.syncs_at is SyncsAt.DESTINATION:
            return _Topic(name=name, at="the source", why=_NOT_ASKED, is_missing=True)
        if isinstance(source, TanistError) or not self.ask_source:
            why = source.reason if isinstance(source, TanistError) else "it is known to be down"
            return _Topic(name=name, at="the source", why=f"the source does not answer ({why})")
        return self._syncs(source, "the source", name, self.context.first_contact())

    def _syncs_at_destination(self) -> _SyncsTopic:
        name = self.names.syncs_at_destination
        if self.setting.syncs_at is SyncsAt.SOURCE:
            return _Topic(name=name, at="the destination", why=_NOT_ASKED, is_missing=True)
        return self._syncs(self.mirror.destination, "the destination", name, self.context.by)

    def _syncs(self, cluster: Cluster, at: str, name: str, by: Deadline) -> _SyncsTopic:
        return _folded(cluster, at, name, by, cluster.mirrormaker.offset_syncs, folding.offset_syncs, is_syncs_topic)

    def _checkpoints(self) -> _CheckpointsTopic:
        cluster = self.mirror.destination
        read, at = cluster.mirrormaker.checkpoints, "the destination"
        name, by = self.names.checkpoints, self.context.by
        if not self.ask_checkpoints:
            return _Topic(name=name, at=at, why=_NOT_ASKED)
        return _folded(cluster, at, name, by, read, folding.checkpoints, is_checkpoints_topic)

    def _heartbeat(self) -> tuple[str, ...]:
        """When MM2 was last alive, as far as its topic tells."""
        cluster = self.mirror.destination
        read, at = cluster.mirrormaker.heartbeats, "the destination"
        topic = _folded(cluster, at, HEARTBEATS, self.context.by, read, folding.heartbeats, lambda _: False)
        if topic.found is None:
            return ()
        found = topic.found
        pair = (self.names.source_alias, self.names.destination_alias)
        if pair in found:
            return (f"MirrorMaker 2's last heartbeat was at {iso_time(found[pair].at)}",)
        others = ", ".join(f"{source} to {target}" for source, target in sorted(found)[:_MOST_NAMED])
        return (f"heartbeats are of {others}, not of {pair[0]} to {pair[1]}: are the aliases right?",) if found else ()

    # ── both logs ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _source_of(self, at: MirrorPartition) -> SourcePartition:
        return self.mirror.spec.names.at_source(at)

    def _alike(self) -> frozenset[str]:
        """Topics of the source whose name is also a topic at the destination: syncs there may be of either direction.

        All of them if the destination does not tell.
        """
        names = sorted({self._source_of(at).topic for at in self.wanted})
        try:
            found = self.mirror.destination.topics.partitions(names, self.context.by)
        except TanistError:
            return frozenset(names)
        return frozenset(name for name in names if not isinstance(found[name], UnknownTopicOrPartition))

    def _kept(
        self, chosen: Mapping[MirrorPartition, tuple[_SyncsTopic, tuple[OffsetSync, ...]]]
    ) -> Mapping[MirrorPartition, Mm2Partition]:
        copies = self._copies(list(chosen))
        again = {at: syncs for at, (_, syncs) in chosen.items() if len(lives(syncs).all) > 1}
        compared = self._compared(again, copies)
        return {
            at: kept(
                syncs,
                copies.get(at),
                differing=frozenset(sync for sync, proof in compared[at].items() if proof is Proof.MISMATCH),
                matching=frozenset(sync for sync, proof in compared[at].items() if proof is Proof.MATCH),
            )
            for at, (_, syncs) in chosen.items()
        }

    def _copies(self, partitions: Sequence[MirrorPartition]) -> Mapping[MirrorPartition, Span[DestinationOffset]]:
        """Without those whose ends are not known."""
        try:
            found = self.mirror.destination.logs.ends(partitions, self.context.by)
        except TanistError:
            return {}
        return {
            at: Span(DestinationOffset(ends.start), DestinationOffset(ends.high_watermark))
            for at, ends in found.items()
            if isinstance(ends, LogEnds)
        }

    def _compared(
        self,
        syncs: Mapping[MirrorPartition, Sequence[OffsetSync]],
        copies: Mapping[MirrorPartition, Span[DestinationOffset]],
    ) -> Mapping[MirrorPartition, Mapping[OffsetSync, Proof]]:
        """Whether the records of syncs are the same on both sides; if not, the source's topic was re-created since.

        A MISMATCH of the records behind, where a cleaner has removed one of these, proves nothing.
        """
        proofs: defaultdict[MirrorPartition, dict[OffsetSync, Proof]] = defaultdict(dict)
        source, pair = self.mirror.source, self.mirror.pair
        if not syncs or isinstance(source, TanistError) or isinstance(pair, TanistError) or not self.ask_source:
            return proofs
        try:
            ends = source.logs.ends([self._source_of(at) for at in syncs], self.context.first_contact())
        except TanistError:
            return proofs
        asked: dict[Pair, OffsetSync] = {}
        for at, each in syncs.items():
            found = ends[self._source_of(at)]
            if at in copies and isinstance(found, LogEnds):
                span = Span(SourceOffset(found.start), SourceOffset(found.high_watermark))
                asked |= {
                    Pair(self._source_of(at), sync.upstream, at, sync.downstream): sync
                    for sync in to_tell_apart(lives(each), span, copies[at])
                }
        results = pair.proofs.compare(list(asked), self.context.first_contact()) if asked else {}
        for compared, result in results.items():
            is_certain = result.exact_place or result.proof is not Proof.MISMATCH
            proofs[compared.at][asked[compared]] = result.proof if is_certain else Proof.NONE
        return proofs


def _folded(  # noqa: PLR0913, PLR0917 -- what is read, from where, and how
    cluster: Cluster,
    at: str,
    name: str,
    by: Deadline,
    read: Callable[[str, Deadline], TopicRead[_E]],
    fold: Callable[[Iterable[_E]], Folded[_F]],
    is_alike: Callable[[str], bool],
) -> _Topic[_F]:
    """`is_alike`: which topics are named in its place if it is missing."""
    try:
        topic = read(name, by)
    except UnknownTopicOrPartition:
        why = f"{at}, {cluster.name}, has no topic {name}{_instead(cluster, by, is_alike)}"
        return _Topic(name=name, at=at, why=why, is_missing=True)
    except TanistError as error:
        return _Topic(
            name=name, at=at, why=f"topic {name} of {cluster.name} cannot be read: {error.name}: {error.reason}"
        )
    folded = fold(topic.events)
    notes = []
    if folded.skipped:
        notes.append(f"{name}: skipped {folding.described(folded.skipped)}")
    if topic.start and not topic.compacted:
        notes.append(
            f"{name} begins at {topic.start}: what was written before is deleted, and it is not only compacted"
        )
    return _Topic(name=name, at=at, found=folded.found, written_at=topic.written_at, notes=tuple(notes))


def _instead(cluster: Cluster, by: Deadline, is_alike: Callable[[str], bool]) -> str:
    try:
        found = [name for name in cluster.topics.names(by) if is_alike(name)]
    except TanistError:
        return ""
    return f"; it has {', '.join(found[:_MOST_NAMED])}: is the alias another one?" if found else ""


def _of_groups(topic: _CheckpointsTopic, at: MirrorPartition) -> Mapping[str, Checkpoint]:
    return {} if topic.found is None else topic.found.get(at, {})


def _chosen(
    at: SourcePartition, topics: tuple[_SyncsTopic, _SyncsTopic], setting: Mm2Setting, alike: Collection[str]
) -> tuple[_SyncsTopic, tuple[OffsetSync, ...]] | str:
    """The syncs of a partition, and where they are; or why there are none.

    A topic of offset-syncs is named after the other cluster, whichever direction it is of: where both clusters have a
    topic of this name, and nobody has said where MM2 writes, syncs may be of copies in the other direction.
    """
    _, there = topics
    having = [each for each in topics if each.found and at in each.found]
    if not having:
        return _why_none(at, topics)
    if setting.syncs_at is None and at.topic in alike and there in having:
        return (
            f"topic {there.name} at the destination may be of copies in the other direction, as both clusters have a "
            f"topic {at.topic}: say where MirrorMaker 2 writes its offset-syncs"
        )
    newest = max(having, key=lambda each: each.written_at or 0)
    return (newest, (newest.found or {})[at])


def _why_none(at: SourcePartition, topics: Sequence[_SyncsTopic]) -> str:
    """All that there is to say; a topic that was not asked for only if there is nothing else."""
    return "; ".join(_why_not_in(at, each) for each in topics if not (each.is_missing and each.why == _NOT_ASKED))


def _why_not_in(at: SourcePartition, topic: _SyncsTopic) -> str:
    if topic.found is None:
        return topic.why
    if not topic.found:
        return f"topic {topic.name} at {topic.at} has no offset-sync"
    if all(each.topic != at.topic for each in topic.found):
        others = ", ".join(sorted({each.topic for each in topic.found})[:_MOST_NAMED])
        return f"topic {topic.name} at {topic.at} is of other topics ({others}), not of {at.topic}"
    return f"topic {topic.name} at {topic.at} has no offset-sync of {at}"
