"""Transactions of which a part was copied and a part lies in a divergent tail: the new primary has them in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.names import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class TransactionPart:
    """The records of a committed transaction in one span of a log. Offsets and times (ms) are those of the source.

    `first`, `began`: its first record there. `marker`, `ended`: its commit marker, None if that lies behind the span.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    first: int
    began: int
    marker: int | None = None
    ended: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class TornTransaction:
    """A part that is in a tail, and the parts of the same transaction that were copied."""

    tail: TransactionPart
    copied: tuple[TransactionPart, ...]

    def __str__(self) -> str:
        where = ", ".join(f"{each.partition} from offset {each.first} on" for each in self.copied)
        return (
            f"a transaction of producer id {self.tail.producer_id} has records in the tail of {self.tail.partition} "
            f"(from offset {self.tail.first} on), and was copied in {where}"
        )


def torn(tails: Iterable[TransactionPart], copied: Iterable[TransactionPart]) -> tuple[TornTransaction, ...]:
    """The transactions that have parts in both.

    Transactions of a producer follow each other: the markers of one are in all logs before the next one's first record.
    So two parts with one producer id and epoch belong together if their times overlap.
    """
    by_producer: dict[tuple[int, int], list[TransactionPart]] = {}
    for each in copied:
        by_producer.setdefault((each.producer_id, each.producer_epoch), []).append(each)
    found = []
    for part in sorted(tails):
        others = by_producer.get((part.producer_id, part.producer_epoch), ())
        if same := tuple(sorted(each for each in others if _overlap(part, each))):
            found.append(TornTransaction(part, same))
    return tuple(found)


def _overlap(tail: TransactionPart, copied: TransactionPart) -> bool:
    if copied.partition == tail.partition:
        return copied.marker is None and tail.marker is not None
    ends_before = copied.ended is not None and copied.ended < tail.began
    begins_after = tail.ended is not None and tail.ended < copied.began
    return not (ends_before or begins_after)
