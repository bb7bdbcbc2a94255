"""Reserves offsets of compacted topics with copies of the last record: those are what a compacted log has anyway.

The data id writes them, in the producer epoch of its fence, and each batch follows its last one or is refused. So they
also are the records that keep the fence from compaction.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.names import SEQUENCE_MODULUS, DestinationOffset, TopicPartition
from tanist.kafka.adapters.keeping import DATA_EPOCH
from tanist.kafka.adapters.last_records import OffsetSpan, last_records
from tanist.kafka.adapters.settled_ends import settled_ends
from tanist.kafka.protocol.batch import header_of, patch, single_record_batch
from tanist.kafka.protocol.record_set import encoded
from tanist.kafka.protocol.records_left import records_left
from tanist.kafka.protocol.refilling import copies
from tanist.kafka.wire.requests import End, append, describe_producers, list_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.names import ProducerId
    from tanist.kafka.adapters.last_records import Last
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

LIMIT: Final = 900_000
"""Bytes of a batch, below the default `max.message.bytes`."""


class ReservingCopies:
    """Owned by one thread, with the router that it is given."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._lasts: dict[TopicPartition, Last | None] = {}

    def write(
        self, ends: Mapping[TopicPartition, int], data_ids: Mapping[TopicPartition, ProducerId], by: Deadline
    ) -> dict[TopicPartition, DestinationOffset | TanistError | None]:
        """One batch to each partition; where the logs end then, committed. None: no record has a key."""
        found: dict[TopicPartition, DestinationOffset | TanistError | None] = {}
        starts = settled_ends(self._router, ends, by)
        missing = {at: start for at, start in starts.items() if not isinstance(start, TanistError) and start < ends[at]}
        self._read_lasts(missing, by)
        sequences = self._sequences({at: data_ids[at] for at in missing}, by)
        batches: dict[TopicPartition, bytearray] = {}
        for at, start in missing.items():
            last, sequence = self._lasts[at], sequences[at]
            if last is None:
                found[at] = None
            elif isinstance(sequence, TanistError):
                found[at] = sequence
            else:
                batches[at] = _batch(last, start, ends[at], data_ids[at], sequence)
        landed = append(self._router, batches, by) if batches else {}
        found |= {at: _misplaced(at, base, missing[at]) for at, base in landed.items() if base != missing[at]}
        left = [at for at in ends if at not in found]
        after = settled_ends(self._router, left, by)
        return found | {at: e if isinstance(e, TanistError) else DestinationOffset(e) for at, e in after.items()}

    def _read_lasts(self, ends: Mapping[TopicPartition, int], by: Deadline) -> None:
        """Nobody else can write any more, so the last record with a key stays the last one."""
        asked = [at for at in ends if at not in self._lasts]
        if not asked:
            return
        starts = list_offsets(self._router, dict.fromkeys(asked, End.EARLIEST), by)
        spans = {
            at: OffsetSpan(0 if isinstance(start, TanistError) else start, ends[at]) for at, start in starts.items()
        }
        self._lasts |= last_records(self._router.endpoint, spans, by)

    def _sequences(
        self, data_ids: Mapping[TopicPartition, ProducerId], by: Deadline
    ) -> dict[TopicPartition, int | TanistError]:
        """What each leader expects next; 0 after a marker alone."""
        found: dict[TopicPartition, int | TanistError] = {}
        for at, answer in describe_producers(self._router, data_ids, by).items() if data_ids else ():
            if isinstance(answer, TanistError):
                found[at] = answer
                continue
            own = (e.last_sequence for e in answer if (e.producer_id, e.producer_epoch) == (data_ids[at], DATA_EPOCH))
            found[at] = (max(own, default=-1) + 1) % SEQUENCE_MODULUS
        return found


def _batch(last: Last, start: int, end: int, data_id: ProducerId, sequence: int) -> bytearray:
    """The first batch of [start, end). With the current time: brokers forget a producer id whose last record is old."""
    now = time.time_ns() // 1_000_000
    one = memoryview(
        single_record_batch(encoded(last.key, last.value, last.headers), data_id, DATA_EPOCH, sequence, now)
    )
    header = header_of(one)
    (record,) = records_left(header, one)
    batch = next(iter(copies(header, record, start, end, LIMIT))).payload
    patch(batch, data_id, DATA_EPOCH, sequence)
    return bytearray(batch)


def _misplaced(at: TopicPartition, base: int | TanistError, expected: int) -> TanistError:
    if isinstance(base, TanistError):
        return base
    return CouldNotTell(f"{at}: a batch for {expected} was appended at {base}")
