"""Reads many partitions with different questions side by side: what they want next is put into common requests.

Each partition is read by a generator that yields a `PartWanted` and is sent the part of the log that has come. A broker
returns a batch that is larger than what was asked for only once in an answer (KIP-74): a request for one byte of each
partition would be answered for one of them. So a request asks for as much as usual batches have, and for more where
nothing came.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from tanist.domain.errors import TanistError
from tanist.kafka.adapters.log_reader import read_on
from tanist.kafka.protocol.timed_records import timed_batches
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from tanist.domain.names import TopicPartition
    from tanist.kafka.adapters.log_reader import LogPart, UnreadSpan
    from tanist.kafka.protocol.frames import Isolation
    from tanist.kafka.protocol.timed_records import TimedBatch
    from tanist.kafka.wire.leaders import Answers
    from tanist.kafka.wire.router import Router

_P = TypeVar("_P", bound="TopicPartition")
_R = TypeVar("_R")

FIRST_BYTES: Final = 16 << 10
"""Of a partition, in its first request."""
MOST_BYTES: Final = 256 << 10
"""Of a partition, in the requests that follow, where batches are not larger."""
_LARGEST_BATCH: Final = 16 << 20
_LARGER: Final = 16
_TOGETHER: Final = 8 << 20
"""Of all partitions in a request."""


class PartWanted(NamedTuple):
    """The log from `span.position` on, of about `size` bytes."""

    span: UnreadSpan
    isolation: Isolation
    size: int


Reading: TypeAlias = "Generator[PartWanted, LogPart, _R]"


class TimedPart(NamedTuple):
    """What has come of a log: all of it from `begin` up to `until`. `size`: bytes."""

    begin: int
    until: int
    size: int
    batches: tuple[TimedBatch, ...]


def part_of(span: UnreadSpan, isolation: Isolation, size: int = FIRST_BYTES) -> Reading[TimedPart]:
    """The next part of a span, at least one batch; without any where a cleaner has removed the rest.

    Raises:
        as `read_on`; CorruptBatch, UnsupportedBatch: as `timed_batches`.
    """
    while True:
        part = yield PartWanted(span, isolation, size)
        if part.until > part.begin:
            batches = tuple(timed_batches(part.records, part.aborted))
            return TimedPart(part.begin, part.until, len(part.records), batches)
        size = min(size * _LARGER, _LARGEST_BATCH)


def side_by_side(router: Router, readings: Mapping[_P, Reading[_R]], by: Deadline, seconds: float) -> Answers[_P, _R]:
    """What each reading returns, or the error that ends it, which is of its partition alone.

    `seconds`: for each request.

    Raises:
        Stopped: the router was interrupted.
    """
    done: Answers[_P, _R] = {}
    wanted: dict[_P, PartWanted] = {}

    def go_on(at: _P, part: LogPart | None) -> None:
        wanted.pop(at, None)
        try:
            wanted[at] = next(readings[at]) if part is None else readings[at].send(part)
        except StopIteration as end:
            done[at] = end.value
        except TanistError as broken:
            done[at] = broken

    for at in readings:
        go_on(at, None)
    while wanted:
        for (isolation, size), spans in _requests(wanted):
            until = Deadline(min(by.at, time.monotonic() + seconds))
            for at, part in read_on(router, spans, until, isolation, size).items():
                if isinstance(part, TanistError):
                    done[at] = part
                    del wanted[at]
                else:
                    go_on(at, part)
    return done


def _requests(wanted: Mapping[_P, PartWanted]) -> Iterator[tuple[tuple[Isolation, int], dict[_P, UnreadSpan]]]:
    """One after the other, none for more than `_TOGETHER` bytes."""
    alike: defaultdict[tuple[Isolation, int], list[_P]] = defaultdict(list)
    for at, each in wanted.items():
        alike[each.isolation, each.size].append(at)
    for (isolation, size), partitions in alike.items():
        many = max(1, _TOGETHER // size)
        for first in range(0, len(partitions), many):
            yield (isolation, size), {at: wanted[at].span for at in partitions[first : first + many]}
