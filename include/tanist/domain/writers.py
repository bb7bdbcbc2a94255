"""Who writes each partition of a mirror of either kind, and what fences that writer, as it is on record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.delivery import Delivery
from tanist.domain.names import MirrorPartition
from tanist.domain.records import STATE_PARTITIONS
from tanist.domain.state_record import state_partition_of
from tanist.domain.writer_identity import ProducerEpoch, TransactionalWriter, transactional_id_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.domain.writer_identity import WriterIdentity


def writers(
    view: StateView, spec: MirrorSpec, partitions: Iterable[MirrorPartition]
) -> dict[MirrorPartition, WriterIdentity]:
    """The writer of each partition. `view`: of the state topic of the destination."""
    if spec.is_mapped:
        return dict(transactional_writers(view, spec, partitions))
    return dict.fromkeys(partitions, spec.writer)


def transactional_writers(
    view: StateView, spec: MirrorSpec, partitions: Iterable[MirrorPartition]
) -> dict[MirrorPartition, TransactionalWriter]:
    """The same for a mirror with mapped offsets."""
    fences = {
        MirrorPartition(last.topic, n): ProducerEpoch(*each)
        for last in _last_promotions(view, spec)
        for n, each in enumerate(last.fenced_in)
    }
    return {
        at: TransactionalWriter(
            transactional_id_of(spec, state_partition_of(spec.mirror, at, STATE_PARTITIONS)),
            fences.get(at),
            in_transactions=spec.delivery is Delivery.EXACTLY_ONCE,
        )
        for at in partitions
    }


def _last_promotions(view: StateView, spec: MirrorSpec) -> Iterator[TopicLineage]:
    """Not those of topics that were added to the mirror again since: these fence nobody any more."""
    last = {each.topic: each for each in view.lineage(spec.mirror)}
    for topic, each in last.items():
        desired = view.topic(spec.mirror, topic)
        if desired is not None and each.promotion_epoch > desired.promotion_epoch:
            yield each
