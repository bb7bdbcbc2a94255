"""A record says where it came from, and can be put back as it was."""

from __future__ import annotations

import pytest

from tanist.domain.errors import CorruptBatch
from tanist.domain.names import MirrorPartition
from tanist.kafka.protocol.batch import header_of, is_sound
from tanist.kafka.protocol.encoding import read_zigzag
from tanist.kafka.protocol.origin import (
    Outgoing,
    RecordOrigin,
    batch_of,
    key_of,
    tombstone_of,
    with_origin,
    without_origin,
)
from tanist.kafka.protocol.record_set import encoded, records_of
from tanist.kafka.protocol.records_left import records_left

ORIGIN = RecordOrigin("cluster", MirrorPartition("topic", 3), 2**40)
HEADERS = (("h", b"1"), ("none", None), ("tanist.origin.offset", b"7"))


def rest_of(key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> bytes:
    """Key, value and headers, as they are stored."""
    record = encoded(key, value, headers)
    _, at = read_zigzag(record, 0)
    return record[at + 3 :]


@pytest.mark.parametrize("key", [None, b"", b"k" * 300])
@pytest.mark.parametrize("value", [None, b"", b"v" * 300])
@pytest.mark.parametrize("headers", [(), HEADERS, HEADERS * 30])
def test_origin_is_added_and_taken_off(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    rest = rest_of(key, value, headers)
    assert without_origin(with_origin(rest, ORIGIN)) == (rest, ORIGIN)
    assert key_of(with_origin(rest, ORIGIN)) == key


def test_record_without_an_origin_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="does not say where it came from"):
        without_origin(rest_of(b"k", b"v", HEADERS))


def test_batch_holds_its_records_at_their_times() -> None:
    rests = [with_origin(rest_of(b"%d" % n, b"v", HEADERS), ORIGIN) for n in range(200)]
    batch = memoryview(batch_of([Outgoing(1_000 - n, rest) for n, rest in enumerate(rests)], 7, 1, 5))
    header = header_of(batch)
    assert is_sound(header, batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 1, 5, 200)
    assert header.max_timestamp == 1_000
    assert [(each.offset, each.rest) for each in records_left(header, batch)] == list(enumerate(rests))
    assert [each.timestamp for each in records_of(batch)] == [1_000 - n for n in range(200)]


def test_tombstone_has_the_key_alone() -> None:
    assert tombstone_of(b"k") == rest_of(b"k", None)
