"""Offsets and batch headers of partition logs, and producer ids. librdkafka has no API for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import EpochMs, ProducerId, TopicPartition
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """Log start offset, last stable offset and high watermark of a partition. `observed_at`: ms since 1970."""

    start: int
    last_stable: int
    high_watermark: int
    observed_at: EpochMs


class Logs(Protocol):
    """Every mapping has one item for each partition given."""

    def ends(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, LogEnds | TanistError]:
        """The log ends that consumers see."""
        ...

    def true_ends(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, int | TanistError]:
        """The log end offset of each leader; records above the high watermark may be acknowledged (acks=1)."""
        ...

    def only_control(
        self, spans: Mapping[TopicPartition, tuple[int, int]], by: Deadline
    ) -> Mapping[TopicPartition, bool | TanistError]:
        """Whether each span (first offset, end exclusive) has only control batches; False: not proved.

        Needs a fetch; an error if the span is above the high watermark.
        """
        ...

    def producers(
        self, offsets: Mapping[TopicPartition, int], by: Deadline
    ) -> Mapping[TopicPartition, ProducerId | TanistError]:
        """The producer id in the header of the batch with each offset; -1: its producer was not idempotent.

        Needs a fetch; an error if no batch has the offset, or it is above the high watermark.
        """
        ...

    def leader_epochs(
        self, offsets: Mapping[TopicPartition, int], by: Deadline
    ) -> Mapping[TopicPartition, int | TanistError]:
        """The leader epoch in the header of the batch with each offset; as `producers`."""
        ...

    def versions(self, by: Deadline) -> Mapping[str, int]:
        """The protocol versions with which records are copied from and to this cluster, by request."""
        ...

    def new_producer_id(self, by: Deadline) -> ProducerId:
        """A new producer id of this cluster (InitProducerId), used by no other producer; never -1."""
        ...
