"""Who has written a mirror partition, as its log and its leader show it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tanist.domain.adoption import LAST_EPOCH

if TYPE_CHECKING:
    from tanist.domain.names import ProducerId
    from tanist.domain.recovery import ProducerIds

FENCED_EPOCH: Final = 1
"""The producer epoch of the data id that fences it; workers write in epoch 0."""


class WrittenSpan(NamedTuple):
    """A batch of a log, by its header. `producer_id`: -1 if its producer was not idempotent."""

    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    control: bool
    transactional: bool


def ends_reserve(span: WrittenSpan, producer_ids: ProducerIds) -> bool:
    """Whether a batch behind what a mirror has copied is its last producer fence, or not the mirror's at all.

    Up to there the log has gap markers and no record of the new primary.
    """
    fence = span.producer_id == producer_ids.marker and span.producer_epoch == LAST_EPOCH
    return fence or span.producer_id not in producer_ids


class KnownProducer(NamedTuple):
    """A producer that the leader remembers; `wrote_records`: not only markers."""

    producer_id: int
    producer_epoch: int
    wrote_records: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWriters:
    """The writers of a log that begins at `start` and ends at `end`.

    `last`: the batches with which it ends, read so far back that they
    contain one of records, or that there is nothing before them. `producers`: whom the leader remembers.
    """

    start: int
    end: int
    last: tuple[WrittenSpan, ...] = ()
    producers: tuple[KnownProducer, ...] = ()

    def since(self, offset: int) -> Self:
        """Without the batches that begin before `offset`."""
        return replace(self, last=tuple(span for span in self.last if span.base_offset >= offset))

    def writes_records(self, producer_id: int) -> bool:
        """Whether a producer has written records here, as far as the log's end or its leader shows it."""
        spans = any(span.producer_id == producer_id and not span.control for span in self.last)
        return spans or any(each.producer_id == producer_id and each.wrote_records for each in self.producers)

    def fence(self, data: ProducerId, marker: ProducerId) -> str | None:
        """What shows that these producer ids are fenced; None: nothing does."""
        for span in self.last:
            if _fences(span.producer_id, span.producer_epoch, data, marker):
                return f"there is a producer fence at offset {span.base_offset}"
        for producer in self.producers:
            if _fences(producer.producer_id, producer.producer_epoch, data, marker):
                return f"producer id {producer.producer_id} is fenced"
        return None


def _fences(producer_id: int, epoch: int, data: ProducerId, marker: ProducerId) -> bool:
    return (producer_id == data and epoch >= FENCED_EPOCH) or (producer_id == marker and epoch == LAST_EPOCH)
