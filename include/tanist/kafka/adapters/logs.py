"""Partition logs, their batches and producer ids, over `kafka.wire`: the ports `Logs` and `LogInspection`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.errors import CouldNotTell, Stopped, TanistError
from tanist.domain.log_writers import KnownProducer, LogWriters, WrittenSpan
from tanist.domain.names import DestinationOffset, ProducerId, TopicPartition
from tanist.kafka.adapters.committed_records import judged_batches
from tanist.kafka.adapters.log_reader import UnreadSpan, parts_of, read_on
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.frames import Isolation
from tanist.kafka.protocol.placed_records import walked
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.negotiated import negotiated
from tanist.kafka.wire.requests import End, describe_producers, init_producer_id, list_offsets, readable_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tanist.domain.anchors import Walked
    from tanist.domain.log_ends import LogEnds
    from tanist.domain.writer_identity import MarkingWriter
    from tanist.kafka.adapters.log_reader import LogPart
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.requests import ActiveProducer
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock, Deadline

_P = TypeVar("_P", bound="TopicPartition")

_UNCOMMITTED: Final = Isolation.READ_UNCOMMITTED
"""Up to the high watermark, aborted transactions included."""
_HEADER_BYTES: Final = 1 << 12
_MOST_BYTES: Final = 16 << 20
_LARGER: Final = 16
"""Of a batch that is larger than what is asked for nothing comes, but whole from one partition of each answer."""


class KafkaLogs:
    """Owned by one thread."""

    def __init__(self, router: Router, clock: Clock | None = None) -> None:
        self._router = router
        self._clock = clock or SystemClock()

    def ends(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, LogEnds | TanistError]:
        now = self._clock.now()  # a leader answers for seconds while others are waited for: no later than any answer
        found = readable_ends(self._router, partitions, by)
        return {
            at: ends if isinstance(ends, TanistError) else replace(ends, observed_at=now) for at, ends in found.items()
        }

    def versions(self, by: Deadline) -> Mapping[str, int]:
        return negotiated(self._router.any_connection(by))

    def true_ends(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, int | TanistError]:
        return list_offsets(self._router, dict.fromkeys(partitions, End.LOG_END), by) if partitions else {}

    def only_control(self, spans: Mapping[_P, tuple[int, int]], by: Deadline) -> Mapping[_P, bool | TanistError]:
        left, answers = {at: UnreadSpan(*span) for at, span in spans.items()}, dict[_P, "bool | TanistError"]()
        while left:
            for at, part in read_on(self._router, left, by, _UNCOMMITTED).items():
                found = part if isinstance(part, TanistError) else _only_control(part, left[at].end)
                if found is not True or left[at].is_read:
                    answers[at] = found
                    del left[at]
        return answers

    def walk(self, at: TopicPartition, span: tuple[int, int], by: Deadline) -> Walked:
        return walked(judged_batches(self._router, at, *span, by), *map(DestinationOffset, span))

    def producers(self, offsets: Mapping[_P, int], by: Deadline) -> Mapping[_P, ProducerId | TanistError]:
        headers = self._headers(offsets, by)
        return {at: e if isinstance(e, TanistError) else ProducerId(e.producer_id) for at, e in headers.items()}

    def leader_epochs(self, offsets: Mapping[_P, int], by: Deadline) -> Mapping[_P, int | TanistError]:
        headers = self._headers(offsets, by)
        return {at: e if isinstance(e, TanistError) else e.leader_epoch for at, e in headers.items()}

    def _headers(self, offsets: Mapping[_P, int], by: Deadline) -> dict[_P, BatchHeader | TanistError]:
        """Of the batch with each offset."""
        left = {at: UnreadSpan(offset, offset + 1) for at, offset in offsets.items()}
        answers, size = dict[_P, "BatchHeader | TanistError"](), _HEADER_BYTES
        while left:
            for at, part in read_on(self._router, left, by, _UNCOMMITTED, size).items():
                if isinstance(part, TanistError) or left[at].is_read:
                    answers[at] = part if isinstance(part, TanistError) else _header(at, part)
                    del left[at]
            size = min(size * _LARGER, _MOST_BYTES)
        return answers

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return init_producer_id(self._router, by)


def _header(at: TopicPartition, part: LogPart) -> BatchHeader | TanistError:
    """Of the batch with the offset at which the part begins."""
    header = next((header for header, _ in split(part.records)), None)
    if header is None or not header.base_offset <= part.begin <= header.last_offset:
        return CouldNotTell(f"{at}: no batch holds {part.begin}")
    return header


def _only_control(part: LogPart, end: int) -> bool:
    """Whether all offsets below `end` are of control batches; what a cleaner has removed proves nothing."""
    position = part.begin
    for header, _ in split(part.records):
        if position >= end:
            break
        if not header.is_control or header.base_offset > position:
            return False
        position = header.next_offset
    return position >= min(part.until, end)


_WINDOW: Final = 64
"""Offsets read back from the end at first; four times as many each time while there is no record among them."""


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
        self, old_ends: Mapping[_P, DestinationOffset], writer: MarkingWriter, by: Deadline
    ) -> Mapping[_P, DestinationOffset | TanistError]:
        found: dict[_P, DestinationOffset | TanistError] = {}
        for at, ends in readable_ends(self._router, old_ends, by).items():
            try:
                end = value(ends).high_watermark
                spans = self._spans(at, old_ends[at], end, by)
                behind = (e.base_offset for e in spans if writer.ends_reserve(e.producer_id, e.producer_epoch))
                own = next(behind, end)
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
        for part in parts_of(self._router, at, UnreadSpan(begin, end), by, _UNCOMMITTED):
            for header, _ in split(part.records):
                if begin < header.next_offset and header.base_offset < end:
                    yield _span(header)


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
