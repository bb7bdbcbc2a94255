"""Old pieces of the offset maps of a thread's partitions are thinned and deleted: one partition in a round, at most."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from tanist.domain.delivery import Delivery
from tanist.domain.errors import Stopped, TanistError
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.thinning import ANCHOR_BYTES, NOTHING, MapOnRecord, next_step
from tanist.kafka.wire import requests
from tanist.kafka.wire.requests import End

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.anchors import OffsetAnchorsWritten
    from tanist.domain.mapped_runs import OffsetRangesWritten
    from tanist.domain.names import MirrorPartition
    from tanist.fetcher.assignment import Assigned
    from tanist.fetcher.engines.transactions.partition import TransactionPartition
    from tanist.fetcher.runs import OffsetRuns
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.wire.router import Router

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 60.0
"""From one look at all partitions to the next."""
ANSWER_SECONDS: Final = 5.0
AFTER_FAILURE_SECONDS: Final = 300.0
BYTES: Final = ANCHOR_BYTES


class MapThinning:
    """Owned by the fetcher thread. The state topic is not read for it, but as far as it was read anyway."""

    def __init__(self, destination: Router, runs: OffsetRuns, tools: FetcherThreadTools) -> None:
        self._destination = destination
        self._runs = runs
        self._clock = tools.clock
        self._spec = tools.spec
        self._due: dict[MirrorPartition, MapOnRecord] = {}
        self._looked_until: dict[MirrorPartition, SourceOffset] = {}
        self._next_at = float("-inf")

    def step(self, partitions: Sequence[TransactionPartition]) -> None:
        """Do one step for one partition, if any is due. That it cannot be done is logged, and hinders nothing."""
        now = self._clock.monotonic()
        try:
            if self._due:
                self._thin(partitions)
            elif now >= self._next_at:
                self._next_at = now + EVERY_SECONDS
                self._due = self._look([each for each in partitions if each.halted is None])
        except Stopped:
            raise
        except TanistError as why:
            self._due, self._next_at = {}, now + AFTER_FAILURE_SECONDS
            log.warning("the offset map is not thinned", extra={"error": why.name, "reason": why.reason})

    def _look(self, partitions: Sequence[TransactionPartition]) -> dict[MirrorPartition, MapOnRecord]:
        """What is on record of those that have any; nothing of it is decoded here."""
        view = self._runs.pieces()
        ranges: defaultdict[MirrorPartition, list[OffsetRangesWritten]] = defaultdict(list)
        anchors: defaultdict[MirrorPartition, list[OffsetAnchorsWritten]] = defaultdict(list)
        for piece in view.offset_ranges(self._spec):
            ranges[piece.partition].append(piece)
        for each in view.offset_anchors(self._spec):
            anchors[each.partition].append(each)
        ours = [each for each in partitions if len(ranges[each.at]) + len(anchors[each.at]) > 1]
        starts = self._log_starts(ours)
        return {
            each.at: MapOnRecord(
                ranges=ranges[each.at],
                anchors=anchors[each.at],
                log_start=starts[each.at],
                unpublished=each.committed.size if each.committed is not None else 0,
                thins=_thins(each.assigned),
                looked_until=self._looked_until.get(each.at, SourceOffset(0)),
                anchor_bytes=BYTES,
            )
            for each in ours
            if each.at in starts
        }

    def _log_starts(self, partitions: Sequence[TransactionPartition]) -> Mapping[MirrorPartition, DestinationOffset]:
        if not partitions:
            return {}
        by = self._clock.deadline(ANSWER_SECONDS)
        found = requests.list_offsets(self._destination, dict.fromkeys((p.at for p in partitions), End.EARLIEST), by)
        return {at: DestinationOffset(each) for at, each in found.items() if not isinstance(each, TanistError)}

    def _thin(self, partitions: Sequence[TransactionPartition]) -> None:
        at, on_record = self._due.popitem()
        of = next((each for each in partitions if each.at == at and each.halted is None), None)
        if of is None:
            return
        step = next_step(on_record)
        if step != NOTHING:
            self._runs.thin(of.assigned, step, self._clock.deadline(ANSWER_SECONDS))
            self._looked_until[at] = step.looked_until


def _thins(of: Assigned) -> bool:
    """Whether the log of the copy gives back what anchors leave out: nobody removes records, none is there again."""
    return not of.compacted and of.spec.delivery is Delivery.EXACTLY_ONCE
