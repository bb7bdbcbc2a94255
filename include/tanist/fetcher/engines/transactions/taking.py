"""What of the steps that were read goes into one append: so much as the transaction has room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.copying import Append, Refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.names import SourceOffset
    from tanist.fetcher.engines.transactions.partition import TransactionPartition
    from tanist.kafka.protocol.batch import BatchHeader

MOST_RANGES: Final = 400
"""Of a partition in one transaction: beside the proof they have to fit into the metadata of its position."""


@dataclass(slots=True)
class Taken:
    """What is to be appended of a partition. `begun`: the position before."""

    of: TransactionPartition
    headers: list[BatchHeader]
    begun: SourceOffset


def take(partitions: Sequence[TransactionPartition], room: int, now: float) -> Iterator[tuple[Taken, list[memoryview]]]:
    """Of each of `partitions` what is taken of its steps, and its batches; of the first one at least one batch.

    `room`: bytes of batches that the transaction has room for; the partitions behind it are left out. `now`: monotonic
    seconds.
    """
    for each in partitions:
        taken, payloads = _take(each, room, now)
        room -= sum(map(len, payloads))
        yield taken, payloads
        if room <= 0:
            return


def _take(of: TransactionPartition, size: int, now: float) -> tuple[Taken, list[memoryview]]:
    """Take the steps of a partition, up to one that refuses, or was refused: it is alone once the others are committed.

    And no more than leave as many ranges as can ride with its position, nor batches of more than `size` bytes behind
    the first one.
    """
    headers: list[BatchHeader] = []
    payloads: list[memoryview] = []
    steps = of.pipeline.steps
    begun = of.next_position
    room = MOST_RANGES - len(of.riding)
    while steps and not isinstance(step := steps[0], Refuse) and (not headers or (room > 0 and size > 0)):
        if isinstance(step, Append) and (headers or of.holds_batches) and of.ends_before(step.header):
            break
        steps.popleft()
        if isinstance(step, Append):
            size -= len(step.payload)
            headers.append(step.header)
            payloads.append(step.payload)
        else:
            room -= 1
        of.passed(step.until, now)
    if steps and of.opened is None and isinstance(step := steps[0], Refuse):
        of.halt(step.error, now)
    return Taken(of, headers, begun), payloads
