"""`tanist mirrors lineage`: what both clusters have stored of the promotions of a mirror; one of them may be dead."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tanist.domain.detached import detached_topics
from tanist.domain.errors import TanistError, UnknownMirror
from tanist.domain.failover.stored_reserves import stored_gaps
from tanist.domain.lineage import Segment, segments, writer_of
from tanist.domain.names import MirrorPartition
from tanist.domain.problems import refuse
from tanist.domain.records import STATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.detached_record import TopicDetached
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext

LINEAGE_COLUMNS = ("topic", "partition", "start", "end", "cluster", "cluster_id", "reserved", "promotion_epoch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """`read`: the clusters that answered; `silent`: why the others did not, by name.

    `stored_on`: the clusters that have each entry, by its key. `names`: of the connections, by cluster id.
    """

    mirror: MirrorName
    entries: tuple[TopicLineage, ...]
    read: tuple[str, ...]
    stored_on: Mapping[str, tuple[str, ...]]
    names: Mapping[str, str]
    silent: Mapping[str, TanistError]
    detached: Mapping[str, TopicDetached] = field(default_factory=dict)
    """By name: topics that have left the mirror without a promotion."""
    copies: tuple[tuple[Segment, ...], ...] = ()
    """By partition: what a detached topic is of which no promotion is recorded."""
    short: Mapping[str, str] = field(default_factory=dict)
    """By partition: up to where offsets may name two records after the last promotion, and what that costs."""

    def segments(self, offset: int | None = None) -> tuple[Segment, ...]:
        """Of all partitions, by topic, partition and offset. `offset`: only those that hold it."""
        topics = sorted({each.topic: len(each.old_ends) for each in self.entries}.items())
        found = [segments(self.entries, MirrorPartition(topic, n)) for topic, count in topics for n in range(count)]
        found += self.copies
        if offset is None:
            return tuple(each for partition in found for each in partition)
        return tuple(each for partition in found if (each := writer_of(partition, offset)) is not None)

    def not_stored(self) -> dict[str, tuple[TopicLineage, ...]]:
        """The entries that a cluster which answered has not stored yet, by the name of the cluster."""
        lacking = {
            name: tuple(each for each in self.entries if name not in self.stored_on[each.key]) for name in self.read
        }
        return {name: entries for name, entries in lacking.items() if entries}


def lineage(
    mirror: MirrorName,
    topics: Selection,
    names: Sequence[str],
    connect: Callable[[str], Cluster],
    source_of: Callable[[MirrorSpec], Cluster],
    context: CommandContext,
) -> Lineage:
    """What the clusters `names`, and the source of the mirror if one of them has it, have stored.

    Raises:
        UnknownMirror: no cluster has the mirror or a promotion of it. TopicNotInMirror: an expression matches none.
        Problems, or the single error: no cluster answers.
    """
    read = {name: _read(partial(connect, name), context) for name in names}
    specs = [spec for view in _views(read).values() if (spec := view.mirror(mirror)) is not None]
    for spec in specs:
        if spec.source not in read:
            read[spec.source] = _read(partial(source_of, spec), context)
    views, silent = _views(read), {name: each for name, each in read.items() if isinstance(each, TanistError)}
    if not views:
        refuse(silent.values())
    held = [view.lineage(mirror) for view in sorted(views.values(), key=lambda view: view.mirror(mirror) is None)]
    if not specs and not any(held):
        raise UnknownMirror(f"mirror {mirror!r} is on none of {', '.join(views)}, and none knows of a promotion of it")
    latest: dict[str, TopicLineage] = {}
    for entry in (each for entries in held for each in entries):
        latest.setdefault(entry.key, entry)
    apart = {each.topic: each for view in views.values() for each in detached_topics(view, mirror)}
    entries, detached = _chosen(mirror, topics, latest.values(), apart)
    promoted = {each.topic for each in entries}
    bare = [each for each in detached.values() if each.topic not in promoted]
    return Lineage(
        mirror=mirror,
        entries=entries,
        detached=detached,
        copies=tuple(segment for spec in specs[:1] for each in bare for segment in _copied(each, spec)),
        read=tuple(views),
        stored_on={e.key: tuple(name for name, view in views.items() if view.get(e.key) == e) for e in entries},
        names={s.source_cluster_id: s.source for s in specs} | {s.destination_cluster_id: s.destination for s in specs},
        silent=silent,
        short=_short(mirror, {each.topic for each in entries}, views.values()),
    )


def _short(mirror: MirrorName, topics: Iterable[str], views: Iterable[StateView]) -> dict[str, str]:
    known = [(view, spec) for view in views if (spec := view.mirror(mirror)) is not None]
    stored = ((view.copied_up_to(mirror, topic), spec) for view, spec in known for topic in sorted(topics))
    found = (stored_gaps(each, spec.destination) for each, spec in stored if each is not None)
    return {at: why for gaps in found for at, why in gaps.items()}


def _read(connect: Callable[[], Cluster], context: CommandContext) -> StateView | TanistError:
    try:
        cluster = connect()
        cluster.topics.cluster_id(context.first_contact())
        return cluster.state(STATE_TOPIC, context.by)
    except TanistError as why:
        return why


def _views(read: Mapping[str, StateView | TanistError]) -> dict[str, StateView]:
    return {name: each for name, each in read.items() if not isinstance(each, TanistError)}


def _copied(detached: TopicDetached, spec: MirrorSpec) -> Iterator[tuple[Segment]]:
    """What this mirror has copied, by partition: the cluster that has the copy is not the one that has written it."""
    ids = (spec.source_cluster_id, spec.destination_cluster_id)
    writer = next(each for each in ids if each != detached.cluster_id)
    kept = detached.kept
    for at in kept.all_partitions():
        yield (Segment(at, kept.copy_start(at.partition), None, writer, kept.promotion_epoch),)


def _chosen(
    mirror: MirrorName, topics: Selection, entries: Iterable[TopicLineage], detached: Mapping[str, TopicDetached]
) -> tuple[tuple[TopicLineage, ...], dict[str, TopicDetached]]:
    by_topic = sorted(entries, key=lambda each: (each.topic, each.promotion_epoch))
    known = {each.topic for each in by_topic} | detached.keys()
    wanted = frozenset(topics.chosen(known, f"topic that mirror {mirror!r} has failed over or detached"))
    return tuple(e for e in by_topic if e.topic in wanted), {n: e for n, e in sorted(detached.items()) if n in wanted}


def segment_item(found: Lineage, segment: Segment) -> dict[str, Any]:
    """A segment; `end` None: the log goes on. `stored_on`: the clusters that have all of the topic's lineage."""
    topic = [each for each in found.entries if each.topic == segment.partition.topic]
    everywhere = set.intersection(*(set(found.stored_on[each.key]) for each in topic)) if topic else set()
    apart = found.detached.get(segment.partition.topic)
    return {
        "mirror": found.mirror,
        "topic": segment.partition.topic,
        "partition": segment.partition.partition,
        "start": segment.start,
        "end": segment.end,
        "cluster": found.names.get(segment.cluster_id),
        "cluster_id": segment.cluster_id,
        "reserved": segment.reserved,
        "promotion_epoch": segment.promotion_epoch,
        "stored_on": sorted(everywhere),
        "detached_ms": apart.at if apart else None,
        "may_be_reused": found.short.get(str(segment.partition)),
    }
