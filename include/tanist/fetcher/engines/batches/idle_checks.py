"""What no append would show of the destination's logs: foreign writes, and deletions that follow the source's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import Stopped, TanistError
from tanist.domain.names import DestinationOffset
from tanist.kafka.wire import requests
from tanist.kafka.wire.requests import End

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock

log = logging.getLogger(__name__)

CONTROL_SECONDS: Final = 10.0
CHECK_IDLE_EVERY_SECONDS: Final = 4.0
PARTITIONS_A_SECOND: Final = 1_000
"""Of many partitions it is done less often: of 10,000 every 14 s."""


class IdleChecks:
    """Owned by the fetcher thread."""

    def __init__(self, destination: Router, clock: Clock) -> None:
        self._destination = destination
        self._clock = clock
        self._due_at = 0.0

    def check(self, partitions: Sequence[BatchPartition]) -> None:
        """From time to time check what no append would show: foreign writes, and deletions at the source."""
        now = self._clock.monotonic()
        if now >= self._due_at:
            self._due_at = now + CHECK_IDLE_EVERY_SECONDS + len(partitions) / PARTITIONS_A_SECOND
            self._look_at_ends([each for each in partitions if each.idle])
            self._trim(partitions)

    def _look_at_ends(self, idle: Sequence[BatchPartition]) -> None:
        """Halt a partition whose end moved without our appends: the recovery reads both logs."""
        by = self._clock.deadline(CONTROL_SECONDS)
        try:
            marks = requests.list_offsets(self._destination, {each.at: End.HIGH_WATERMARK for each in idle}, by)
        except Stopped:
            raise
        except TanistError as why:
            log.warning("idle copies were not looked at", extra={"reason": why.reason})
            return
        for each in idle:
            mark, end = marks[each.at], each.pipeline.end
            if isinstance(mark, UnknownTopicOrPartition):
                each.halt(mark, self._clock.monotonic())
            elif isinstance(mark, int) and mark != end:  # shorter: what was acknowledged is gone
                each.halt(None, self._clock.monotonic(), suspect_from=end)

    def _trim(self, partitions: Iterable[BatchPartition]) -> None:
        """Delete records that the source has deleted: the log start follows the source's (KIP-1279)."""
        wanted = {each.at: (each, start) for each in partitions if (start := _start_to_follow(each)) is not None}
        offsets = {at: start for at, (_, start) in wanted.items()}
        try:
            answers = requests.delete_records(self._destination, offsets, self._clock.deadline(CONTROL_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            answers = dict.fromkeys(offsets, why)
        for at, answer in answers.items():
            if isinstance(answer, TanistError):
                log.warning("log start does not follow", extra={"partition": str(at), "reason": answer.reason})
            else:
                wanted[at][0].log_start = DestinationOffset(answer)


def _start_to_follow(of: BatchPartition) -> DestinationOffset | None:
    pipeline = of.pipeline
    if pipeline.halted or pipeline.landed_end is None:
        return None
    start = pipeline.offsets.locate(of.source.log_start)
    return start if of.log_start < start <= pipeline.landed_end else None
