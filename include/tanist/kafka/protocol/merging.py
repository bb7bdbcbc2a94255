"""Runs of small batches made into one: same records, offsets, times and headers, fewer batches.

A batch costs the same to append whether it holds one record or a thousand, so a log of batches of one record is copied
many times as dearly as it need be. Of a record only the three leading numbers change: its length, and its time and
offset, which count from those of its batch; key, value and headers are the source's bytes.

A run has batches of one fetch that follow each other without a gap. They are dense, small, of one codec, which the one
batch has as well, and either outside transactions or in one transaction: of one producer, and a run never reaches over
a marker. So what a reader of committed records sees of a run is all or nothing.
"""

from __future__ import annotations

from functools import cache, lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tanist.domain.errors import CorruptBatch, PartitionBroken, UnsupportedBatch
from tanist.kafka.protocol.batch import (
    BEFORE_LENGTH_ENDS,
    COVERED,
    HEADER_SIZE,
    MAGIC,
    assembled,
    crc32c,
    header_of,
    same_records,
    split,
    unpacked,
    walk,
)
from tanist.kafka.protocol.compression import NONE, ZSTD, all_decompressed, compressed, decompressed
from tanist.kafka.protocol.encoding import read_number, zigzag
from tanist.kafka.protocol.record_set import records_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.record_set import Record

SMALL: Final = 8 << 10
"""Bytes; a larger batch is never part of a run."""
_SAMPLED: Final = 16
_SHORT: Final = 0x80
_TRANSACTIONAL: Final = 0x10
_MERGEABLE: Final = frozenset(codec | kind for codec in range(ZSTD + 1) for kind in (0, _TRANSACTIONAL))
"""Attributes: any codec, outside or inside a transaction; no time of the broker, no marker, no delete horizon."""
_Part: TypeAlias = tuple[int, int, int, int, int]
"""A batch of a run: where it starts and stops, its records, from when their times count and the latest, in ms."""
_NO_TRANSACTION: Final = -2  # no producer's id
_zigzag: Final = lru_cache(1 << 14)(zigzag)
_NUMBERS: Final = tuple(map(zigzag, range(SMALL)))
_HEADS: Final = tuple(length + b"\0" for length in _NUMBERS)
"""Length and attributes of a record; one of a small batch is shorter, also when its numbers have grown."""
_SINGLE: Final = Struct(">qi4xbIhiqqq6xi")
"""Of a header what is not the same in every batch of one record, or has to be."""
_MANY_SINGLES: Final = 16
"""So many make a run of their own; fewer may be part of one with larger batches."""


class Sample(NamedTuple):
    """How many batches were looked at, and the records and bytes in them."""

    batches: int
    records: int
    size: int


def sample(records: memoryview) -> Sample:
    """The first batches of a fetch, by their headers; what is damaged ends it."""
    batches = count = size = 0
    try:
        for header, _ in split(records):
            batches, count, size = batches + 1, count + header.record_count, size + header.size
            if batches == _SAMPLED:
                break
    except PartitionBroken:
        pass  # `walk` says so, once everything before it has been copied
    return Sample(batches, count, size)


def walk_merged(records: memoryview, position: int, limit: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """As `walk`, each run of small batches from `position` on as one batch that is not larger than `limit` bytes.

    A batch that is no part of a run is yielded as it lies in `records`. A run has memory of its own, and the base
    offset and producer of its first batch, the leader epoch of its last.

    Raises:
        CorruptBatch, UnsupportedBatch: as `walk`, when everything before it has been yielded.
    """
    at, data = 0, records.tobytes()  # what is looked at byte by byte is faster so
    while at < len(records):
        if (singles := _merged_singles(data, at, position, limit)) is not None:
            yield singles[0]
            at = singles[1]
            continue
        run = _run(records, at, position, limit)
        if len(run) > 1 and (one := _merged(records, run, limit)) is not None:
            yield one
            at = run[-1][1]
        elif run:
            yield from walk(records[at : run[-1][1]])
            at = run[-1][1]
        elif (single := next(walk(records[at:]), None)) is not None:
            yield single
            at += single[0].size
        else:
            return


@cache
def _beginnings() -> dict[int, bytes]:
    """How the one record of a batch begins by the batch's length: its own length, no attributes, both numbers zero."""
    sizes = ((length, _NUMBERS[length] + bytes(3)) for length in range(SMALL - HEADER_SIZE))
    return {HEADER_SIZE - BEFORE_LENGTH_ENDS + len(_NUMBERS[length]) + length: begins for length, begins in sizes}


def _merged_singles(
    data: bytes, at: int, position: int, limit: int
) -> tuple[tuple[BatchHeader, memoryview], int] | None:
    """As `_run` and `_merged`, in one pass, of batches of one record, which cost the most; and where they end.

    None: there are fewer than some, or they are compressed.
    """
    if len(data) - at < HEADER_SIZE:
        return None
    follows, _, _, _, kind, _, begun, _, whose, _ = _SINGLE.unpack_from(data, at)
    if kind not in {NONE, _TRANSACTIONAL} or follows < position:
        return None
    begins, first = _beginnings(), follows
    start, end, last, time, latest, moved = at, min(len(data), at + limit), at, begun, begun, _NUMBERS[0]
    parts: list[bytes] = []
    for offset in _NUMBERS:
        if end - start < HEADER_SIZE:
            break
        base, length, magic, stored, attributes, delta, now, newest, producer, count = _SINGLE.unpack_from(data, start)
        stop, head = start + length + BEFORE_LENGTH_ENDS, begins.get(length)
        if (
            head is None
            or count != 1
            or delta
            or base != follows
            or attributes != kind
            or now != newest
            or magic != MAGIC
            or stop > end
            or (kind and producer != whose)
            or not data.startswith(head, start + HEADER_SIZE)
            or crc32c(data[start + COVERED : stop]) != stored
        ):
            break
        if now != time:
            time, moved, latest = now, _zigzag(now - begun), max(latest, now)
        rest = start + HEADER_SIZE + len(head)
        parts += (_HEADS[1 + len(moved) + len(offset) + stop - rest], moved, offset, data[rest:stop])
        last, start, follows = start, stop, base + 1
    if (many := follows - first) < _MANY_SINGLES:
        return None
    batches = memoryview(data)
    made = header_of(batches[at:])._replace(
        leader_epoch=header_of(batches[last:]).leader_epoch,
        last_offset_delta=many - 1,
        max_timestamp=latest,
        record_count=many,
    )
    return assembled(made, b"".join(parts)), start


def _run(records: memoryview, at: int, position: int, limit: int) -> list[_Part]:
    """The batches from byte `at` on that may become one; their checksums are right. None: the first may not."""
    run: list[_Part] = []
    start, end, follows, like = at, len(records), 0, (0, 0)
    while end - at >= HEADER_SIZE:
        base, length, _, magic, stored, attributes, delta, begun, newest, producer, _, _, count = unpacked(records, at)
        stop = at + length + BEFORE_LENGTH_ENDS
        kind = attributes, producer if attributes & _TRANSACTIONAL else _NO_TRANSACTION
        if (
            magic != MAGIC
            or not HEADER_SIZE <= stop - at <= SMALL
            or stop > end
            or attributes not in _MERGEABLE
            or count != delta + 1
            or base < position
            or (run and (base != follows or kind != like or stop - start > limit))
            or crc32c(records[at + COVERED : stop]) != stored
        ):
            break
        run.append((at, stop, count, begun, newest))
        at, follows, like = stop, base + count, kind
    return run


def _merged(records: memoryview, run: Sequence[_Part], limit: int) -> tuple[BatchHeader, memoryview] | None:
    """The batches of `run` as one; None: their records are not as they should be, or do not fit into `limit` bytes."""
    first, last = (header_of(records[part[0] :]) for part in (run[0], run[-1]))
    parts: list[bytes] = []
    behind, at = 0, 0
    try:
        data, between = _data(records, run, first.codec)
        for _, _, count, begun, _ in run:
            at = _rebase(data, at + between, count, (begun - first.base_timestamp, behind), parts)
            behind += count
    except (CorruptBatch, UnsupportedBatch, IndexError):
        return None
    body = compressed(first.codec, b"".join(parts))
    if at != len(data) or (first.codec != NONE and HEADER_SIZE + len(body) > limit):
        return None
    made = first._replace(
        leader_epoch=last.leader_epoch,
        last_offset_delta=behind - 1,
        max_timestamp=max(part[4] for part in run),
        record_count=behind,
    )
    return assembled(made, body)


def _data(records: memoryview, run: Sequence[_Part], codec: int) -> tuple[bytes, int]:
    """The records of `run`, and the bytes before those of each batch: its header, if they are not compressed."""
    if codec == NONE:
        return records[run[0][0] : run[-1][1]].tobytes(), HEADER_SIZE
    return all_decompressed(codec, [records[start + HEADER_SIZE : stop] for start, stop, *_ in run]), 0


def is_made_of(copied: memoryview, originals: Sequence[memoryview], skipped: int) -> bool:
    """Whether `originals` hold the records of `copied` from its record `skipped` on, as far as they go.

    A batch that was not merged is compared by its bytes; what was, record by record.
    """
    if len(originals) == 1 and header_of(originals[0]).record_count == header_of(copied).record_count:
        return not skipped and same_records(copied, originals[0])
    stamped = header_of(copied).is_log_append_time
    theirs = [_content(each, stamped=stamped) for each in _records_of(copied)]
    ours = [_content(each, stamped=stamped) for batch in originals for each in _records_of(batch)]
    return ours == theirs[skipped : skipped + len(ours)]


def _records_of(batch: memoryview) -> Iterator[Record]:
    header = header_of(batch)
    return records_in(header, decompressed(header.codec, batch[HEADER_SIZE:]))


def _content(record: Record, *, stamped: bool) -> Record:
    """What does not depend on where a record lies. `stamped`: a broker has put its own time over the record's."""
    return record._replace(offset=0, timestamp=0 if stamped else record.timestamp)


def _rebase(data: bytes, at: int, count: int, moves: tuple[int, int], parts: list[bytes]) -> int:
    """Add the `count` records from byte `at` of `data` on to `parts`, `moves`: so many ms and offsets further.

    Returns where they end.

    Raises:
        CorruptBatch, IndexError: they are not so many records without a hole.
    """
    later, behind = moves
    end, expected = len(data), 0
    known, moved, numbers = -1, b"", 0  # the byte that a time was, and what it becomes: times of a batch are alike
    for offset in _offsets(behind, count):
        low = data[at]
        if low < _SHORT:
            start = at + 1
            at = start + (low >> 1)
        else:
            length, start = read_number(data, at)
            at = start + length
        time, rest = data[start + 1], start + 3
        if time >= _SHORT or data[start + 2] != expected or expected >= _SHORT or data[start]:
            moved, rest = _moved(data, start, expected >> 1, later)
            known, numbers = -1, 1 + len(moved)
        elif time != known:
            known, moved = time, _zigzag((time >> 1 ^ -(time & 1)) + later)
            numbers = 1 + len(moved)
        if not rest <= at <= end:
            raise CorruptBatch(f"record {expected >> 1} ends at byte {at} of {end}")
        parts += (_HEADS[numbers + len(offset) + at - rest], moved, offset, data[rest:at])
        expected += 2
    return at


def _offsets(first: int, count: int) -> Sequence[bytes]:
    """The numbers from `first` on, as records have them."""
    if first + count <= len(_NUMBERS):
        return _NUMBERS[first : first + count]
    return [_zigzag(number) for number in range(first, first + count)]


def _moved(data: bytes, start: int, number: int, later: int) -> tuple[bytes, int]:
    """The time, `later` ms later, of the record whose attributes are at `start`, and where its key begins.

    Raises:
        CorruptBatch, IndexError: it is not record `number`.
    """
    time, offset_at = read_number(data, start + 1)
    offset, rest = read_number(data, offset_at)
    if offset != number or data[start]:
        raise CorruptBatch(f"record {number} says that it is record {offset}, with attributes {data[start]}")
    return _zigzag(time + later), rest
