"""What of the steps that were read goes into one append: so much as the transaction has room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.copying import Append, Refuse
from tanist.domain.names import SourceOffset
from tanist.kafka.wire.copy_transactions import CopiedBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.names import DestinationOffset, MirrorPartition
    from tanist.fetcher.engines.transactions.partition import TransactionPartition
    from tanist.kafka.protocol.batch import BatchHeader

MOST_RANGES: Final = 400
"""Of a partition in one transaction: beside the proof they have to fit into the metadata of its position."""


@dataclass(slots=True)
class Taken:
    """What is to be appended of a partition. `headers`: as the source has them; `begun`: the position before."""

    of: TransactionPartition
    headers: list[BatchHeader]
    batches: list[CopiedBatch]
    begun: SourceOffset

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(each.payload) for each in self.batches)

    @property
    def largest(self) -> int:
        """Bytes of the largest batch; 0: there is none."""
        return max((len(each.payload) for each in self.batches), default=0)


def take(partitions: Sequence[TransactionPartition], room: int, now: float) -> Iterator[Taken]:
    """Of each of `partitions` what is taken of its steps; of the first one at least one batch.

    `room`: bytes of batches that the transaction has room for; the partitions behind it are left out. `now`: monotonic
    seconds.
    """
    for each in partitions:
        taken = _take(each, room, now)
        room -= taken.size
        yield taken
        if room <= 0:
            return


def _take(of: TransactionPartition, size: int, now: float) -> Taken:
    """Take the steps of a partition, up to one that refuses, or was refused: it is alone once the others are committed.

    And no more than leave as many ranges as can ride with its position, nor batches of more than `size` bytes behind
    the first one.
    """
    headers: list[BatchHeader] = []
    batches: list[CopiedBatch] = []
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
            batches.append(CopiedBatch(of.at, step.payload, step.header.record_count))
        else:
            room -= 1
        of.passed(step.until, now)
    if steps and of.opened is None and isinstance(step := steps[0], Refuse):
        of.halt(step.error, now)
    return Taken(of, headers, batches, begun)


def behind_others(taken: Sequence[Taken], bases: Sequence[DestinationOffset]) -> Mapping[MirrorPartition, SourceOffset]:
    """Where the first batch begins that was not appended, of those with others before it in the transaction.

    `bases`: where each batch was appended, in their order; -1: it was not.
    """
    found, offsets = {}, iter(bases)
    for each in taken:
        appended = [next(offsets) >= 0 for _ in each.headers]
        if not all(appended) and (appended[0] or each.of.holds_batches):
            found[each.of.at] = SourceOffset(each.headers[appended.index(False)].base_offset)
    return found
