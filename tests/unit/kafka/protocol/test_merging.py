"""Runs of small batches become one, with the same records; kafka-python says what is in them."""

from __future__ import annotations

import zlib
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import CorruptBatch, UnsupportedBatch
from tanist.domain.varints import varint
from tanist.kafka.protocol import merging
from tanist.kafka.protocol.batch import patch, split, walk
from tanist.kafka.protocol.compression import compressed
from tanist.kafka.protocol.encoding import zigzag
from tanist.kafka.protocol.merging import SMALL, is_made_of, sample, walk_merged
from tanist.spark import codecs
from tests.unit.kafka.protocol.batches import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    encode_batch,
    encode_marker,
    encode_record,
    length_and_bytes,
    seal,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.kafka.protocol.batch import BatchHeader

LIMIT = 64 << 10
HORIZON = 0x40


def encode(rng: Random, offset: int, count: int, attributes: int = 0, producer: int = 7, most: int = 300) -> bytearray:
    """A batch as Java's producer makes it, of records with nulls, headers, times in any order; compressed if told."""
    body = b""
    for number in range(count):
        key, value = (None if rng.random() < 0.2 else rng.randbytes(rng.randrange(most)) for _ in range(2))
        headers = [(b"header"[: rng.randrange(7)], rng.randbytes(3)) for _ in range(rng.randrange(3))]
        record = (
            b"\0"
            + zigzag(rng.randrange(-90_000, 90_000))
            + zigzag(number)
            + length_and_bytes(key)
            + length_and_bytes(value)
        )
        record += varint(len(headers) << 1) + b"".join(
            length_and_bytes(name) + length_and_bytes(held) for name, held in headers
        )
        body += zigzag(len(record)) + record
    time = 1_700_000_000_000 + rng.randrange(1_000_000)
    packed = compressed(attributes & 7, body)
    return seal(packed, offset, attributes, count, time, (producer, 0, rng.randrange(1 << 31)))


def contents(batches: Iterable[memoryview]) -> list[tuple[object, ...]]:
    """Offset, time, key, value and headers of every record, as kafka-python reads them."""
    return [
        (each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
        for batch in batches
        for each in import_module("kafka.record.default_records").DefaultRecordBatch(bytes(opened(batch)))
    ]


def opened(batch: memoryview) -> bytearray:
    """Without compression, which code that Spark's executors use has opened: kafka-python has no codecs here."""
    [(header, _)] = walk(batch)
    body = codecs.decompressed(header.codec, batch[61:])
    times = header.base_timestamp, (header.producer_id, header.producer_epoch, header.base_sequence)
    return seal(body, header.base_offset, 0, header.record_count, *times)


def both(log: bytes | bytearray, position: int = 0, limit: int = LIMIT) -> tuple[list[memoryview], list[memoryview]]:
    """The batches as they lie in the log, and merged."""
    view = memoryview(bytearray(log))
    return [batch for _, batch in walk(view)], [batch for _, batch in walk_merged(view, position, limit)]


def headers(log: bytes | bytearray, position: int = 0, limit: int = LIMIT) -> list[BatchHeader]:
    return [header for header, _ in walk_merged(memoryview(bytearray(log)), position, limit)]


@pytest.mark.parametrize("seed", range(40))
def test_records_of_merged_batches_are_those_of_the_batches(seed: int) -> None:
    rng = Random(seed)
    log, offset = bytearray(), rng.randrange(1 << 40)
    for _ in range(rng.randrange(2, 60)):
        count = rng.choice((1, 1, 1, 2, 40))
        flags, producer = rng.choice((0, 0, 0, TRANSACTIONAL)), rng.choice((7, 8))
        log += encode(rng, offset, count, flags, producer, most=rng.choice((5, 300, 9_000)))
        offset += count
        if rng.random() < 0.1:
            log += encode_marker(offset, 1, (producer, 0, -1))
            offset += 1
    log += encode(rng, offset, 1) + encode(rng, offset + 1, 1)
    before, after = both(log, limit=rng.choice((2_000, 20_000, LIMIT)))
    assert contents(after) == contents(before)
    assert len(after) < len(before)
    times = {header.base_offset: header.max_timestamp for header, _ in walk(memoryview(log))}
    for batch in after:
        [(header, _)] = walk(batch)
        assert header.max_timestamp == max(times[at] for at in times if header.base_offset <= at <= header.last_offset)


@pytest.mark.parametrize("codec", range(1, 5), ids=["gzip", "snappy", "lz4", "zstd"])
def test_a_run_of_compressed_batches_becomes_one_of_their_codec(codec: int) -> None:
    """They stayed as they were, and each cost as much as a large one."""
    rng = Random(codec)
    log = b"".join(encode(rng, 3 * n, 3, codec | rng.choice((0, TRANSACTIONAL)), most=60) for n in range(90))
    before, after = both(log)
    assert contents(after) == contents(before)
    assert 1 < len(after) < 60
    assert sum(map(len, after)) < len(log)
    for batch in after:
        [(header, _)] = walk(batch)
        originals = before[header.base_offset // 3 : header.next_offset // 3]
        assert header.codec == codec
        assert is_made_of(batch, originals, 0)
        assert len(originals) == 1 or not is_made_of(batch, originals[1:], 0)


def test_batches_of_two_codecs_are_not_merged() -> None:
    log = b"".join(encode(Random(n), n, 1, n // 2 % 5) for n in range(10))
    before, after = both(log)
    assert contents(after) == contents(before)
    assert [header.codec for batch in after for header, _ in walk(batch)] == [0, 1, 2, 3, 4]


def test_a_run_that_would_be_larger_than_the_limit_once_compressed_stays_as_it_is() -> None:
    """Its producer has compressed better than we do: a broker would refuse the batch for its size."""
    body = encode_record(0, b"k", b"abcdefgh" * 900)
    small = zlib.compress(body, level=9, wbits=31)
    log = b"".join(seal(small, n, GZIP, 1, 1_000, (-1, -1, -1)) for n in range(2))
    assert len(headers(log, limit=len(log))) == 1
    before, after = both(log, limit=len(log) - 1)
    assert [bytes(each) for each in after] == [bytes(each) for each in before]


def test_compressed_records_that_are_damaged_inside_stay_as_they_are() -> None:
    sound, odd = encode(Random(1), 0, 1, GZIP), seal(b"no gzip", 1, GZIP, 1, 1_000, (-1, -1, -1))
    before, after = both(sound + odd)
    assert [bytes(each) for each in after] == [bytes(each) for each in before]


def test_a_run_of_one_record_each_is_one_batch_that_can_be_sent() -> None:
    rng = Random(1)
    log = b"".join(encode(rng, n, 1, producer=n) for n in range(200))
    before, [one] = both(log, limit=1 << 20)
    [(header, _)] = walk(one)
    assert (header.base_offset, header.record_count, header.last_offset_delta) == (0, 200, 199)
    patch(one, 9, 0, 55)
    assert [header.base_sequence for header, _ in walk(one)] == [55]
    assert is_made_of(one, before, 0)


@pytest.mark.parametrize("seed", range(40))
def test_batches_of_one_record_become_the_same_batches_in_one_pass(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass of their own is a shortcut: without it they are merged into the same bytes."""
    rng = Random(seed)
    log, offset, time = bytearray(), rng.randrange(1 << 40), 1_700_000_000_000
    for number in range(rng.randrange(2, 400)):
        flags = TRANSACTIONAL if rng.random() < 0.1 else 0
        key, value = (None if rng.random() < 0.2 else rng.randbytes(rng.choice((3, 60, 300))) for _ in range(2))
        time += rng.choice((0, 0, 1, 90_000, -90_000))
        producer = (rng.choice((7, 8)), 0, number)
        batch = encode_batch(
            [value], base_offset=offset, attributes=flags, timestamp_ms=time, producer=producer, key=key
        )
        if number and rng.random() < 0.01:
            batch[-1] ^= 1
        log += batch
        offset += 1 + (rng.random() < 0.02)
    limit = rng.choice((2_000, 20_000, LIMIT, 1 << 20))
    position = rng.choice((0, offset - 100))

    def merged() -> list[bytes]:
        found = []
        try:
            for _, batch in walk_merged(memoryview(log), position, limit):
                found.append(bytes(batch))
        except CorruptBatch:
            found.append(b"damaged")
        return found

    in_one_pass = merged()
    monkeypatch.setattr(merging, "_merged_singles", lambda *_: None)
    assert in_one_pass == merged()


@pytest.mark.parametrize(
    "between",
    [
        encode_batch([b"x"], base_offset=2, attributes=GZIP),
        encode_batch([b"x"], base_offset=2, attributes=LOG_APPEND_TIME),
        encode_batch([b"x"], base_offset=2, attributes=HORIZON),
        encode_batch([b"x"], base_offset=2, attributes=TRANSACTIONAL),
        encode_batch([b"x"], base_offset=2, attributes=TRANSACTIONAL | CONTROL),
        encode_batch([b"x" * SMALL], base_offset=2),
    ],
    ids=["gzip", "stamped", "horizon", "transaction", "marker", "large"],
)
def test_a_batch_that_is_not_like_the_others_ends_a_run_and_stays_as_it_is(between: bytearray) -> None:
    singles = {n: encode_batch([b"v"], base_offset=n) for n in (0, 1, 3, 4)}
    log = singles[0] + singles[1] + between + singles[3] + singles[4]
    _, after = both(log)
    assert len(after) == 3
    assert bytes(after[1]) == bytes(between)


def test_transactions_of_two_producers_are_not_merged() -> None:
    """One of them may be aborted, and then its records must not come with those of the other."""
    log = b"".join(
        encode_batch([b"v"], base_offset=n, attributes=TRANSACTIONAL, producer=(who, 0, n))
        for n, who in enumerate((1, 1, 2, 2, 1))
    )
    assert [(each.producer_id, each.record_count) for each in headers(log)] == [(1, 2), (2, 2), (1, 1)]


def test_batches_with_a_hole_between_them_are_not_merged() -> None:
    log = encode_batch([b"v"], base_offset=0) + encode_batch([b"v"], base_offset=2)
    assert [each.base_offset for each in headers(log)] == [0, 2]


def test_a_batch_that_lacks_records_is_not_merged() -> None:
    lacking = encode_batch([b"a", b"b"], base_offset=1)
    lacking[23:27] = (4).to_bytes(4, "big")  # lastOffsetDelta
    [(header, _)] = split(memoryview(lacking))
    body = bytes(lacking[61:])
    assert not header.is_dense
    sound = seal(body, 1, 0, 2, 1_000, (-1, -1, -1))
    assert len(headers(encode_batch([b"v"]) + sound)) == 1


def test_nothing_before_the_position_is_merged() -> None:
    """What was copied already must not be copied again with what follows it."""
    log = b"".join(encode_batch([b"v"], base_offset=n) for n in range(5))
    assert [(each.base_offset, each.record_count) for each in headers(log, position=2)] == [(0, 1), (1, 1), (2, 3)]


def test_no_merged_batch_is_larger_than_the_limit() -> None:
    log = b"".join(encode_batch([b"v" * 50], base_offset=n) for n in range(100))
    made = headers(log, limit=1_000)
    assert max(each.size for each in made) <= 1_000
    assert sum(each.record_count for each in made) == 100


def test_a_record_that_misstates_its_offset_keeps_its_batches_as_they_are() -> None:
    odd = seal(b"\x0e\0\0\x06\x01\x02v\0", 1, 0, 1, 1_000, (-1, -1, -1))  # it says that it is record 3
    log = encode_batch([b"v"]) + odd + encode_batch([b"v"], base_offset=2)
    before, after = both(log)
    assert [bytes(each) for each in after] == [bytes(each) for each in before]


@pytest.mark.parametrize("damaged", [0, 3, 5])
def test_a_damaged_batch_is_refused_after_all_before_it(damaged: int) -> None:
    batches = [encode_batch([b"value"], base_offset=n) for n in range(6)]
    batches[damaged][-3] ^= 1
    found = walk_merged(memoryview(bytearray(b"".join(batches))), 0, LIMIT)
    got: list[int] = []
    with pytest.raises(CorruptBatch, match=f"batch at offset {damaged}: stored checksum"):
        got.extend(header.next_offset for header, _ in found)
    assert got[-1:] == ([damaged] if damaged else [])


def test_an_old_format_is_refused_and_a_cut_tail_is_left_alone() -> None:
    log = encode_batch([b"v"]) + encode_batch([b"v"], base_offset=1)
    assert [each.record_count for each in headers(log + encode_batch([b"v"], base_offset=2)[:-5])] == [2]
    old = encode_batch([b"v"], base_offset=2)
    old[16] = 1
    with pytest.raises(UnsupportedBatch):
        headers(log + old)


def test_merged_records_are_compared_one_by_one() -> None:
    rng = Random(5)
    before, [one] = both(b"".join(encode(rng, n, 1) for n in range(9)))
    other = memoryview(encode(rng, 8, 1))
    assert is_made_of(one, before, 0)
    assert is_made_of(one, before[4:], 4), "what retention has taken from the source is left out"
    assert is_made_of(one, before[:1], 0), "as far as they go"
    assert not is_made_of(one, before[4:], 3)
    assert not is_made_of(one, [*before[:8], other], 0)
    assert not is_made_of(one, before[1:], 0)
    assert is_made_of(before[0], before[:1], 0)
    assert not is_made_of(before[0], [other], 0)


def test_a_time_stamped_over_by_the_topic_is_forgiven() -> None:
    before, [one] = both(b"".join(encode(Random(n), n, 1) for n in range(4)))
    [(header, _)] = walk(one)
    body = bytes(one[61:])
    stamped = seal(body, 0, LOG_APPEND_TIME, 4, header.base_timestamp, (9, 0, 0))
    assert is_made_of(memoryview(stamped), before, 0)


def test_a_sample_says_what_the_batches_are_like() -> None:
    log = bytearray(b"".join(encode_batch([b"v"] * 3, base_offset=3 * n) for n in range(40)))
    size = len(log) // 40
    assert sample(memoryview(log)) == (16, 48, 16 * size)
    assert sample(memoryview(log)[: size + 9]) == (1, 3, size)
    log[16 + size] = 0
    assert sample(memoryview(log)) == (1, 3, size)
