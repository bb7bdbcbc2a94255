"""Publish a reconciliation in `__mirror_offsets`, where the translation of committed offsets finds it.

It takes no lock of the mirror: nothing but translations rests on these records, and they are written as workers write
theirs. Of two publications of a partition the one whose logs were read later counts, whichever is written last.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.followed import is_followed, sources_of
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset
from tanist.domain.reconciled.published import ReconciledSteps, ReconciliationPublished, chunks, headers
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.state_record import Tombstone
from tanist.usecases import snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tanist.domain.names import EpochMs
    from tanist.domain.reconciled.published import FoundPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.ports.state import StateStore
    from tanist.usecases.command import CommandContext

_AT_ONCE: Final = 50
"""Chunks in one append, of some kilobytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPartition:
    """What became of one partition. `why_not`: why it is not published; empty: it is, or would be."""

    partition: MirrorPartition
    steps: int
    merged: int
    why_not: str = ""


def published_item(row: PublishedPartition, *, dry_run: bool) -> dict[str, Any]:
    """As commands tell it."""
    return {
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "published": not (row.why_not or dry_run),
        "steps": row.steps,
        "merged": row.merged,
        "reason": row.why_not,
    }


def publish(
    destination: Cluster,
    examined: MirrorSpec,
    run: str,
    read_at: EpochMs,
    found: Iterable[FoundPartition],
    context: CommandContext,
) -> tuple[PublishedPartition, ...]:
    """Publish what `run` has found of the topics that are in the mirror; its logs were read at `read_at`.

    Each partition is complete, or as it was before. A rehearsal says what would be written.

    Raises:
        UnknownMirror, MirrorMoved: it was deleted or reversed since it was `examined`; nothing more is published.
        UnsafeStateTopic, CouldNotTell, BrokerError: `__mirror_offsets` cannot be read or written.
    """
    by, told = context.by, list[PublishedPartition]()
    state = destination.state(STATE_TOPIC, by)
    spec = snapshot.still(state, examined)
    copied = frozenset[str]() if is_followed(spec) else {topic.topic for topic in state.mirrored(spec.mirror)}
    with closing(destination.open_store(OFFSETS_TOPIC, None, by, appends=not context.dry_run)) as store:
        for each in found:
            at = MirrorPartition(each.destination_topic, each.partition)
            held = at.topic in copied or (is_followed(spec) and bool(sources_of(spec, [at.topic])))
            why_not = "" if held else "its topic is not in the mirror"
            header = _header(spec, at, run, read_at, each)
            why_not = why_not or _superseded(store.catch_up(by), spec, header)
            if not why_not and not context.dry_run:
                why_not = _write(store, spec, header, each.packed, context)
            told.append(PublishedPartition(partition=at, steps=each.steps, merged=each.merged, why_not=why_not))
    return tuple(told)


def _write(
    store: StateStore,
    spec: MirrorSpec,
    header: ReconciliationPublished,
    packed: Sequence[str],
    context: CommandContext,
) -> str:
    """Chunks, then the header, then what nobody needs any more; why it does not count, if another one is later."""
    before = headers(store.view(), spec).get(header.partition)
    for some in _portions(header, packed):
        store.append(some, context.by)
    view = store.catch_up(context.by)
    if why_not := _superseded(view, spec, header):
        store.append([Tombstone(each.key) for each in _chunks_of(view, spec, header)], context.by)
        return why_not
    view = store.append([header], context.by)
    held = headers(view, spec).get(header.partition)
    if held is None:
        return "another mirror has its name now"
    if held.run != header.run:  # it came in between: what compaction keeps is written last
        store.append([held, *(Tombstone(each.key) for each in _chunks_of(view, spec, header))], context.by)
        return _later(held)
    if left := tuple(_left(view, spec, header, before)):
        store.append(left, context.by)
    return ""


def _header(
    spec: MirrorSpec, at: MirrorPartition, run: str, read_at: EpochMs, found: FoundPartition
) -> ReconciliationPublished:
    return ReconciliationPublished(
        mirror=spec.mirror,
        mirror_id=spec.mirror_id,
        partition=at,
        run=run,
        read_at=read_at,
        source_topic_id=found.source_topic_id,
        source_start=SourceOffset(found.source_start),
        source_until=SourceOffset(found.source_until),
        topic_id=found.destination_topic_id,
        destination_start=DestinationOffset(found.destination_start),
        destination_until=DestinationOffset(found.destination_until),
        copied=found.copied,
        moved=found.moved,
        lost=found.lost,
        repeated=found.repeated,
        foreign=found.foreign,
        steps=found.steps,
        chunks=len(found.packed),
        merged=found.merged,
    )


def _portions(header: ReconciliationPublished, packed: Sequence[str]) -> Iterator[list[StateRecord]]:
    for start in range(0, len(packed), _AT_ONCE):
        yield [
            ReconciledSteps(
                mirror=header.mirror,
                mirror_id=header.mirror_id,
                partition=header.partition,
                run=header.run,
                chunk=start + n,
                read_at=header.read_at,
                packed=each,
            )
            for n, each in enumerate(packed[start : start + _AT_ONCE])
        ]


def _superseded(view: StateView, spec: MirrorSpec, header: ReconciliationPublished) -> str:
    """Why `header` would not count; empty: it would."""
    held = headers(view, spec).get(header.partition)
    return _later(held) if held is not None and held.read_at > header.read_at else ""


def _later(held: ReconciliationPublished) -> str:
    return f"run {held.run}, which read the logs later, is published"


def _chunks_of(view: StateView, spec: MirrorSpec, header: ReconciliationPublished) -> Iterator[ReconciledSteps]:
    return (each for each in chunks(view, spec).get(header.partition, ()) if each.run == header.run)


def _left(
    view: StateView, spec: MirrorSpec, header: ReconciliationPublished, before: ReconciliationPublished | None
) -> Iterator[StateRecord]:
    """Tombstones for chunks of the publication before, and of such as were never completed; none of a later one."""
    gone = header.run if before is None else before.run
    for each in chunks(view, spec).get(header.partition, ()):
        if each.run != header.run and (each.run == gone or each.read_at < header.read_at):
            yield Tombstone(each.key)
