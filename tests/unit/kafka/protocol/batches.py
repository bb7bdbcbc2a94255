"""Batches for tests, made by hand: the product itself never encodes records other than fillers."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import crc32c

from tanist.domain.varints import varint
from tanist.kafka.protocol.encoding import zigzag

if TYPE_CHECKING:
    from collections.abc import Sequence

GZIP, TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 1, 0x10, 0x20, 0x08


def encode_record(offset_delta: int, key: bytes | None, value: bytes | None, time_delta: int = 0) -> bytes:
    body = (
        b"\0" + zigzag(time_delta) + zigzag(offset_delta) + length_and_bytes(key) + length_and_bytes(value) + varint(0)
    )
    return zigzag(len(body)) + body


def encode_batch(
    values: Sequence[bytes | None],
    *,
    base_offset: int = 0,
    attributes: int = 0,
    timestamp_ms: int = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    key: bytes | None = b"k",
) -> bytearray:
    """One batch with a record for each of `values`; `producer` is (id, epoch, base sequence)."""
    body = b"".join(encode_record(n, key, value, n) for n, value in enumerate(values))
    if attributes & 7 == GZIP:
        body = zlib.compress(body, wbits=31)
    return seal(body, base_offset, attributes, len(values), timestamp_ms, producer)


def encode_marker(base_offset: int, control_type: int, producer: tuple[int, int, int] = (7, 0, -1)) -> bytearray:
    """A control batch as EndTransactionMarker writes it."""
    body = encode_record(0, struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, 3))
    return seal(body, base_offset, TRANSACTIONAL | CONTROL, 1, 1_000, producer)


def seal(
    body: bytes, base_offset: int, attributes: int, count: int, timestamp_ms: int, producer: tuple[int, int, int]
) -> bytearray:
    last = timestamp_ms + count - 1
    rest = struct.pack(">hiqqqhii", attributes, count - 1, timestamp_ms, last, *producer, count) + body
    return bytearray(struct.pack(">qiibI", base_offset, 9 + len(rest), 4, 2, crc32c.crc32c(rest)) + rest)


def length_and_bytes(value: bytes | None) -> bytes:
    return zigzag(-1) if value is None else zigzag(len(value)) + value
