"""Batches are found, refused and readdressed; their records are nobody's business."""

from __future__ import annotations

import contextlib
import gzip
import struct
from itertools import pairwise
from random import Random

import crc32c
import pytest

from tanist.domain.errors import CorruptBatch, UnsupportedBatch
from tanist.kafka.protocol.batch import BatchHeader, filler_batch, header_of, patch, same_records, walk, whole_bytes
from tanist.kafka.protocol.encoding import read_zigzag
from tests.unit.kafka.protocol.batches import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    encode_batch,
    encode_marker,
)

NOT_COVERED = frozenset([*range(8), *range(12, 16)])  # base offset and leader epoch: no checksum of Kafka's covers them
LENGTH = range(8, 12)


def log_of(rng: Random, count: int) -> tuple[bytearray, list[int]]:
    """Some batches one after another, and where each begins; the last entry is the end."""
    log, starts, offset = bytearray(), [0], rng.randrange(1 << 40)
    for _ in range(count):
        values = [rng.randbytes(rng.randrange(60)) for _ in range(rng.randrange(1, 9))]
        flags = rng.choice([0, GZIP, TRANSACTIONAL, LOG_APPEND_TIME | GZIP])
        log += encode_batch(values, base_offset=offset, attributes=flags, producer=(rng.randrange(99), 3, 17))
        starts.append(len(log))
        offset += len(values)
    return log, starts


def test_header_names_every_field() -> None:
    batch = memoryview(encode_batch([b"a", b"b"], base_offset=41, attributes=TRANSACTIONAL | GZIP, producer=(7, 2, 9)))
    stored = struct.unpack_from(">I", batch, 17)[0]
    header = header_of(batch)
    assert header == BatchHeader(41, len(batch), 4, 2, stored, TRANSACTIONAL | GZIP, 1, 1_000, 1_001, 7, 2, 9, 2)
    assert (header.last_offset, header.next_offset, header.codec) == (42, 43, 1)
    assert (header.is_control, header.is_transactional, header.is_log_append_time, header.is_dense) == (
        False, True, False, True,
    )  # fmt: skip
    assert not header._replace(last_offset_delta=5).is_dense


@pytest.mark.parametrize("seed", range(20))
def test_walk_returns_each_batch_whole_and_in_place(seed: int) -> None:
    log, starts = log_of(Random(seed), 6)
    found = list(walk(memoryview(log)))
    assert [bytes(batch) for _, batch in found] == [bytes(log[a:b]) for a, b in pairwise(starts)]
    assert all(batch.obj is log for _, batch in found)
    assert all(a.next_offset == b.base_offset for (a, _), (b, _) in pairwise(found))


def test_a_tail_cut_at_any_byte_ends_the_walk_after_the_last_whole_batch() -> None:
    log, starts = log_of(Random(1), 4)
    for cut in range(len(log) + 1):
        whole = sum(end <= cut for end in starts[1:])
        assert len(list(walk(memoryview(log)[:cut]))) == whole
        assert whole_bytes(memoryview(log)[:cut]) == max(start for start in starts if start <= cut)


def test_every_flipped_bit_that_the_checksum_covers_is_corruption() -> None:
    batch = encode_batch([b"a", b"bc"], base_offset=5)
    for byte in range(len(batch)):
        for bit in range(8):
            batch[byte] ^= 1 << bit
            if byte in NOT_COVERED:
                assert len(list(walk(memoryview(batch)))) == 1
            elif byte in LENGTH:
                refused_or_cut(batch)
            else:
                with pytest.raises((CorruptBatch, UnsupportedBatch)):
                    list(walk(memoryview(batch)))
            batch[byte] ^= 1 << bit


def refused_or_cut(batch: bytearray) -> None:
    """A length that grew cannot be told from a cut answer; in no case does a batch come out."""
    with contextlib.suppress(CorruptBatch):
        assert list(walk(memoryview(batch))) == []


def test_corruption_is_named_by_its_offset_after_the_batches_before_it() -> None:
    log, starts = log_of(Random(3), 3)
    bad_offset = struct.unpack_from(">q", log, starts[1])[0]
    log[starts[1] + 61] ^= 1
    found = walk(memoryview(log))
    next(found)
    with pytest.raises(CorruptBatch, match=f"offset {bad_offset}: .* checksum"):
        next(found)


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
@pytest.mark.parametrize("cut", [17, 61, None])
def test_an_impossible_length_is_refused_even_in_a_stump(length: int, cut: int | None) -> None:
    batch = encode_batch([b"a"], base_offset=5)
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatch, match=f"offset 5: impossible length {length}"):
        list(walk(memoryview(batch)[:cut]))


@pytest.mark.parametrize(("magic", "error"), [(0, UnsupportedBatch), (1, UnsupportedBatch), (3, CorruptBatch)])
@pytest.mark.parametrize("cut", [17, None])
def test_other_message_formats_are_refused_by_name(magic: int, error: type[Exception], cut: int | None) -> None:
    batch = encode_batch([b"a"], base_offset=5)
    batch[16] = magic
    with pytest.raises(error, match="message format"):
        list(walk(memoryview(batch)[:cut]))


@pytest.mark.parametrize("seed", range(20))
def test_patch_changes_the_address_and_nothing_else(seed: int) -> None:
    rng = Random(seed)
    values = [rng.randbytes(rng.randrange(5_000)) for _ in range(rng.randrange(1, 9))]
    flags = rng.choice([0, GZIP]) | rng.choice([0, TRANSACTIONAL]) | rng.choice([0, LOG_APPEND_TIME])
    before = encode_batch(values, base_offset=10**12, attributes=flags, producer=(99, 5, 3))
    after = bytearray(before)
    patch(memoryview(after), 2**40, 7, 2**31 - 1)
    [(header, _)] = walk(memoryview(after))
    assert header == header_of(memoryview(before))._replace(
        base_offset=0,
        leader_epoch=-1,
        crc=crc32c.crc32c(after[21:]),
        attributes=flags & GZIP,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=2**31 - 1,
    )
    assert after[61:] == before[61:]
    assert same_records(memoryview(before), memoryview(after))


def test_the_delete_horizon_of_the_source_is_not_the_copys() -> None:
    """The copy's cleaner removed tombstones at the source's time: slow readers of the copy never saw the deletion."""
    batch = encode_batch([None], attributes=GZIP | 0x40)
    patch(memoryview(batch), 1, 0, 0)
    [(header, _)] = walk(memoryview(batch))
    assert header.attributes == GZIP


def test_patch_puts_a_batch_into_a_transaction_of_ours_whatever_it_was_in() -> None:
    for attributes in (0, TRANSACTIONAL, GZIP | TRANSACTIONAL):
        batch = memoryview(encode_batch([b"a", b"b"], attributes=attributes, producer=(7, 3, 11)))
        patch(batch, 9, 4, 0, transactional=True)
        header = header_of(batch)
        assert (header.is_transactional, header.codec) == (True, attributes & 7)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 4, 0)
        assert [each for each, _ in walk(batch)] == [header], "its checksum is right"


def test_patch_cannot_hide_damage() -> None:
    rng = Random(4)
    for _ in range(100):
        batch = encode_batch([rng.randbytes(400)], base_offset=3)
        batch[rng.randrange(61, len(batch))] ^= 1 << rng.randrange(8)
        patch(memoryview(batch), 1, 0, 0)
        with pytest.raises(CorruptBatch):
            list(walk(memoryview(batch)))


def test_same_records_looks_at_records_times_and_codec() -> None:
    base = memoryview(encode_batch([b"a", b"b"], base_offset=1, producer=(1, 1, 1)))
    assert same_records(base, memoryview(encode_batch([b"a", b"b"], base_offset=9, producer=(2, 0, 0))))
    for other in (
        encode_batch([b"a", b"c"]),
        encode_batch([b"a"]),
        encode_batch([b"a", b"b"], timestamp_ms=1_001),
        encode_batch([b"a", b"b"], attributes=GZIP),
    ):
        assert not same_records(base, memoryview(other))


def test_same_records_forgives_a_time_stamped_over_by_the_topic() -> None:
    base, stamped = encode_batch([b"a"]), encode_batch([b"a"], attributes=LOG_APPEND_TIME)
    struct.pack_into(">q", stamped, 35, 999_999)
    assert same_records(memoryview(base), memoryview(stamped))
    struct.pack_into(">h", stamped, 21, 0)
    assert not same_records(memoryview(base), memoryview(stamped))


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
def test_records_that_begin_at_another_time_are_not_the_same(attributes: int) -> None:
    """Records hold their distance from the base timestamp only: the same bytes on another base are other times."""
    base = encode_batch([b"a", b"b"], attributes=attributes)
    moved = bytearray(base)
    struct.pack_into(">q", moved, 27, 999)
    assert header_of(memoryview(moved)).max_timestamp == header_of(memoryview(base)).max_timestamp
    assert not same_records(memoryview(base), memoryview(moved))


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 127, 128, 8_192, 8_193, 100_000])
def test_fillers_are_null_records_that_count_their_offsets(count: int) -> None:
    batch = filler_batch(count, 5, 1, 77, 123_456)
    [(header, whole)] = walk(memoryview(batch))
    assert (header.record_count, header.last_offset_delta, header.codec) == (count, count - 1, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 77)
    assert (header.base_timestamp, header.max_timestamp, header.base_offset) == (123_456, 123_456, 0)
    body, at = gzip.decompress(whole[61:]), 0
    for expected in range(count):
        length, at = read_zigzag(body, at)
        delta, after = read_zigzag(body, at + 2)
        assert (delta, bytes(body[after : at + length])) == (expected, b"\0\x01\0")
        at += length
    assert at == len(body)


def test_a_stump_has_no_header() -> None:
    with pytest.raises(CorruptBatch, match="not a batch"):
        header_of(memoryview(encode_batch([b""]))[:60])
    assert header_of(memoryview(encode_marker(3, 0))).attributes == TRANSACTIONAL | CONTROL
