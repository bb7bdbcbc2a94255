"""Batches that occupy every offset of a compacted log, made of the records that are left.

A hole is occupied by copies of the next record that is left: same key, value, headers and time. So the copy of a log
holds, at each moment and wherever it ends, the latest value of every key up to there, and its own cleaner removes what
was added. Tombstones would be shorter, but a copy that ends behind one has deleted a key that the source never deleted.
Only long holes of large values are filled with tombstones, in batches that each end with a copy of the record.

A dense batch stays as it is. One that lacks records is encoded anew: of each record only its length and its offset
change, key, value, headers and time are the source's bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.copying import Append, Fill, Refuse
from tanist.domain.errors import PartitionBroken
from tanist.domain.names import SourceOffset
from tanist.kafka.protocol.batch import HEADER_SIZE, BatchHeader, assembled
from tanist.kafka.protocol.compression import LZ4, NONE, compressed
from tanist.kafka.protocol.encoding import zigzag
from tanist.kafka.protocol.records_left import RecordLeft, records_left

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tanist.domain.copying import Step

LONG_HOLE: Final = 4 << 20
"""Bytes of copies, before compression, above which a hole is filled by equal batches, which are made once."""
_LARGE: Final = 4
"""A record of so many times the size of its tombstone: then a long hole is filled with tombstones."""
MOST_OFFSETS: Final = 100_000
"""Of one batch. Measured: 400,000 tombstones a batch are appended 20 percent faster, and take 290 ms to make."""
MADE_AT_ONCE: Final = 2 << 20
"""Bytes of batches made from one fetch; the rest of a longer hole is made from the next one."""
_RAW: Final = 1 << 20
"""Bytes of a batch before compression, unless one record has more."""
_CODEC: Final = 0x07
_LONGER_FROM: Final = (64, 8_192, 1 << 20)
"""The offsets within a batch from which their varint has one more byte."""
_numbers: Final = [zigzag(number) for number in range(1 << 12)]


class DeletedKeys(NamedTuple):
    """Keys that the source has deleted, whose tombstones it has lost. They take the first offsets of holes.

    `until`: behind it nothing is known of these keys; they may be alive again.
    """

    keys: tuple[bytes, ...] = ()
    until: int = 0


class Occupied(NamedTuple):
    """What a fetch has become. The source is read up to `until`: up to the last step, if it was too much at once.

    `deleted`: the keys whose tombstones found no hole yet.
    """

    steps: list[Step[BatchHeader, memoryview]]
    until: SourceOffset
    deleted: DeletedKeys = DeletedKeys()


class _Span(NamedTuple):
    """The offsets from `start` up to, not including, `until`, all of them with `record`."""

    start: int
    until: int
    record: RecordLeft

    def cut(self, count: int) -> tuple[_Span, _Span]:
        """Its first `count` offsets, and the others."""
        return self._replace(until=self.start + count), self._replace(start=self.start + count)


def refilled(
    steps: Iterable[Step[BatchHeader, memoryview]],
    position: int,
    end: int,
    limit: int,
    *,
    keyed: bool = False,
    deleted: DeletedKeys = DeletedKeys(),  # noqa: B008  # a tuple
) -> Occupied:
    """Appends only, which occupy every offset from `end` up to the last record in `steps`, or a Refuse.

    Offsets behind the last record are left to the next call: `end` says from where on. No record below `position` is
    copied; if `end` is larger, surplus offsets of the copy shift what follows, up to the next hole.

    Args:
        steps: as `decide` makes them of a log with holes, fetched at `position`.
        position: where `steps` begin.
        end: where the copy ends, everything taken before included.
        limit: bytes of a batch that is made here, unless one record has more.
        keyed: leave out records without a key, which a compacted topic does not take.
        deleted: keys whose tombstones are to be placed.
    """
    found: list[Step[BatchHeader, memoryview]] = []
    made, until = 0, position
    lost = _Lost(deleted)
    try:
        for step in steps:
            if isinstance(step, Refuse):
                found.append(step)
                break
            for each in _occupied(step, position, end, limit, lost, keyed=keyed) if isinstance(step, Append) else ():
                if made >= MADE_AT_ONCE:
                    return Occupied(found, SourceOffset(position), lost.left_at(position))
                found.append(each)
                made += each.header.size if each is not step else 0
                end += each.until - each.start
                position = each.until
            until = step.until
    except PartitionBroken as broken:
        found.append(Refuse(broken))
    return Occupied(found, SourceOffset(until), lost.left_at(position))


class _Lost:
    """Tombstones to be placed at holes: one for each key."""

    def __init__(self, deleted: DeletedKeys) -> None:
        self._deleted, self._keys = deleted, deleted.keys
        self._at: list[int] = []
        """Where the first of them were placed, in order."""

    def placed(self, span: _Span, holes: int) -> Iterator[_Span]:
        """`span`, whose first `holes` offsets have no record of their own, with as many tombstones as fit there."""
        holes = max(0, min(holes, self._deleted.until - span.start))
        for key in self._keys[len(self._at) : len(self._at) + holes]:
            self._at.append(span.start)
            first, span = span.cut(1)
            yield first._replace(record=first.record.tombstone_of(key))
        if span.start < span.until:
            yield span

    def left_at(self, position: int) -> DeletedKeys:
        """The keys without a tombstone before `position`: what was placed further on is made again."""
        return self._deleted._replace(keys=self._keys[bisect_left(self._at, position) :])


def _occupied(
    step: Append[BatchHeader, memoryview], position: int, end: int, limit: int, lost: _Lost, *, keyed: bool
) -> Iterator[Append[BatchHeader, memoryview]]:
    header, batch = step.header, step.payload
    whole = header.is_dense and header.base_offset >= position and not keyed
    if whole and header.base_offset <= end:
        yield step
        return
    left = [each for each in records_left(header, batch) if each.offset >= position and (each.has_key or not keyed)]
    if not left:
        return
    start = min(end, left[0].offset)
    if whole:
        hole = _Span(start, left[0].offset, left[0])
        yield from _made(header, [*lost.placed(hole, hole.until - hole.start)], limit)
        yield step
        return
    spans: list[_Span] = []
    for record in left:
        spans += lost.placed(_Span(start, record.offset + 1, record), record.offset - start)
        start = record.offset + 1
    yield from _made(header, spans, limit)


def copies(
    header: BatchHeader, record: RecordLeft, start: int, until: int, limit: int
) -> Iterator[Append[BatchHeader, memoryview]]:
    """Batches that occupy every offset from `start` up to, not including, `until`, and end with copies of `record`.

    Large values are copied once a batch: tombstones of the key come before. `header`: of the batch that has `record`.
    """
    yield from _made(header, [_Span(start, until, record._replace(offset=until - 1))], limit)


# ── making batches ────────────────────────────────────────────────────────────────────────────────────────────────


def _made(header: BatchHeader, spans: Sequence[_Span], limit: int) -> Iterator[Append[BatchHeader, memoryview]]:
    """Batches of all `spans`, which follow each other."""
    part: list[_Span] = []
    size = count = 0
    for span in spans:
        if span.record.size(span.until - span.start) > LONG_HOLE:
            yield from _fitting(header, part, limit)
            hole = span._replace(until=min(span.until, span.record.offset))
            yield from _long_hole(header, hole, limit)
            part = [span._replace(start=hole.until)] if hole.until < span.until else []
            size, count = sum(each.record.size(1) for each in part), len(part)
            continue
        todo = span
        while todo.start < todo.until:
            most = min(MOST_OFFSETS - count, max(_RAW - size, 0) // todo.record.size(1))
            if not most and part:
                yield from _fitting(header, part, limit)
                part, size, count = [], 0, 0
                continue
            now, todo = todo.cut(min(max(most, 1), todo.until - todo.start))
            part.append(now)
            size, count = size + now.record.size(now.until - now.start), count + now.until - now.start
    yield from _fitting(header, part, limit)


def _fitting(header: BatchHeader, spans: Sequence[_Span], limit: int) -> Iterator[Append[BatchHeader, memoryview]]:
    """One batch, or several if it were larger than `limit`. Behind a copy any cut is right."""
    if not spans:
        return
    made = _batch(header, spans, limit)
    if made.header.size <= limit or made.header.record_count == 1:
        yield made
        return
    for half in _halved(spans):
        yield from _fitting(header, half, limit)


def _halved(spans: Sequence[_Span]) -> tuple[Sequence[_Span], Sequence[_Span]]:
    if len(spans) > 1:
        return spans[: len(spans) // 2], spans[len(spans) // 2 :]
    first, second = spans[0].cut((spans[0].until - spans[0].start) // 2)
    return [first], [second]


def _long_hole(header: BatchHeader, hole: _Span, limit: int) -> Iterator[Append[BatchHeader, memoryview]]:
    """Batches that each end with a copy. Equal ones are one batch in memory, with another base offset each time."""
    dead, most = hole.record.tombstone, MOST_OFFSETS
    filler = dead if hole.record.size(1) >= _LARGE * dead.size(1) else hole.record
    made: Append[BatchHeader, memoryview] | None = None
    while hole.start < hole.until:
        part, rest = hole.cut(min(most, hole.until - hole.start))
        count = part.until - part.start
        if made is None or made.header.record_count != count:
            fillers, last = part.cut(count - 1)
            spans = [fillers._replace(record=filler), last] if count > 1 else [last]
            made = _batch(header, spans, limit)
        if made.header.size > limit and count > 1:
            most = count // 2
            continue
        yield Append(made.header._replace(base_offset=part.start), made.payload)
        hole = rest


def _batch(header: BatchHeader, spans: Sequence[_Span], limit: int) -> Append[BatchHeader, memoryview]:
    """One batch of `spans`, compressed as the source's; an uncompressed one that outgrows `limit` with LZ4.

    One that is larger than `limit` also then stays as it is if compression makes it no smaller: the topic takes what
    its source takes, and not a byte more.
    """
    start = spans[0].start
    body = b"".join(part for span in spans for part in _records(span, span.start - start))
    large = len(body) + HEADER_SIZE > limit
    codec = LZ4 if header.codec == NONE and large else header.codec
    data = compressed(codec, body)
    if large and len(data) >= len(body):
        codec, data = NONE, body
    count = spans[-1].until - start
    made = header._replace(
        base_offset=start,
        attributes=header.attributes & ~_CODEC | codec,
        last_offset_delta=count - 1,
        max_timestamp=header.base_timestamp + max(span.record.time for span in spans),
        record_count=count,
    )
    return Append(*assembled(made, data))


def _records(span: _Span, first: int) -> Iterator[bytes]:
    """The record of `span` at each of its offsets, the first at `first` from the batch's beginning."""
    head, rest = span.record.head, span.record.rest
    end = first + span.until - span.start
    while len(_numbers) < end:
        _numbers.extend(zigzag(number) for number in range(len(_numbers), 2 * len(_numbers)))
    while first < end:
        stop = min(end, next(longer for longer in (*_LONGER_FROM, end) if longer > first))
        before = zigzag(len(head) + len(_numbers[first]) + len(rest)) + head
        yield before
        yield (rest + before).join(_numbers[first:stop])
        yield rest
        first = stop


# ── gap markers instead of copies ─────────────────────────────────────────────────────────────────────────────────


def split_at_holes(
    steps: Iterable[Step[BatchHeader, memoryview]], position: int, limit: int
) -> Iterator[Step[BatchHeader, memoryview]]:
    """Dense Appends and Fills, contiguous from `position` on: batches that lack records are split where they do."""
    at = position
    try:
        for step in steps:
            if isinstance(step, Refuse):
                yield from _gap(at, position)
                yield step
                return
            for each in _dense(step, position, limit) if isinstance(step, Append) else ():
                yield from _gap(at, each.start)
                yield each
                at = each.until
            position = step.until
    except PartitionBroken as broken:
        yield Refuse(broken)
        return
    yield from _gap(at, position)


def _dense(
    step: Append[BatchHeader, memoryview], position: int, limit: int
) -> Iterator[Append[BatchHeader, memoryview]]:
    header = step.header
    if header.is_dense and header.base_offset >= position:
        yield step
        return
    run: list[_Span] = []
    for record in records_left(header, step.payload):
        if record.offset < position:
            continue
        if run and run[-1].until != record.offset:
            yield from _made(header, run, limit)
            run = []
        run.append(_Span(record.offset, record.offset + 1, record))
    yield from _made(header, run, limit)


def _gap(start: int, until: int) -> Iterator[Fill]:
    if start < until:
        yield Fill(SourceOffset(start), SourceOffset(until))
