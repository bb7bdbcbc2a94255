"""The published reconciliations of a mirror, for the translation of committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanist.domain.errors import TanistError
from tanist.domain.log_ends import Span
from tanist.domain.reconciled.published import (
    NotReconciled,
    Reconciled,
    ReconciliationOutdated,
    chunks,
    complete,
    headers,
)
from tanist.domain.reconciled.steps import unpacked
from tanist.usecases.snapshot import DestinationSnapshot, SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.names import EpochMs, MirrorPartition
    from tanist.domain.reconciled.published import ReconciledSteps, ReconciliationPublished
    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.gather import Views
    from tanist.usecases.mirror import OpenMirror
    from tanist.usecases.snapshot import ClusterSnapshot


def read_reconciled(
    mirror: OpenMirror,
    partitions: Iterable[MirrorPartition],
    seen: Views,
    context: CommandContext,
    *,
    ask_source: bool = True,
) -> Mapping[MirrorPartition, Reconciled | TanistError]:
    """What is published of each of `partitions`, or why there is nothing that may be used.

    A topic that was made again since is told by its id, where its cluster answers and has ids (since Kafka 2.8). A
    source that does not answer, or is not asked (`ask_source`), is not waited for: its records are what they were.

    Raises:
        what the destination answers if it cannot be read.
    """
    wanted, spec = sorted(set(partitions)), mirror.spec
    found, packed = headers(seen.offsets, spec), chunks(seen.offsets, spec)
    known = {at: found[at] for at in wanted if at in found}
    ids = _ids(DestinationSnapshot(cluster=mirror.destination), {at.topic for at in known}, context)
    source_ids: Mapping[str, str] = {}
    if known and ask_source and not isinstance(mirror.source, TanistError):
        try:
            source = SourceSnapshot(cluster=mirror.source)
            source_ids = _ids(source, {spec.names.at_source(at).topic for at in known}, context)
        except TanistError:
            source_ids = {}
    now = context.clock.now()
    return {
        at: _made_again(each, ids.get(at.topic), source_ids.get(spec.names.at_source(at).topic))
        or _read(each, packed.get(at, ()), now)
        for at, each in known.items()
    } | {at: _never(at, mirror) for at in wanted if at not in known}


def _ids(cluster: ClusterSnapshot[Any], topics: set[str], context: CommandContext) -> Mapping[str, str]:
    """The ids of topics, as any broker tells them."""
    return cluster.registry(sorted(topics), context.first_contact()).topic_ids if topics else {}


def _never(at: MirrorPartition, mirror: OpenMirror) -> TanistError:
    return NotReconciled(f"{at} of mirror {mirror.spec.mirror!r} was never reconciled")


def _made_again(
    header: ReconciliationPublished, topic_id: str | None, source_topic_id: str | None
) -> ReconciliationOutdated | None:
    pairs = (
        ("mirror topic", header.topic_id, topic_id),
        ("source topic", header.source_topic_id, source_topic_id),
    )
    for side, then, now in pairs:
        if then and now and then != now:
            return ReconciliationOutdated(f"the {side} of {header.partition} was made again since it was reconciled")
    return None


def _read(header: ReconciliationPublished, held: Iterable[ReconciledSteps], now: EpochMs) -> Reconciled | TanistError:
    packed = complete(header, held)
    if packed is None:
        return NotReconciled(f"a part of the reconciliation of {header.partition} (run {header.run}) is missing")
    try:
        steps = unpacked(packed)
    except ValueError as error:
        return NotReconciled(f"the reconciliation of {header.partition} (run {header.run}) cannot be read: {error}")
    return Reconciled(
        run=header.run,
        age_ms=max(0, now - header.read_at),
        until=header.source_until,
        copy=Span(header.destination_start, header.destination_until),
        steps=steps,
        merged=header.merged,
    )
