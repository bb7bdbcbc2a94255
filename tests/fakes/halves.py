"""A crash in the middle of the barrier: half of the partitions are behind it, the others are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.ports.fencing import NO_HISTORY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.names import DestinationOffset, MirrorPartition
    from tanist.domain.writer_identity import ProducerIds, TransactionalWriter, WriterIdentity
    from tanist.ports.clock import Deadline
    from tanist.ports.fencing import Kept, ProducerFence, ProducerFencing, TransactionFence

HALF = "seal:half"
DATA_HALF = "seal:data-half"


@dataclass
class Halves:
    """The port `ProducerFencing`: what `checkpoint` is told lies between the two halves of every `fence_producers`."""

    real: ProducerFencing
    checkpoint: Callable[[str], None]

    def fence_data_producers(
        self, producer_ids: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        ordered = list(producer_ids.items())
        middle = len(ordered) // 2
        first = self.real.fence_data_producers(dict(ordered[:middle]), by)
        self.checkpoint(DATA_HALF)
        return {**first, **self.real.fence_data_producers(dict(ordered[middle:]), by)}

    def copied_ends(
        self,
        producer_ids: Mapping[MirrorPartition, ProducerIds],
        by: Deadline,
        begun: Mapping[MirrorPartition, DestinationOffset] = NO_HISTORY,
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        return self.real.copied_ends(producer_ids, by, begun)

    def reserve(
        self,
        ends: Mapping[MirrorPartition, int],
        producer_ids: Mapping[MirrorPartition, ProducerIds],
        by: Deadline,
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        return self.real.reserve(ends, producer_ids, by)

    def fence_producers(
        self, producer_ids: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        ordered = list(producer_ids.items())
        middle = len(ordered) // 2
        first = self.real.fence_producers(dict(ordered[:middle]), by)
        self.checkpoint(HALF)
        return {**first, **self.real.fence_producers(dict(ordered[middle:]), by)}

    def fence_transactional_ids(
        self, writers: Mapping[MirrorPartition, TransactionalWriter], by: Deadline
    ) -> Mapping[MirrorPartition, TransactionFence | TanistError]:
        ordered = list(writers.items())
        middle = len(ordered) // 2
        first = self.real.fence_transactional_ids(dict(ordered[:middle]), by)
        self.checkpoint(HALF)
        return {**first, **self.real.fence_transactional_ids(dict(ordered[middle:]), by)}

    def proof(
        self, writers: Mapping[MirrorPartition, WriterIdentity], by: Deadline
    ) -> Mapping[MirrorPartition, ProducerFence | TanistError]:
        return self.real.proof(writers, by)

    def compacted(self, topics: Collection[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        return self.real.compacted(topics, by)

    def kept(
        self, producer_ids: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, Kept | TanistError]:
        return self.real.kept(producer_ids, by)

    def keep(
        self, producer_ids: Mapping[MirrorPartition, ProducerIds], by: Deadline, *, rest: float = 0
    ) -> Mapping[MirrorPartition, Kept | TanistError]:
        return self.real.keep(producer_ids, by, rest=rest)
