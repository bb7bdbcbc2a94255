"""Record batches, format 2 (KIP-98, DefaultRecordBatch), as in a log: headers are read and patched, records are not.

    0 baseOffset i64 | 8 batchLength i32 | 12 leaderEpoch i32 | 16 magic i8 | 17 crc u32 | 21 attributes i16
    23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64 | 43 producerId i64 | 51 producerEpoch i16
    53 baseSequence i32 | 57 recordCount i32 | 61 records

The checksum covers everything from byte 21 on. Bytes 0 to 15 are not covered by anything.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from functools import cache, lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import crc32c as _native

from tanist.domain.errors import CorruptBatch, UnsupportedBatch
from tanist.domain.varints import varint
from tanist.kafka.protocol.encoding import read_zigzag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer


_ALL_ONES: Final = 0xFFFFFFFF
_BLOCK_BITS: Final = 12
_ZEROS: Final = memoryview(bytes(1 << _BLOCK_BITS))
_Tables: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


crc32c: Final = _native.crc32c
"""The checksum of some bytes as Kafka stores it (Castagnoli, RFC 3720)."""


def patched(stored: int, old_head: Buffer, new_head: Buffer, tail_length: int) -> int:
    """The checksum of `new_head` + tail, from that of `old_head` + tail; the tail, of `tail_length` bytes, is not read.

    Both heads have the same length. Costs about 1 µs, whatever the length of the tail.
    """
    return stored ^ _advance(crc32c(old_head) ^ crc32c(new_head), tail_length)


def _advance(state: int, zeros: int) -> int:
    """The raw remainder `state` after `zeros` more zero bytes: less than a block by hand, the blocks by tables."""
    state = _after_zeros(state, zeros & ((1 << _BLOCK_BITS) - 1))
    blocks, shift = zeros >> _BLOCK_BITS, 0
    while blocks:
        if digit := blocks & 15:
            state = _apply(_operator(digit << shift), state)
        blocks >>= 4
        shift += 4
    return state


def _after_zeros(state: int, zeros: int) -> int:
    return crc32c(_ZEROS[:zeros], state ^ _ALL_ONES) ^ _ALL_ONES


def _apply(operator: _Tables, state: int) -> int:
    a, b, c, d = operator
    return a[state & 255] ^ b[state >> 8 & 255] ^ c[state >> 16 & 255] ^ d[state >> 24]


@cache
def _operator(blocks: int) -> _Tables:
    """What `blocks` blocks of zeros do to a remainder, as one table for each of its four bytes (linear over GF(2))."""
    if blocks == 1:
        columns = [_after_zeros(1 << bit, 1 << _BLOCK_BITS) for bit in range(32)]
    else:
        first, second = _operator(blocks // 2), _operator(blocks - blocks // 2)
        columns = [_apply(second, _apply(first, 1 << bit)) for bit in range(32)]
    return _table(columns[:8]), _table(columns[8:16]), _table(columns[16:24]), _table(columns[24:])


def _table(columns: list[int]) -> tuple[int, ...]:
    table = [0]
    for column in columns:
        table += [entry ^ column for entry in table]
    return tuple(table)


HEADER_SIZE: Final = 61
_HEADER: Final = Struct(">qiibIhiqqqhii")
unpacked: Final = _HEADER.unpack_from
"""The fields of a header as they are stored, the length without the first twelve bytes."""
_PREFIX: Final = Struct(">qiib")  # as much as it takes to know how far the batch reaches
BEFORE_LENGTH_ENDS: Final = 12
COVERED: Final = 21  # where the checksum's cover begins
MAGIC: Final = 2
_MAGIC_AT: Final = 16

_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40
_NOT_COPIED: Final = _TRANSACTIONAL | _LOG_APPEND_TIME | _DELETE_HORIZON
_GZIP: Final = 1

_I16: Final = Struct(">h")
_U32: Final = Struct(">I")
_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_PRODUCER: Final = Struct(">qhi")


class BatchHeader(NamedTuple):
    """`size` is that of the whole batch in bytes; timestamps are in ms since 1970."""

    base_offset: int
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_dense(self) -> bool:
        """Every offset of the batch has its record; compaction makes holes."""
        return self.record_count == self.last_offset_delta + 1


def split(records: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The complete batches of a fetch answer, in order; nothing is copied, checksums are not checked.

    A broker may cut the last batch anywhere: an incomplete tail ends the walk. A damaged length field can look like
    one, so a fetch that brings bytes but no batch, alone in its request, must not be repeated for ever.

    Raises:
        CorruptBatch: an impossible length. Batches before it have been yielded.
        UnsupportedBatch: it begins with a message of format 0 or 1 that could not be converted. One behind other
            batches ends the walk: the next fetch begins with it, and converts it.
    """
    at, end = 0, len(records)
    while end - at >= HEADER_SIZE:
        if at and 0 <= records[at + _MAGIC_AT] < MAGIC:
            return
        header = _header(records, at)
        following = at + header.size
        if following > end:
            return
        yield header, records[at:following]
        at = following
    _check_stump(records, at)


def walk(records: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """As `split`, each batch checked against its own checksum.

    Raises:
        CorruptBatch: names the offset and the problem. Batches before it have been yielded.
        UnsupportedBatch: as `split`.
    """
    for header, batch in split(records):
        if not is_sound(header, batch):
            raise CorruptBatch(
                f"batch at offset {header.base_offset}: stored checksum {header.crc:#010x} does not match"
            )
        yield header, batch


def whole_bytes(records: memoryview) -> int:
    """Bytes of the batches of an answer that are whole; the last one may have been cut off."""
    at, until = 0, 0
    while until + _PREFIX.size <= len(records):
        _, length, _, _ = _PREFIX.unpack_from(records, until)
        until += BEFORE_LENGTH_ENDS + max(0, length)
        if until <= len(records):
            at = until
    return at


def is_sound(header: BatchHeader, batch: memoryview) -> bool:
    """Whether the stored checksum fits."""
    return crc32c(batch[COVERED:]) == header.crc


def header_of(batch: memoryview) -> BatchHeader:
    """The header of one whole batch; its checksum is not checked.

    Raises:
        CorruptBatch: too short, or its length is impossible.
        UnsupportedBatch: message format 0 or 1.
    """
    if len(batch) < HEADER_SIZE:
        raise CorruptBatch(f"{len(batch)} bytes are not a batch: the header alone has {HEADER_SIZE} bytes")
    return _header(batch, 0)


def _header(records: memoryview, at: int) -> BatchHeader:
    fields = _HEADER.unpack_from(records, at)
    length, magic = fields[1], fields[3]
    if magic != MAGIC or length < HEADER_SIZE - BEFORE_LENGTH_ENDS:
        _refuse(fields[0], length, magic)
    return BatchHeader._make((fields[0], length + BEFORE_LENGTH_ENDS, *fields[2:]))


def _check_stump(records: memoryview, at: int) -> None:
    """What can be known of a batch that was cut inside its header."""
    if len(records) - at >= _PREFIX.size:
        base, length, _, magic = _PREFIX.unpack_from(records, at)
        if at and magic in {0, 1}:
            return
        if magic != MAGIC or length < HEADER_SIZE - BEFORE_LENGTH_ENDS:
            _refuse(base, length, magic)


def _refuse(base: int, length: int, magic: int) -> None:
    if magic in {0, 1}:
        raise UnsupportedBatch(
            f"batch at offset {base}: message format {magic} that cannot be converted: damaged, or LZ4 of format 0"
        )
    if magic != MAGIC:
        raise CorruptBatch(f"batch at offset {base}: unknown message format {magic}")
    raise CorruptBatch(f"batch at offset {base}: impossible length {length}")


def patch(batch: memoryview, producer_id: int, epoch: int, sequence: int, *, transactional: bool = False) -> None:
    """Readdress a batch in place: offset 0, no leader epoch, our producer; the records stay.

    It is in no transaction then, or (`transactional`) in one of ours.

    The timestamp-type bit is cleared too: it belongs to the topic that stamped the records, and a topic with
    message.timestamp.type=LogAppendTime refuses a batch that claims it already (LogValidator.validateBatch). So is the
    delete horizon (KIP-534): the time until which the source's cleaner keeps tombstones is not the copy's. The
    stored checksum is mended by the difference, so a batch damaged after `walk` is still refused by the broker.
    """
    old = bytes(batch[COVERED:HEADER_SIZE])
    _OFFSET.pack_into(batch, 0, 0)
    _EPOCH.pack_into(batch, 12, -1)
    attributes: int = _I16.unpack_from(old)[0] & ~_NOT_COPIED
    _I16.pack_into(batch, 21, attributes | _TRANSACTIONAL if transactional else attributes)
    _PRODUCER.pack_into(batch, 43, producer_id, epoch, sequence)
    stored: int = _U32.unpack_from(batch, 17)[0]
    tail = len(batch) - HEADER_SIZE
    _U32.pack_into(batch, 17, patched(stored, old, batch[COVERED:HEADER_SIZE], tail))


def same_records(a: memoryview, b: memoryview) -> bool:
    """Whether two batches hold the same records at the same times, whoever sent them and wherever they lie.

    The maximum timestamp is not compared where a topic has stamped its own time over it (LogAppendTime).
    """
    ours, theirs = header_of(a), header_of(b)
    return (
        ours.size == theirs.size
        and ours.codec == theirs.codec
        and ours.base_timestamp == theirs.base_timestamp
        and (ours.max_timestamp == theirs.max_timestamp or ours.is_log_append_time or theirs.is_log_append_time)
        and a[HEADER_SIZE:] == b[HEADER_SIZE:]
    )


def assembled(header: BatchHeader, body: bytes) -> tuple[BatchHeader, memoryview]:
    """A batch of the records in `body`, which `header` describes but for size and checksum."""
    batch = bytearray(HEADER_SIZE + len(body))
    _HEADER.pack_into(batch, 0, header.base_offset, len(batch) - BEFORE_LENGTH_ENDS, *header[2:])
    batch[HEADER_SIZE:] = body
    checksum = crc32c(memoryview(batch)[COVERED:])
    _U32.pack_into(batch, 17, checksum)
    return header._replace(size=len(batch), crc=checksum), memoryview(batch)


def filler_batch(count: int, producer_id: int, epoch: int, sequence: int, timestamp_ms: int) -> bytearray:
    """A batch of `count` records with an empty key and no value, gzip: some 1.4 bytes each, so mind max.message.bytes.

    A compacted topic refuses records without a key.

    Its timestamp should be the current time: with an old one the broker forgets our producer id at once.
    """
    return _batch(_filler_body(count), count, (producer_id, epoch, sequence), timestamp_ms)


def single_record_batch(record: bytes, producer_id: int, epoch: int, sequence: int, timestamp_ms: int) -> bytearray:
    """A batch of one record, gzip; `record` as `record_set.encoded` makes it."""
    squeeze = zlib.compressobj(level=6, wbits=31)
    return _batch(squeeze.compress(record) + squeeze.flush(), 1, (producer_id, epoch, sequence), timestamp_ms)


def _batch(body: bytes, count: int, who: tuple[int, int, int], timestamp_ms: int) -> bytearray:
    """As a producer sends it; `body`: the records, gzip."""
    batch = bytearray(HEADER_SIZE + len(body))
    length = len(batch) - BEFORE_LENGTH_ENDS
    _HEADER.pack_into(batch, 0, 0, length, -1, MAGIC, 0, _GZIP, count - 1, timestamp_ms, timestamp_ms, *who, count)
    batch[HEADER_SIZE:] = body
    _U32.pack_into(batch, 17, crc32c(memoryview(batch)[COVERED:]))
    return batch


@lru_cache(maxsize=16)
def _filler_body(count: int) -> bytes:
    squeeze = zlib.compressobj(level=6, wbits=31)
    whole, rest = divmod(count, _GROUP)
    parts = [squeeze.compress(_filler_records(group, _GROUP)) for group in range(whole)]
    return b"".join([*parts, squeeze.compress(_filler_records(whole, rest)), squeeze.flush()])


_GROUP: Final = 64  # offsets that share all but the lowest seven bits of their zigzag number


def _filler_records(group: int, count: int) -> bytes:
    """Records from number 64 * `group` on: length, attributes, time delta, offset delta, empty key, value, headers."""
    if group == 0:
        return b"".join(b"\x0c\0\0%c\0\x01\0" % (low << 1) for low in range(count))
    high = varint(group)
    start = bytes([(6 + len(high)) << 1, 0, 0])
    return b"".join(start + bytes([low << 1 | 0x80]) + high + b"\0\x01\0" for low in range(count))


_KEY: Final = Struct(">hh")  # version, type


class ControlType(IntEnum):
    """UNKNOWN: a type that came after us. Like every control record it takes an offset and shows nothing to readers."""

    ABORT, COMMIT = 0, 1
    LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 2, 3, 4, 5, 6
    UNKNOWN = -1

    @classmethod
    def _missing_(cls, _value: object) -> ControlType:
        return cls.UNKNOWN


def control_type(batch: memoryview) -> ControlType:
    """What the first record of a control batch says.

    Raises:
        CorruptBatch: the batch is not a control batch, or its record has no readable key.
    """
    header = header_of(batch)
    if not header.is_control:
        raise CorruptBatch(f"batch at offset {header.base_offset}: not a control batch")
    _, at = read_zigzag(batch, HEADER_SIZE)  # length; one byte of attributes follows
    _, at = read_zigzag(batch, at + 1)  # timestamp delta
    _, at = read_zigzag(batch, at)  # offset delta
    length, at = read_zigzag(batch, at)
    if length < _KEY.size or at + length > len(batch):
        raise CorruptBatch(f"batch at offset {header.base_offset}: a control record with a key of {length} bytes")
    return ControlType(_KEY.unpack_from(batch, at)[1])
