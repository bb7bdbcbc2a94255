"""The destination of the model: one partition log and the rules by which a Kafka broker lets batches into it.

Rules as measured (reference: "Three brokers", and ProducerStateManager): a batch of a known id must continue its
sequence; a repetition of one of the last five is answered with the old offset; an id that the broker has forgotten may
begin anywhere; markers are checked by producer epoch and coordinator epoch only, lower refused and equal accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.names import ProducerId, after
from tanist.domain.writer_identity import ProducerIds

if TYPE_CHECKING:
    from collections.abc import Sequence

WRITERS: Final = ProducerIds(data=ProducerId(1000), marker=ProducerId(2000), start=ProducerId(3000))
FOREIGN: Final = 4000

NONE, NOT_ENOUGH_REPLICAS, OUT_OF_ORDER, FENCED, COORDINATOR_FENCED = 0, 19, 45, 47, 52


@dataclass(frozen=True, slots=True)
class Copied:
    """A batch of the copy; `records` are what the source's records are known by there."""

    base_offset: int
    next_offset: int
    producer_id: int
    base_sequence: int = -1
    records: tuple[int, ...] = ()
    is_control: bool = False
    epoch: int = 0
    coordinator_epoch: int = -1
    is_transactional: bool = False
    is_dense: bool = True
    max_timestamp: int = 0

    @property
    def record_count(self) -> int:
        return self.next_offset - self.base_offset


class Answer(NamedTuple):
    """`until` is where the log must be committed to before the answer goes out (acks=all)."""

    code: int
    base_offset: int = -1
    until: int = 0


class _Known(NamedTuple):
    last_five: tuple[Copied, ...] = ()
    epoch: int = 0
    coordinator_epoch: int = -1


@dataclass(slots=True)
class CopyLog:
    """`log` keeps what retention took, for the judge; `start` is where readers begin."""

    log: list[Copied] = field(default_factory=list)
    start: int = 0
    high_watermark: int = 0
    known: dict[int, _Known] = field(default_factory=dict)
    _forgotten: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.log[-1].next_offset if self.log else 0

    def produce(self, producer_id: int, sequence: int, records: tuple[int, ...]) -> Answer:
        last_five = self.known.get(producer_id, _Known()).last_five
        for old in last_five:
            if (old.base_sequence, old.record_count) == (sequence, len(records)):
                return Answer(NONE, old.base_offset, old.next_offset)
        if last_five and after(last_five[-1].base_sequence, last_five[-1].record_count) != sequence:
            return Answer(OUT_OF_ORDER)
        base = self.end
        self._append(Copied(base, base + len(records), producer_id, sequence, records))
        return Answer(NONE, base, self.end)

    def markers(self, epoch: int, coordinator_epochs: Sequence[int]) -> Answer:
        """Filler markers; one answer for all, and it is an error only where none of them landed."""
        code, landed = NONE, False
        for coordinator_epoch in coordinator_epochs:
            known = self.known.get(WRITERS.marker, _Known())
            if epoch < known.epoch:
                code = FENCED
            elif coordinator_epoch < known.coordinator_epoch:
                code = COORDINATOR_FENCED
            else:
                base = self.end
                self._append(
                    Copied(
                        base,
                        base + 1,
                        WRITERS.marker,
                        is_control=True,
                        epoch=epoch,
                        coordinator_epoch=coordinator_epoch,
                    )
                )
                landed = True
        return Answer(NONE, -1, self.end) if landed else Answer(code)

    def foreign(self, records: int) -> None:
        """Somebody who has no business here writes."""
        self._append(Copied(self.end, self.end + records, FOREIGN, records=(-1,) * records))

    def foreign_records(self) -> list[Copied]:
        return [batch for batch in self.log if batch.producer_id == FOREIGN]

    def next_sequence(self, producer_id: int) -> int | None:
        """DescribeProducers: it shows what is not committed yet, too."""
        last_five = self.known.get(producer_id, _Known()).last_five
        return after(last_five[-1].base_sequence, last_five[-1].record_count) if last_five else None

    def forget(self, producer_id: int) -> None:
        """`producer.id.expiration.ms` has passed."""
        self._forgotten[producer_id] = len(self.log)
        self.known.pop(producer_id, None)

    def lose_leader(self, cut: int) -> None:
        """Another replica takes over, with `cut` batches of those that were not committed."""
        committed = sum(batch.next_offset <= self.high_watermark for batch in self.log)
        del self.log[committed + cut :]
        self.known.clear()
        for n, batch in enumerate(self.log):
            if n >= self._forgotten.get(batch.producer_id, 0):
                self._remember(batch)

    def read(self, start: int, until: int) -> list[Copied]:
        first = len(self.log)
        while first and self.log[first - 1].next_offset > start:
            first -= 1
        return [batch for batch in self.log[first:] if batch.base_offset < until]

    def _append(self, batch: Copied) -> None:
        self.log.append(batch)
        self._remember(batch)

    def _remember(self, batch: Copied) -> None:
        known = self.known.get(batch.producer_id, _Known())
        if batch.is_control:
            self.known[batch.producer_id] = _Known(known.last_five, batch.epoch, batch.coordinator_epoch)
        else:
            self.known[batch.producer_id] = known._replace(last_five=(*known.last_five, batch)[-5:])
