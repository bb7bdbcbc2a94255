"""Fills an empty mirror partition up to the source's log start N: N unused offsets, then DeleteRecords up to N."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import MessageTooLarge, OutOfOrderSequence
from tanist.domain.errors import LogStartTooFar
from tanist.domain.gap_markers import NotAsExpected, ends_at
from tanist.domain.names import SEQUENCE_MODULUS, DestinationOffset
from tanist.fetcher.engines.batches.evidence import copy_ends
from tanist.kafka.protocol.batch import filler_batch
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire import requests
from tanist.kafka.wire.leaders import value

if TYPE_CHECKING:
    from tanist.domain.names import TopicPartition
    from tanist.fetcher.engines.batches.partition import BatchPartition, StartFill
    from tanist.kafka.wire.hot import Appends
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock, Deadline

MOST_AT_ONCE: Final = 400_000
"""Offsets in one batch: some 560 kB, under the default max.message.bytes of 1 MiB."""


class StartFilling:
    """One chunk per call, so that a long fill does not delay the other partitions of the fetcher thread.

    The batches have a producer id of their own and the offset as sequence: two workers, or one that repeats it, write
    each offset once. They have the current time: with old timestamps the broker would forget the id. If the log was
    filled before (retention deleted records before they were copied), sequences continue after the last one, at a
    distance that any other worker derives, too.
    """

    def __init__(self, destination: Router, clock: Clock) -> None:
        self._destination = destination
        self._clock = clock
        self._chunk: dict[str, int] = {}
        self._behind: dict[TopicPartition, int] = {}
        """By how much the sequences are behind the offsets."""

    def step(self, of: BatchPartition, appends: Appends, by: Deadline) -> bool:
        """Write the next chunk of its `start_fill`; True once both logs begin at the same offset.

        Then, and after any error, both logs must be read again.

        Raises:
            LogStartTooFar: the fill is longer than the mirror allows.
        """
        way = of.start_fill
        assert way is not None  # noqa: S101  # the caller's contract
        if way.to - way.end > of.assigned.spec.max_start_fill:
            raise LogStartTooFar(
                f"{of.at}: the source begins at {way.to}, which needs {way.to - way.end} filled offsets; "
                f"the limit is {of.assigned.spec.max_start_fill}"
            )
        if way.end < way.to:
            self._append(of, way, appends, by)
            return False
        value(requests.delete_records(self._destination, {of.at: way.to}, by)[of.at])
        return True

    def _append(self, of: BatchPartition, way: StartFill, appends: Appends, by: Deadline) -> None:
        topic = of.at.topic
        count = min(self._chunk.get(topic, MOST_AT_ONCE), way.to - way.end)
        behind = self._behind.pop(of.at, 0)
        sequence = (way.end - behind) % SEQUENCE_MODULUS
        batch = filler_batch(count, of.assigned.spec.start_id, 0, sequence, self._clock.now())
        appends.post([of.to_append(memoryview(batch))], by)
        answer = appends.collect(by).partitions[0]
        refused = None if answer.error_code == NONE else error_for(answer.error_code, f"fillers of {of.at}")
        if isinstance(refused, MessageTooLarge) and count > 1:
            self._chunk[topic] = count // 2
        elif isinstance(refused, OutOfOrderSequence) and not behind:
            self._behind[of.at] = self._distance(of, way, by)
        elif refused is not None:
            raise refused
        elif answer.base_offset == way.end:
            way.end = DestinationOffset(way.end + count)
            self._behind[of.at] = behind
        else:
            raise NotAsExpected(f"gap markers of {of.at} were written at {answer.base_offset}, not at {way.end}")

    def _distance(self, of: BatchPartition, way: StartFill, by: Deadline) -> int:
        """The end is read after the sequence, so that offsets filled by another worker in between are seen."""
        at, start_id = of.at, of.assigned.spec.start_id
        producers = value(requests.describe_producers(self._destination, [at], by)[at])
        expected = next((p.last_sequence + 1 for p in producers if p.producer_id == start_id), 0)
        ends = value(copy_ends(self._destination, [at], by)[at])
        if not ends_at(ends.high_watermark, ends.end, way.end):
            raise NotAsExpected(f"{at} ends at {ends.end}, committed {ends.high_watermark}, not at {way.end}")
        return way.end - expected
