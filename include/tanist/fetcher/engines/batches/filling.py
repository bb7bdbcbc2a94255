"""Gap markers: one offset each, invisible to consumers.

Markers are not compare-and-append. The lease makes a surplus rare. It is harmless, because the epoch increases after
every fill that was not confirmed exactly, the result is counted by committed offsets and never by the answer, and a
shift becomes a range of the offset map before the next record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import MessageTooLarge, OutOfOrderSequence
from tanist.domain.errors import LogStartTooFar, Stopped, TanistError
from tanist.domain.gap_markers import Count, NotAsExpected, coordinator_epochs, count, ends_at
from tanist.domain.names import SEQUENCE_MODULUS, DestinationOffset
from tanist.fetcher.engines.batches.evidence import committed_and_end, copy_ends
from tanist.kafka.protocol.batch import filler_batch
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire import requests
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End, Markers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.names import MirrorPartition
    from tanist.fetcher.claims import Claims
    from tanist.fetcher.engines.batches.partition import BatchPartition, StartFill
    from tanist.kafka.wire.hot import Appends
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock, Deadline


MOST_AT_ONCE: Final = 5_000
"""Markers in one request: 20,000 took 0.64 s, and delay other requests to that leader."""
COUNT_SECONDS: Final = 5.0


class Filling:
    """Fills gaps of many partitions at once, in three round trips to each leader."""

    def __init__(self, destination: Router, claims: Claims, clock: Clock) -> None:
        self._destination = destination
        self._claims = claims
        self._clock = clock

    def fill_gaps(self, partitions: Sequence[BatchPartition], by: Deadline) -> Mapping[MirrorPartition, TanistError]:
        """Fill the gap of each pipeline (FILL_GAP); returns errors by partition, which the caller must halt.

        Nothing may be in flight for any of them.
        """
        failed: dict[MirrorPartition, TanistError] = {}
        wanted = {each.at: each for each in partitions}
        for at, why in self._unready(wanted, by).items():
            failed[at] = why
            wanted.pop(at)
        while wanted:
            gaps = {at: each.pipeline.gap_markers for at, each in wanted.items()}
            missing = {at: min(MOST_AT_ONCE, markers) for at, markers in gaps.items() if markers}
            for at in wanted.keys() - missing.keys():
                wanted.pop(at).pipeline.gap_filled()
            failed |= self._write(missing, wanted, by)
            for at in failed.keys() & wanted.keys():
                wanted.pop(at)
        return failed

    def _unready(
        self, wanted: Mapping[MirrorPartition, BatchPartition], by: Deadline
    ) -> dict[MirrorPartition, TanistError]:
        """Why a fill must not be attempted: the end moved, or is not committed, or the epoch is spent."""
        found: dict[MirrorPartition, TanistError] = {}
        for at, ends in committed_and_end(self._destination, list(wanted), by).items():
            expected = wanted[at].pipeline.end
            try:
                committed, end = value(ends)
                if not ends_at(committed, end, expected):
                    raise NotAsExpected(f"{at} ends at {end}, committed {committed}, not at {expected}")
                if wanted[at].markers.spent:
                    self._renew_epoch(wanted[at], by)
            except Stopped:
                raise
            except TanistError as why:
                found[at] = why
        return found

    def _renew_epoch(self, of: BatchPartition, by: Deadline) -> None:
        """The next epoch, greater than any that the leader has seen of the marker producer id."""
        producers = value(requests.describe_producers(self._destination, [of.at], by)[of.at])
        filler = of.assigned.spec.marker_id
        seen = max((p.producer_epoch for p in producers if p.producer_id == filler), default=0)
        of.markers.renewed(self._claims.raise_epoch(of.assigned.state_partition, max(seen, of.markers.value), by))

    def _write(
        self, missing: Mapping[MirrorPartition, int], wanted: Mapping[MirrorPartition, BatchPartition], by: Deadline
    ) -> dict[MirrorPartition, TanistError]:
        failed: dict[MirrorPartition, TanistError] = {}
        markers: dict[MirrorPartition, Markers] = {}
        for at, number in missing.items():
            if why := self._claims.objection(wanted[at].assigned):
                failed[at] = why
            else:
                markers[at] = _markers(wanted[at], number)
                wanted[at].markers.sent()
        answers = requests.write_markers(self._destination, markers, by)
        failed |= {at: refused for at, refused in answers.items() if isinstance(refused, TanistError)}
        failed |= self._count({at: missing[at] for at in markers if at not in failed}, wanted)
        for at in markers.keys() - failed.keys():
            wanted[at].markers.counted()
        return failed

    def _count(
        self, sent: Mapping[MirrorPartition, int], wanted: Mapping[MirrorPartition, BatchPartition]
    ) -> dict[MirrorPartition, TanistError]:
        """Wait until as many offsets are committed as markers were sent; more, or a timeout, is an error."""
        failed: dict[MirrorPartition, TanistError] = {}
        pending = {at: wanted[at].pipeline.end + number for at, number in sent.items()}
        by = self._clock.deadline(COUNT_SECONDS)
        while pending:
            marks = requests.list_offsets(self._destination, dict.fromkeys(pending, End.HIGH_WATERMARK), by)
            for at, mark in marks.items():
                if isinstance(mark, TanistError):
                    failed[at] = mark
                    pending.pop(at)
                elif (counted := count(mark, pending[at])) is Count.LANDED:
                    wanted[at].pipeline.end = DestinationOffset(pending.pop(at))
                elif counted is Count.SURPLUS or not by.left(self._clock.monotonic()):
                    failed[at] = NotAsExpected(f"{at} is committed up to {mark} after a fill to {pending.pop(at)}")
            if pending:
                self._destination.pause(0.005, by)
        return failed


def _markers(of: BatchPartition, number: int) -> Markers:
    return Markers(of.assigned.spec.marker_id, of.markers.value, coordinator_epochs(of.pipeline.end, number))


OFFSETS_IN_A_BATCH: Final = 400_000
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
        self._behind: dict[MirrorPartition, int] = {}
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
        count = min(self._chunk.get(topic, OFFSETS_IN_A_BATCH), way.to - way.end)
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
