"""Message formats 0 and 1 (before Kafka 0.11, LegacyRecord), made into batches of format 2.

    0 offset i64 | 8 size i32 | 12 crc32 | 16 magic i8 | 17 attributes i8 | [18 timestamp i64, format 1] | key | value

A compressed message holds messages in its value. Its offset is that of the last one; theirs count from the first in
format 1, and are their own in format 0. Format 0 has no timestamps: -1, as in Kafka. A message becomes a batch of one
record, a compressed one a batch with its codec. Key, value, offset and time stay; there were no headers.
"""

from __future__ import annotations

import zlib
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import PartitionBroken, UnsupportedBatch
from tanist.kafka.protocol.batch import BEFORE_LENGTH_ENDS, MAGIC, BatchHeader, assembled
from tanist.kafka.protocol.compression import LZ4, NONE, compressed, decompressed
from tanist.kafka.protocol.encoding import zigzag

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC_AT: Final = 16
_ENTRY: Final = Struct(">qiIbb")
_TIMESTAMP: Final = Struct(">q")
_SIZE: Final = Struct(">i")
_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_NO_TIMESTAMP: Final = -1
_NO_PRODUCER: Final = (-1, -1, -1)


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    time: int
    key: bytes | None
    value: bytes | None


def modern(records: memoryview) -> memoryview:
    """The records of a fetch that begin with a message of an old format, as batches of format 2.

    What cannot be converted stays as it is, and so does everything behind it: `split` says why.
    """
    parts: list[bytes | memoryview] = []
    at = 0
    while len(records) - at >= _ENTRY.size:
        stop = at + BEFORE_LENGTH_ENDS + _SIZE.unpack_from(records, at + _TIMESTAMP.size)[0]
        if not at + _ENTRY.size <= stop <= len(records):
            break
        entry = records[at:stop]
        if entry[MAGIC_AT] < MAGIC:
            try:
                parts.append(_batch(entry))
            except (PartitionBroken, StructError):
                break
        else:
            parts.append(entry)
        at = stop
    return memoryview(bytearray().join([*parts, records[at:]])) if parts else records


def _batch(entry: memoryview) -> memoryview:
    """Raises PartitionBroken, StructError: it is damaged, or of a codec that cannot be read."""
    if zlib.crc32(entry[MAGIC_AT:]) != _ENTRY.unpack_from(entry)[2]:
        raise UnsupportedBatch("its checksum does not match")
    outer = _message(entry, 0)
    codec = outer.attributes & _CODEC
    messages = list(_inner(outer, codec)) if codec else [outer]
    first, last = messages[0], messages[-1]
    body = b"".join(_record(each, first) for each in messages)
    header = BatchHeader(
        base_offset=first.offset,
        size=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec | outer.attributes & _LOG_APPEND_TIME,
        last_offset_delta=last.offset - first.offset,
        base_timestamp=first.time,
        max_timestamp=max(each.time for each in messages),
        producer_id=_NO_PRODUCER[0],
        producer_epoch=_NO_PRODUCER[1],
        base_sequence=_NO_PRODUCER[2],
        record_count=len(messages),
    )
    return assembled(header, compressed(codec, body))[1]


def _inner(outer: _Message, codec: int) -> Iterator[_Message]:
    """The messages inside a compressed one."""
    if outer.magic == 0 and codec == LZ4:
        raise UnsupportedBatch("its LZ4 frame has a wrong header checksum, as all of format 0 (KAFKA-3160)")
    data = memoryview(decompressed(codec, memoryview(outer.value or b"")))
    found, at = [], 0
    while at < len(data):
        found.append(_message(data, at))
        at += BEFORE_LENGTH_ENDS + _SIZE.unpack_from(data, at + _TIMESTAMP.size)[0]
    if not found or any(each.attributes & _CODEC != NONE for each in found):
        raise UnsupportedBatch("a compressed message without messages, or with compressed ones")
    shift = outer.offset - found[-1].offset if outer.magic else 0
    for each in found:
        time = outer.time if outer.attributes & _LOG_APPEND_TIME else each.time
        yield each._replace(offset=each.offset + shift, time=time)


def _message(data: memoryview, at: int) -> _Message:
    offset, _, _, magic, attributes = _ENTRY.unpack_from(data, at)
    at += _ENTRY.size
    time = _NO_TIMESTAMP
    if magic:
        time = _TIMESTAMP.unpack_from(data, at)[0]
        at += _TIMESTAMP.size
    key, at = _field(data, at)
    value, _ = _field(data, at)
    return _Message(offset, magic, attributes, time, key, value)


def _field(data: memoryview, at: int) -> tuple[bytes | None, int]:
    size = _SIZE.unpack_from(data, at)[0]
    at += _SIZE.size
    if size < 0:
        return None, at
    if at + size > len(data):
        raise UnsupportedBatch("a key or a value ends behind the message")
    return bytes(data[at : at + size]), at + size


def _record(message: _Message, first: _Message) -> bytes:
    """As a record of format 2, without headers."""
    numbers = zigzag(message.time - first.time) + zigzag(message.offset - first.offset)
    body = b"\0" + numbers + _counted(message.key) + _counted(message.value) + b"\0"
    return zigzag(len(body)) + body


def _counted(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data
