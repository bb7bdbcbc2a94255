"""Reads who has written logs, from batch headers and from what leaders remember: the port `LogInspection`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell, Stopped, TanistError, TimedOut
from tanist.domain.log_writers import KnownProducer, LogWriters, WrittenSpan, ends_reserve
from tanist.domain.names import DestinationOffset
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import describe_producers, fetch, readable_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tanist.domain.names import TopicPartition
    from tanist.domain.recovery import ProducerIds
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.requests import ActiveProducer
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_WINDOW: Final = 64
"""Offsets read back from the end at first; four times as many each time while there is no record among them."""
_BYTES: Final = 1 << 16
_COMMITTED: Final = FetchLimits(max_wait_ms=0, isolation=Isolation.READ_UNCOMMITTED)


class KafkaLogInspection:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def writers(
        self, partitions: Collection[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, LogWriters | TanistError]:
        remembered = describe_producers(self._router, partitions, by)
        found: dict[TopicPartition, LogWriters | TanistError] = {}
        for at, ends in readable_ends(self._router, partitions, by).items():
            try:
                bounds = value(ends)
                known = tuple(map(_known, value(remembered[at])))
                found[at] = self._writers(at, bounds.start, bounds.high_watermark, known, by)
            except Stopped:
                raise
            except TanistError as why:
                found[at] = why
        return found

    def reserve_ends(
        self, old_ends: Mapping[TopicPartition, DestinationOffset], producer_ids: ProducerIds, by: Deadline
    ) -> Mapping[TopicPartition, DestinationOffset | TanistError]:
        found: dict[TopicPartition, DestinationOffset | TanistError] = {}
        for at, ends in readable_ends(self._router, old_ends, by).items():
            try:
                end = value(ends).high_watermark
                spans = self._spans(at, old_ends[at], end, by)
                own = next((span.base_offset for span in spans if ends_reserve(span, producer_ids)), end)
                found[at] = DestinationOffset(max(own, old_ends[at]))
            except Stopped:
                raise
            except TanistError as why:
                found[at] = why
        return found

    def _writers(
        self, at: TopicPartition, start: int, end: int, known: tuple[KnownProducer, ...], by: Deadline
    ) -> LogWriters:
        window = _WINDOW
        while True:
            begin = max(start, end - window)
            last = list(self._spans(at, begin, end, by))
            if begin == start or not all(span.control for span in last):
                break
            window *= 4
        return LogWriters(start=start, end=end, last=tuple(last), producers=known)

    def _spans(self, at: TopicPartition, begin: int, end: int, by: Deadline) -> Iterator[WrittenSpan]:
        """The batches that reach into [begin, end). Raises CouldNotTell."""
        while begin < end:
            if not by.left(time.monotonic()):
                raise TimedOut(f"{at} could not be read from offset {begin} to {end} in time")
            fetched = value(fetch(self._router, {at: begin}, by, _COMMITTED, _BYTES)[at])
            batches = [header for header, _ in split(fetched.records) if header.next_offset > begin]
            if not batches:
                if fetched.high_watermark >= end:
                    break  # a cleaner has taken the rest
                raise CouldNotTell(f"{at} cannot be read from offset {begin} on, although it ends at {end}")
            yield from (_span(header) for header in batches if header.base_offset < end)
            begin = batches[-1].next_offset


def _span(header: BatchHeader) -> WrittenSpan:
    return WrittenSpan(
        header.base_offset,
        header.next_offset,
        header.producer_id,
        header.producer_epoch,
        header.is_control,
        header.is_transactional,
    )


def _known(producer: ActiveProducer) -> KnownProducer:
    return KnownProducer(producer.producer_id, producer.producer_epoch, producer.last_sequence >= 0)
