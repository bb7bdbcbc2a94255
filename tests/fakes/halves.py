"""A crash in the middle of the barrier: half of the partitions are behind it, the others are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tanist.domain.anchoring import Writers
    from tanist.domain.errors import TanistError
    from tanist.domain.names import DestinationOffset, TopicPartition
    from tanist.ports.clock import Deadline
    from tanist.ports.sealing import Barrier, Kept, Sealing

HALF = "seal:half"


@dataclass
class Halves:
    """The port `Sealing`: what `checkpoint` is told lies between the two halves of every `seal`."""

    real: Sealing
    checkpoint: Callable[[str], None]

    def seal(
        self, writers: Mapping[TopicPartition, Writers], by: Deadline
    ) -> Mapping[TopicPartition, DestinationOffset | TanistError]:
        ordered = list(writers.items())
        middle = len(ordered) // 2
        first = self.real.seal(dict(ordered[:middle]), by)
        self.checkpoint(HALF)
        return {**first, **self.real.seal(dict(ordered[middle:]), by)}

    def proof(
        self, writers: Mapping[TopicPartition, Writers], by: Deadline
    ) -> Mapping[TopicPartition, Barrier | TanistError]:
        return self.real.proof(writers, by)

    def compacted(self, topics: Collection[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        return self.real.compacted(topics, by)

    def kept(
        self, writers: Mapping[TopicPartition, Writers], by: Deadline
    ) -> Mapping[TopicPartition, Kept | TanistError]:
        return self.real.kept(writers, by)

    def keep(
        self, writers: Mapping[TopicPartition, Writers], by: Deadline, *, rest: float = 0
    ) -> Mapping[TopicPartition, Kept | TanistError]:
        return self.real.keep(writers, by, rest=rest)

    def close(self) -> None:
        self.real.close()
