"""Partition logs, their batches and producer ids, over `kafka.wire`: the ports `Logs` and `LogInspection`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.errors import CouldNotTell, Stopped, TanistError, TimedOut
from tanist.domain.log_writers import KnownProducer, LogWriters, WrittenSpan, ends_reserve
from tanist.domain.names import DestinationOffset, ProducerId, TopicPartition
from tanist.kafka.protocol.batch import HEADER_SIZE, header_of, split
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.negotiated import negotiated
from tanist.kafka.wire.requests import End, describe_producers, fetch, init_producer_id, list_offsets, readable_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tanist.domain.log_ends import LogEnds
    from tanist.domain.recovery import ProducerIds
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.requests import ActiveProducer
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock, Deadline

_P = TypeVar("_P", bound="TopicPartition")

_COMMITTED: Final = FetchLimits(max_wait_ms=0, isolation=Isolation.READ_UNCOMMITTED)
"""Up to the high watermark, aborted transactions included."""
_FETCH_BYTES: Final = 1 << 16
"""Of one partition: hundreds of markers. A batch that is larger comes whole."""
_HEADER_BYTES: Final = 1 << 12
_LARGER: Final = 16
"""Of a batch that is larger than what is asked for nothing comes, but whole from one partition of each answer."""


class KafkaLogs:
    """Owned by one thread."""

    def __init__(self, router: Router, clock: Clock | None = None) -> None:
        self._router = router
        self._clock = clock or SystemClock()

    def ends(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, LogEnds | TanistError]:
        found = readable_ends(self._router, partitions, by)
        now = self._clock.now()
        return {
            at: ends if isinstance(ends, TanistError) else replace(ends, observed_at=now) for at, ends in found.items()
        }

    def versions(self, by: Deadline) -> Mapping[str, int]:
        return negotiated(self._router.any_connection(by))

    def true_ends(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, int | TanistError]:
        return list_offsets(self._router, dict.fromkeys(partitions, End.LOG_END), by) if partitions else {}

    def only_control(self, spans: Mapping[_P, tuple[int, int]], by: Deadline) -> Mapping[_P, bool | TanistError]:
        left, answers = dict(spans), dict[_P, "bool | TanistError"]()
        while left:
            positions = {at: first for at, (first, _) in left.items()}
            for at, fetched in fetch(self._router, positions, by, _COMMITTED, _FETCH_BYTES).items():
                found = fetched if isinstance(fetched, TanistError) else _look(at, fetched.records, *left[at])
                if isinstance(found, int) and not isinstance(found, bool):
                    left[at] = (found, left[at][1])
                else:
                    answers[at] = found
                    del left[at]
        return answers

    def producers(self, offsets: Mapping[_P, int], by: Deadline) -> Mapping[_P, ProducerId | TanistError]:
        headers = self._headers(offsets, by)
        return {at: e if isinstance(e, TanistError) else ProducerId(e.producer_id) for at, e in headers.items()}

    def leader_epochs(self, offsets: Mapping[_P, int], by: Deadline) -> Mapping[_P, int | TanistError]:
        headers = self._headers(offsets, by)
        return {at: e if isinstance(e, TanistError) else e.leader_epoch for at, e in headers.items()}

    def _headers(self, offsets: Mapping[_P, int], by: Deadline) -> dict[_P, BatchHeader | TanistError]:
        """Of the batch with each offset."""
        left, answers, size = dict(offsets), dict[_P, "BatchHeader | TanistError"](), _HEADER_BYTES
        while left:
            asked = len(left)
            for at, fetched in fetch(self._router, left, by, _COMMITTED, size).items():
                found = fetched if isinstance(fetched, TanistError) else _header(at, fetched.records, left[at])
                if found is not None:
                    answers[at] = found
                    del left[at]
            if len(left) == asked and size > _COMMITTED.max_bytes:
                return answers | {at: CouldNotTell(f"{at}: nothing can be read at {left[at]}") for at in left}
            size *= _LARGER
        return answers

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return init_producer_id(self._router, by)


def _header(at: TopicPartition, records: memoryview, offset: int) -> BatchHeader | TanistError | None:
    """Of the batch with `offset`; None: the answer has no batch."""
    if len(records) < HEADER_SIZE:
        return None
    try:
        header = header_of(records)
    except TanistError as unreadable:
        return unreadable
    if not header.base_offset <= offset <= header.last_offset:
        return CouldNotTell(f"{at}: no batch holds {offset}")
    return header


def _look(at: TopicPartition, records: memoryview, position: int, end: int) -> bool | int | TanistError:
    """Whether the span has only control batches, or the offset at which to continue reading."""
    before = position
    try:
        for header, _ in split(records):
            if position >= end:
                break
            if not header.is_control or header.base_offset > position:  # what is not there any more proves nothing
                return False
            position = header.next_offset
    except TanistError as unreadable:
        return unreadable
    if position >= end:
        return True
    return position if position > before else CouldNotTell(f"{at}: nothing can be read yet at {position}")


_WINDOW: Final = 64
"""Offsets read back from the end at first; four times as many each time while there is no record among them."""
_BYTES: Final = 1 << 16


class KafkaLogInspection:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def writers(self, partitions: Collection[_P], by: Deadline) -> Mapping[_P, LogWriters | TanistError]:
        remembered = describe_producers(self._router, partitions, by)
        found: dict[_P, LogWriters | TanistError] = {}
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
        self, old_ends: Mapping[_P, DestinationOffset], producer_ids: ProducerIds, by: Deadline
    ) -> Mapping[_P, DestinationOffset | TanistError]:
        found: dict[_P, DestinationOffset | TanistError] = {}
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
