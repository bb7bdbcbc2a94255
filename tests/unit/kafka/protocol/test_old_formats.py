"""Messages of formats 0 and 1 as batches of format 2: every key, value, offset and time; what is damaged stays."""

from __future__ import annotations

import gzip
import struct
import zlib
from random import Random
from typing import Final

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder  # type: ignore[import-untyped]

from tanist.domain.errors import UnsupportedBatch
from tanist.kafka.protocol.batch import split, walk
from tanist.kafka.protocol.compression import GZIP, LZ4, NONE, SNAPPY, compressed
from tanist.kafka.protocol.encoding import read_number
from tanist.kafka.protocol.old_formats import modern
from tanist.kafka.protocol.records_left import records_left
from tests.unit.kafka.protocol.batches import encode_batch

NOW: Final = 1_700_000_000_000
LOG_APPEND_TIME: Final = 0x08
Message = tuple[int, int, bytes | None, bytes | None]
"""Offset, time, key, value."""


def message(magic: int, offset: int, time: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    """As kafka-python writes one, with attributes of our own."""
    builder = LegacyRecordBatchBuilder(magic, NONE, 1 << 30)
    builder.append(offset, time if magic else None, key, value)
    entry = bytearray(builder.build())
    struct.pack_into(">q", entry, 0, offset)
    entry[17] |= attributes
    struct.pack_into(">I", entry, 12, zlib.crc32(entry[16:]))
    return bytes(entry)


def wrapped(magic: int, codec: int, messages: list[Message], attributes: int = 0, time: int = NOW) -> bytes:
    """One compressed message: as brokers store it, with the last offset; inner offsets of format 1 begin at 0."""
    first = messages[0][0] if magic else 0
    inner = b"".join(message(magic, offset - first, when, key, value) for offset, when, key, value in messages)
    packed = gzip.compress(inner) if codec == GZIP else compressed(codec, inner)
    return message(magic, messages[-1][0], time, None, packed, codec | attributes)


def read(records: bytes) -> list[Message]:
    found = []
    for header, batch in walk(modern(memoryview(records))):
        for each in records_left(header, batch):
            time = header.max_timestamp if header.is_log_append_time else header.base_timestamp + each.time
            found.append((each.offset, time, *key_and_value(each.rest)))
    return found


def key_and_value(rest: bytes) -> tuple[bytes | None, bytes | None]:
    fields: list[bytes | None] = []
    at = 0
    for _ in range(2):
        size, at = read_number(rest, at)
        fields.append(None if size < 0 else rest[at : at + size])
        at += max(0, size)
    assert rest[at:] == b"\0"
    return fields[0], fields[1]


def drawn(rng: Random, magic: int, offset: int, *, holes: bool = False) -> list[Message]:
    found = []
    for _ in range(rng.randrange(1, 30)):
        key, value = (rng.choice([None, b"", rng.randbytes(rng.randrange(300))]) for _ in range(2))
        found.append((offset, NOW + rng.randrange(-(10**9), 10**9) if magic else -1, key, value))
        offset += 1 + (rng.randrange(5) if holes else 0)
    return found


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("seed", range(20))
def test_every_message_is_a_record_at_its_offset(magic: int, seed: int) -> None:
    """Alone and compressed in every codec, some with holes; then batches of format 2, which stay as they are."""
    rng = Random(seed)
    expected: list[Message] = []
    records, offset = b"", rng.randrange(2**40)
    for codec in (NONE, GZIP, SNAPPY, *((LZ4,) if magic else ()), NONE):
        messages = drawn(rng, magic, offset, holes=seed % 2 == 0)
        if codec == NONE:
            records += b"".join(message(magic, *each) for each in messages)
        else:
            records += wrapped(magic, codec, messages)
        expected += messages
        offset = messages[-1][0] + 1 + rng.randrange(3)
    assert read(records) == expected
    assert not modern(memoryview(records)).readonly, "an append patches what it sends"
    later = bytes(encode_batch([b"new"], base_offset=offset))
    assert bytes(modern(memoryview(records + later))).endswith(later)


def test_the_time_of_a_broker_is_that_of_all_messages_in_a_compressed_one() -> None:
    messages: list[Message] = [(5, NOW - 9, b"a", b"1"), (6, NOW - 8, b"b", b"2")]
    records = wrapped(1, GZIP, messages, LOG_APPEND_TIME, NOW)
    assert [each[:2] for each in read(records)] == [(5, NOW), (6, NOW)]


def test_a_message_that_is_cut_off_ends_the_walk() -> None:
    whole = message(1, 7, NOW, b"k", b"v")
    for cut in range(1, len(whole)):
        assert [each[0] for each in read(message(1, 6, NOW, b"k", b"v") + whole[:cut])] == [6]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_damaged_message_is_refused_by_its_offset_and_what_is_before_it_is_not(magic: int) -> None:
    good, bad = message(magic, 6, NOW, b"k", b"v" * 50), bytearray(message(magic, 7, NOW, b"k", b"v" * 50))
    bad[-1] ^= 1
    assert [each[0] for each in read(good + bytes(bad))] == [6]
    with pytest.raises(UnsupportedBatch, match="offset 7: message format"):
        list(split(modern(memoryview(bytes(bad)))))


def test_lz4_of_format_0_is_refused() -> None:
    with pytest.raises(UnsupportedBatch, match="LZ4 of format 0"):
        read(wrapped(0, LZ4, [(3, -1, b"k", b"v" * 99)]))


def test_an_old_message_behind_a_batch_is_left_to_the_next_fetch() -> None:
    """A log whose format was set back."""
    batch = bytes(encode_batch([b"new"], base_offset=3))
    assert [header.base_offset for header, _ in split(memoryview(batch + message(1, 4, NOW, b"k", b"v" * 99)))] == [3]
