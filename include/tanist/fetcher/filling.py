"""Filler markers: one offset each, invisible to every reader.

Markers are not compare-and-append. The lease makes a surplus rare; what makes it harmless is that the epoch rises after
every fill that was not seen to land exactly, that the result is counted by committed offsets and never by the answer,
and that a shift becomes a run of the offset map before the next record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.copying import Fill, fillers
from tanist.domain.errors import CouldNotTell, Stopped, TanistError
from tanist.domain.names import DestinationOffset
from tanist.fetcher.evidence import committed_and_end
from tanist.wire import requests
from tanist.wire.leaders import value
from tanist.wire.requests import End, Markers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.names import TopicPartition
    from tanist.fetcher.claims import Claims
    from tanist.fetcher.copy import PartitionCopy
    from tanist.ports.clock import Clock, Deadline
    from tanist.wire.router import Router

MOST_AT_ONCE: Final = 5_000
"""Markers in one request: 20,000 took 0.64 s, and delay everybody else on that leader."""
COUNT_SECONDS: Final = 5.0


class NotAsExpected(CouldNotTell):
    name = "END_MOVED"
    operator_action = "none: both logs are read again"


class Filling:
    """Fills gaps of many partitions at once, in three round trips to each leader."""

    def __init__(self, destination: Router, claims: Claims, clock: Clock) -> None:
        self._destination = destination
        self._claims = claims
        self._clock = clock

    def fill(self, copies: Sequence[PartitionCopy], by: Deadline) -> Mapping[TopicPartition, TanistError]:
        """Do the Fill that is the first step of each copy; what failed, by partition.

        A copy that is done has moved on; one that failed must recover. Nothing may be in flight for any of them.
        """
        failed: dict[TopicPartition, TanistError] = {}
        wanted = {copy.partition: copy for copy in copies}
        for at, why in self._unready(wanted, by).items():
            failed[at] = why
            wanted.pop(at)
        while wanted:
            missing = {at: min(MOST_AT_ONCE, _missing(copy)) for at, copy in wanted.items() if _missing(copy)}
            for at in wanted.keys() - missing.keys():
                _done(wanted.pop(at))
            failed |= self._write(missing, wanted, by)
            for at in failed.keys() & wanted.keys():
                wanted.pop(at)
        return failed

    def _unready(
        self, wanted: Mapping[TopicPartition, PartitionCopy], by: Deadline
    ) -> dict[TopicPartition, TanistError]:
        """Why a fill must not be tried: the end moved, or is not committed, or the epoch is spent."""
        found: dict[TopicPartition, TanistError] = {}
        for at, ends in committed_and_end(self._destination, list(wanted), by).items():
            copy = wanted[at]
            try:
                committed, end = value(ends)
                if not committed == end == copy.end:
                    raise NotAsExpected(f"{at} ends at {end}, committed {committed}, not at {copy.end}")
                if copy.filler_spent:
                    self._renew_epoch(copy, by)
            except Stopped:
                raise
            except TanistError as why:
                found[at] = why
        return found

    def _renew_epoch(self, copy: PartitionCopy, by: Deadline) -> None:
        """The next epoch, above whatever the leader has seen of our filler id."""
        producers = value(requests.describe_producers(self._destination, [copy.partition], by)[copy.partition])
        filler = copy.writers.filler
        seen = max((p.producer_epoch for p in producers if p.producer_id == filler), default=0)
        copy.filler_epoch = self._claims.raise_epoch(copy.assigned.slice, max(seen, copy.filler_epoch), by)
        copy.filler_spent = False

    def _write(
        self, missing: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, PartitionCopy], by: Deadline
    ) -> dict[TopicPartition, TanistError]:
        failed: dict[TopicPartition, TanistError] = {}
        markers: dict[TopicPartition, Markers] = {}
        for at, count in missing.items():
            copy = wanted[at]
            if why := self._claims.objection(copy.assigned):
                failed[at] = why
            else:
                markers[at] = _markers(copy, count)
                copy.filler_spent = True  # until they have been counted, however this ends
        answers = requests.write_markers(self._destination, markers, by)
        failed |= {at: refused for at, refused in answers.items() if isinstance(refused, TanistError)}
        failed |= self._count({at: missing[at] for at in markers if at not in failed}, wanted)
        for at in markers.keys() - failed.keys():
            wanted[at].filler_spent = False
        return failed

    def _count(
        self, sent: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, PartitionCopy]
    ) -> dict[TopicPartition, TanistError]:
        """Wait until as many offsets are committed as were sent; more, or not in time, is a failure."""
        failed: dict[TopicPartition, TanistError] = {}
        pending = {at: wanted[at].end + count for at, count in sent.items()}
        by = self._clock.deadline(COUNT_SECONDS)
        while pending:
            marks = requests.list_offsets(self._destination, dict.fromkeys(pending, End.HIGH_WATERMARK), by)
            for at, mark in marks.items():
                if mark == pending[at]:
                    wanted[at].end = DestinationOffset(pending.pop(at))
                elif isinstance(mark, TanistError):
                    failed[at] = mark
                    pending.pop(at)
                elif mark > pending[at] or not by.left(self._clock.monotonic()):
                    failed[at] = NotAsExpected(f"{at} is committed up to {mark} after a fill to {pending.pop(at)}")
            if pending:
                self._destination.pause(0.005, by)
        return failed


def _missing(copy: PartitionCopy) -> int:
    gap = copy.steps[0]
    assert isinstance(gap, Fill)  # noqa: S101  # the caller's contract
    return fillers(gap.until, copy.end)


def _done(copy: PartitionCopy) -> None:
    gap = copy.steps.popleft()
    copy.map_unchecked = True
    copy.reached(gap.until, copy.end)  # type: ignore[union-attr]


def _markers(copy: PartitionCopy, count: int) -> Markers:
    """Coordinator epochs are the target offsets: a marker for an offset that is taken is refused (52)."""
    targets = range(copy.end, copy.end + count)
    return Markers(copy.writers.filler, copy.filler_epoch, tuple(target & 0x7FFFFFFF for target in targets))
