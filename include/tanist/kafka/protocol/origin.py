"""Records that are copied away from their offsets: each says in headers where it came from.

The four headers are the last ones of the record. A record that had such headers before keeps them, in front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import CorruptBatch
from tanist.domain.names import TopicPartition
from tanist.kafka.protocol import compression
from tanist.kafka.protocol.batch import MAGIC, BatchHeader, assembled
from tanist.kafka.protocol.encoding import read_number, zigzag

if TYPE_CHECKING:
    from collections.abc import Sequence

CLUSTER: Final = "tanist.origin.cluster"
TOPIC: Final = "tanist.origin.topic"
PARTITION: Final = "tanist.origin.partition"
OFFSET: Final = "tanist.origin.offset"
_NAMES: Final = (CLUSTER, TOPIC, PARTITION, OFFSET)


class RecordOrigin(NamedTuple):
    """Where a record was written first."""

    cluster_id: str
    partition: TopicPartition
    offset: int


class Outgoing(NamedTuple):
    """A record to append. `time`: ms since 1970; `rest`: key, value and headers, as they are stored."""

    time: int
    rest: bytes


def with_origin(rest: bytes, origin: RecordOrigin) -> bytes:
    """Key, value and headers of a record, with the headers that say where it came from."""
    count, count_at, headers_at = _headers(rest)
    values = (origin.cluster_id, origin.partition.topic, str(origin.partition.partition), str(origin.offset))
    added = b"".join(_text(name) + _text(value) for name, value in zip(_NAMES, values, strict=True))
    return rest[:count_at] + zigzag(count + len(_NAMES)) + rest[headers_at:] + added


def without_origin(rest: bytes) -> tuple[bytes, RecordOrigin]:
    """What `with_origin` was given.

    Raises:
        CorruptBatch: the last four headers are not those of an origin.
    """
    count, count_at, headers_at = _headers(rest)
    at, found = headers_at, []
    own = count - len(_NAMES)
    own_end = headers_at
    for number in range(count):
        if number == own:
            own_end = at
        name, at = _field(rest, at)
        value, at = _field(rest, at)
        if number >= own:
            found.append((name.decode(errors="replace"), value.decode(errors="replace")))
    if own < 0 or tuple(name for name, _ in found) != _NAMES:
        raise CorruptBatch("a rescued record does not say where it came from")
    cluster_id, topic, partition, offset = (value for _, value in found)
    origin = RecordOrigin(cluster_id, TopicPartition(topic, int(partition)), int(offset))
    return rest[:count_at] + zigzag(own) + rest[headers_at:own_end], origin


def key_of(rest: bytes) -> bytes | None:
    """The key; None: the record has none."""
    length, at = read_number(rest, 0)
    return None if length < 0 else rest[at : at + length]


def batch_of(records: Sequence[Outgoing], producer_id: int, epoch: int, sequence: int) -> bytearray:
    """One batch of `records`, gzip, as a producer sends it."""
    base = records[0].time
    body = b"".join(_record(number, each.time - base, each.rest) for number, each in enumerate(records))
    header = BatchHeader(
        base_offset=0,
        size=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=compression.GZIP,
        last_offset_delta=len(records) - 1,
        base_timestamp=base,
        max_timestamp=max(each.time for each in records),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=len(records),
    )
    return bytearray(assembled(header, compression.compressed(compression.GZIP, body))[1])


def _record(number: int, time: int, rest: bytes) -> bytes:
    record = b"\0" + zigzag(time) + zigzag(number) + rest
    return zigzag(len(record)) + record


def _headers(rest: bytes) -> tuple[int, int, int]:
    """How many headers there are, where that number is, and where the first one begins."""
    at = 0
    for _ in range(2):
        length, at = read_number(rest, at)
        at += max(0, length)
    count, headers_at = read_number(rest, at)
    return count, at, headers_at


def _field(rest: bytes, at: int) -> tuple[bytes, int]:
    length, at = read_number(rest, at)
    end = at + max(0, length)
    return rest[at:end], end


def _text(text: str) -> bytes:
    data = text.encode()
    return zigzag(len(data)) + data


def tombstone_of(key: bytes) -> bytes:
    """Key, value and headers of a tombstone of `key`."""
    return zigzag(len(key)) + key + zigzag(-1) + zigzag(0)
