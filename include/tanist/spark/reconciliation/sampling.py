"""Times of some records of each log, at even distances: what buckets are cut by.

Nothing that is told depends on them, only how even buckets are. So a log of which no broker answers has no sample; who
reads it will say why it cannot be read.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.names import TopicPartition
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.frames import FetchLimits
from tanist.kafka.wire.requests import fetch
from tanist.ports.clock import Deadline
from tanist.spark.reconciliation.time_buckets import TimeSample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.router import Router
    from tanist.spark.spans import Span

_MOST: Final = 17
_ENDS: Final = (1 / 256, 255 / 256)
"""Of a log: a broken clock at either end makes a bucket of no more."""
_BYTES: Final = 64 << 10
"""Of each log in one answer. A broker leaves larger batches out, but that of the first partition."""
_SECONDS: Final = 10.0


def sampled(router: Router, spans: Sequence[Span], size: int) -> Mapping[TopicPartition, TimeSample]:
    """Of those spans that are more than one bucket of `size` records; whose batches are not had have fewer times."""
    by = Deadline(time.monotonic() + _SECONDS)
    looks = {span.partition: looks_at(span, size) for span in spans}
    found = defaultdict[TopicPartition, list[tuple[int, int]]](list)
    for n in range(_MOST + len(_ENDS)):
        asked = {at: offsets[n] for at, offsets in looks.items() if n < len(offsets)}
        for at, when in _times(router, asked, by).items():
            found[at].append((asked[at], when))
    ends = {span.partition: span.until for span in spans}
    return {at: _sample(times, ends[at]) for at, times in found.items()}


def _sample(found: Sequence[tuple[int, int]], end: int) -> TimeSample:
    offsets, times = (np.array(column, np.int64) for column in zip(*found, strict=True))
    return TimeSample(times, np.diff(np.append(offsets, end)))


def looks_at(span: Span, size: int) -> Sequence[int]:
    """Offsets, the more the longer `span` is; none of a log that is to be one bucket."""
    length = span.until - span.start
    if length <= 2 * size:
        return ()
    shares = np.linspace(0, 1, min(_MOST, 2 + length // size)).tolist()
    return sorted({span.start + int((length - 1) * share) for share in (*shares, *_ENDS)})


def _times(router: Router, offsets: Mapping[TopicPartition, int], by: Deadline) -> dict[TopicPartition, int]:
    """The first time of the batch at each offset; large batches are had one after the other."""
    found = _fetched(router, offsets, by)
    for at, offset in offsets.items():
        if at not in found and by.left(time.monotonic()):
            found |= _fetched(router, {at: offset}, by)
    return found


def _fetched(router: Router, offsets: Mapping[TopicPartition, int], by: Deadline) -> dict[TopicPartition, int]:
    if not offsets:
        return {}
    try:
        answers = fetch(router, offsets, by, FetchLimits(max_wait_ms=0, max_bytes=_BYTES * len(offsets)), _BYTES)
    except Stopped:
        raise
    except TanistError:
        return {}
    times = {at: _first_time(answer) for at, answer in answers.items()}
    return {at: when for at, when in times.items() if when is not None}


def _first_time(answer: FetchedPartition | TanistError) -> int | None:
    if isinstance(answer, TanistError):
        return None
    with suppress(TanistError):  # it is damaged
        for header, _ in split(answer.records):
            return header.base_timestamp
    return None
