"""The records that a cleaner has left in a batch, read as quickly as plain Python can: nothing inside is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import CorruptBatch
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.kafka.protocol.batch import HEADER_SIZE, header_of
from tanist.kafka.protocol.compression import decompressed
from tanist.kafka.protocol.encoding import read_number, zigzag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.offset_map import OffsetMap
    from tanist.kafka.protocol.batch import BatchHeader

_NULL: Final = b"\x01"
NO_HEADERS: Final = b"\0"
"""As a record without headers stores them."""


class RecordLeft(NamedTuple):
    """A record that is left. `head`: its attributes and time, `rest`: key, value and headers, as they are stored."""

    offset: int
    time: int
    head: bytes
    rest: bytes

    @property
    def tombstone(self) -> RecordLeft:
        """A tombstone of its key, with its time."""
        return self.tombstone_of(self.key) if self.has_key else self._replace(rest=_NULL + _NULL + NO_HEADERS)

    def tombstone_of(self, key: bytes) -> RecordLeft:
        """A tombstone of `key`, with the time of this record."""
        return self._replace(rest=zigzag(len(key)) + key + _NULL + NO_HEADERS)

    @property
    def key(self) -> bytes:
        """Empty also if it has none."""
        length, at = read_number(self.rest, 0)
        return self.rest[at : at + max(0, length)]

    @property
    def is_tombstone(self) -> bool:
        length, at = read_number(self.rest, 0)
        return self.rest.startswith(_NULL, at + max(0, length))

    @property
    def has_key(self) -> bool:
        return not self.rest.startswith(_NULL)

    def size(self, count: int) -> int:
        """About the bytes of `count` copies."""
        return count * (len(self.head) + len(self.rest) + 4)


def records_left(header: BatchHeader, batch: memoryview) -> Iterator[RecordLeft]:
    """The records of a batch.

    Raises:
        CorruptBatch: they are not as its header says.
    """
    body = decompressed(header.codec, batch[HEADER_SIZE:]) if header.record_count else b""
    at, end = 0, len(body)
    try:
        for _ in range(header.record_count):
            length, start = read_number(body, at)
            time, offset_at = read_number(body, start + 1)
            offset, rest = read_number(body, offset_at)
            at = start + length
            if not rest <= at <= end or not 0 <= offset <= header.last_offset_delta:
                raise CorruptBatch(f"batch at offset {header.base_offset}: a record of {length} bytes, number {offset}")
            yield RecordLeft(header.base_offset + offset, time, body[start:offset_at], body[rest:at])
    except IndexError as broken:
        raise CorruptBatch(f"batch at offset {header.base_offset}: its records end too early") from broken


def contradiction(
    copied: Iterable[memoryview], originals: Iterable[memoryview], offsets: OffsetMap
) -> SourceOffset | None:
    """The first source offset at which both logs hold a record, but not the same; what only one holds says nothing.

    Nor does a record without a key at an offset where the copy has one with a key: it was left out, see `refilled`.

    Raises:
        CorruptBatch, UnsupportedBatch: as `records_left`.
    """
    ours: dict[int, tuple[int | None, bytes]] = {}
    stamped = False
    for batch in originals:
        header = header_of(batch)
        stamped = stamped or header.is_log_append_time
        ours |= {each.offset: (header.base_timestamp + each.time, each.rest) for each in records_left(header, batch)}
    for batch in copied:
        header = header_of(batch)
        for each in records_left(header, batch):
            at = offsets.origin(DestinationOffset(each.offset))
            theirs = (header.base_timestamp + each.time, each.rest)
            there = ours.get(at)
            left_out = there is not None and each.has_key and there[1].startswith(_NULL)
            if there is not None and not left_out and there[stamped:] != theirs[stamped:]:
                return at
    return None


def surplus_before(
    copied: Iterable[memoryview], originals: Iterable[memoryview], offsets: OffsetMap, most: int
) -> int | None:
    """By how many offsets, from 1 to `most`, `copied` lie higher than `offsets` has it; None: it is not clear.

    The last record of the last batch, which is never a copy for a hole, must be found at the source, once.

    Raises:
        CorruptBatch, UnsupportedBatch: as `records_left`.
    """
    last: tuple[int, tuple[int, bytes]] | None = None
    for batch in copied:
        header = header_of(batch)
        for each in records_left(header, batch):
            last = (offsets.origin(DestinationOffset(each.offset)), (header.base_timestamp + each.time, each.rest))
    if last is None:
        return None
    at, wanted = last
    found = [
        at - each.offset
        for batch in originals
        for header in (header_of(batch),)
        for each in records_left(header, batch)
        if 0 < at - each.offset <= most and (header.base_timestamp + each.time, each.rest) == wanted
    ]
    return found[0] if len(found) == 1 else None
