"""Writes gap markers up to given ends of logs whose records are fenced: the reserve of a failover.

On compacted topics as well: readers never see them, and the cleaner takes them away. The record that keeps the fence
from compaction comes behind them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.gap_markers import LAST_EPOCH, coordinator_epochs
from tanist.domain.names import DestinationOffset, TopicPartition
from tanist.kafka.adapters.settled_ends import settled_ends
from tanist.kafka.wire.requests import Markers, describe_producers, write_markers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.names import ProducerId
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_Answers: TypeAlias = "dict[TopicPartition, DestinationOffset | TanistError]"
MOST_AT_ONCE = 5_000
"""Markers for each leader in one request: some 0.2 s where nothing else is at work, and a time limit is kept."""


class Reserving:
    """Owned by one thread, with the router that it is given.

    Its producer epoch is higher than any that a leader has seen of the markers' id, so markers of workers that are on
    their way are refused once the first of ours has landed. After a request whose markers were not counted exactly, the
    next one has a higher epoch again.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._epochs: dict[TopicPartition, int] = {}

    def write(
        self, ends: Mapping[TopicPartition, int], marker_ids: Mapping[TopicPartition, ProducerId], by: Deadline
    ) -> _Answers:
        """One request to each leader; where the logs end then, committed."""
        found = _offsets(settled_ends(self._router, ends, by))
        missing = {
            at: range(end, ends[at]) for at, end in found.items() if not isinstance(end, TanistError) and end < ends[at]
        }
        wanted = self._bounded(missing)
        found |= self._raise_epochs([at for at in wanted if at not in self._epochs], marker_ids, by)
        markers = {
            at: Markers(marker_ids[at], self._epochs[at], coordinator_epochs(DestinationOffset(each.start), len(each)))
            for at, each in wanted.items()
            if at in self._epochs
        }
        refused = write_markers(self._router, markers, by) if markers else {}
        found |= _offsets(settled_ends(self._router, markers, by))
        found |= {at: error for at, error in refused.items() if error is not None}
        for at in markers:
            if found[at] != wanted[at].stop:
                self._epochs.pop(at)
        return found

    def _bounded(self, missing: Mapping[TopicPartition, range]) -> dict[TopicPartition, range]:
        """The offsets that one request to each leader fills."""
        left: defaultdict[int, int] = defaultdict(lambda: MOST_AT_ONCE)
        wanted: dict[TopicPartition, range] = {}
        for at, offsets in missing.items():
            leader = self._router.leader(at)
            if some := offsets[: left[leader]]:
                wanted[at] = some
                left[leader] -= len(some)
        return wanted

    def _raise_epochs(
        self, partitions: Collection[TopicPartition], marker_ids: Mapping[TopicPartition, ProducerId], by: Deadline
    ) -> _Answers:
        """Choose the epochs; returns the partitions that have none, with the reason."""
        failed: _Answers = {}
        for at, producers in describe_producers(self._router, partitions, by).items() if partitions else ():
            if isinstance(producers, TanistError):
                failed[at] = producers
                continue
            seen = max((e.producer_epoch for e in producers if e.producer_id == marker_ids[at]), default=0)
            if seen + 1 < LAST_EPOCH:
                self._epochs[at] = seen + 1
            else:
                failed[at] = CouldNotTell(f"{at}: no producer epoch of gap markers is left")
        return failed


def _offsets(ends: Mapping[TopicPartition, int | TanistError]) -> _Answers:
    return {at: end if isinstance(end, TanistError) else DestinationOffset(end) for at, end in ends.items()}
