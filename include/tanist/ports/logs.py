"""Partition logs and producers: what librdkafka cannot ask."""

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
    """Offsets of one partition: log start, last stable offset, high watermark; `observed_at` ms."""

    start: int
    last_stable: int
    high_watermark: int
    observed_at: EpochMs


class Logs(Protocol):
    def ends(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, LogEnds | TanistError]: ...

    def true_ends(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, int | TanistError]:
        """Where each leader's log ends, also above the high watermark: what a producer may have been acknowledged."""
        ...

    def only_control(
        self, spans: Mapping[TopicPartition, tuple[int, int]], by: Deadline
    ) -> Mapping[TopicPartition, bool | TanistError]:
        """Whether each span (first offset, end) holds control batches and nothing else; False: it is not proved.

        Costs a fetch; an error where the span is not committed yet.
        """
        ...

    def producers(
        self, offsets: Mapping[TopicPartition, int], by: Deadline
    ) -> Mapping[TopicPartition, ProducerId | TanistError]:
        """The producer id of the batch that holds each offset, read from its header; -1: its producer had none.

        Costs a fetch; an error where no batch holds the offset, or it is not committed yet.
        """
        ...

    def new_producer_id(self, by: Deadline) -> ProducerId:
        """A producer id of this cluster that nobody else has; never -1."""
        ...
