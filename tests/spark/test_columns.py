"""Records as columns, held against readers that share no code with them."""

from __future__ import annotations

import struct
import time
import zlib
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from xxhash import xxh3_64_intdigest

from tanist.domain.errors import CorruptBatch, UnsupportedBatch
from tanist.kafka.protocol.batch import crc32c, header_of
from tanist.kafka.protocol.encoding import zigzag
from tanist.kafka.protocol.record_set import records_of
from tanist.spark import codecs
from tanist.spark.columns import Columns, body_of, columns
from tanist.spark.inside import records_from
from tanist.spark.record_source import FLUSH, digest_rows, portions
from tanist.spark.spans import LogSpan
from tests.kafka.fetcher.logs import Row, read
from tests.spark.forging import append, many, written
from tests.unit.kafka.protocol.batches import GZIP, LOG_APPEND_TIME, encode_record, seal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import SparkSession

    from tanist.spark.record_source import Portion
    from tests.kafka.fetcher.rig import Rig

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # pyspark leaves that behind
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def content(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> bytes:
    """As the format tells (KIP-98), written down a second time."""
    named = b"".join(field(name.encode()) + field(data) for name, data in headers)
    return field(key) + field(value) + zigzag(len(headers)) + named


def field(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def digests(contents: Iterable[bytes]) -> list[int]:
    unsigned = (xxh3_64_intdigest(each) for each in contents)
    return [each - (1 << 64) if each >> 63 else each for each in unsigned]


def decoded(batch: bytearray) -> Columns:
    return all_decoded([batch])


def all_decoded(batches: Sequence[bytearray]) -> Columns:
    found = [(header_of(memoryview(each)), memoryview(each)) for each in batches]
    return columns([(header, body_of(header, batch)) for header, batch in found])


def random_batch(random: Random, attributes: int, count: int) -> bytearray:
    """Holes between the offsets, times in any order, lengths of one to three bytes, nulls."""
    body, offset = b"", -1
    for _ in range(count):
        offset += random.choice((1, 1, 1, 200, 70_000))
        key, value = (random.choice((None, b"", random.randbytes(random.choice((1, 63, 64, 9000))))) for _ in range(2))
        headers = [("h" * random.choice((0, 1, 70)), random.choice((None, b"v")))] * random.choice((0, 0, 1, 3))
        delta = random.choice((0, 1, -1, 63, 64, -(1 << 40), 1 << 40))
        rest = b"\0" + zigzag(delta) + zigzag(offset) + content(key, value, headers)
        body += zigzag(len(rest)) + rest
    packed = zlib.compress(body, wbits=31) if attributes & 7 == GZIP else body
    batch = seal(packed, random.choice((0, 1 << 40)), attributes, count, 1 << random.choice((10, 40)), (-1, -1, -1))
    struct.pack_into(">i", batch, 23, offset)  # the last offset delta
    return mend(batch)


def mend(batch: bytearray) -> bytearray:
    """With a checksum that fits."""
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return batch


@pytest.mark.parametrize("attributes", [0, GZIP, LOG_APPEND_TIME])
@pytest.mark.parametrize("seed", range(20))
def test_columns_are_what_the_decoder_of_single_records_says(seed: int, attributes: int) -> None:
    random = Random(seed)
    batch = random_batch(random, attributes, random.choice((1, 2, 50, 300)))
    found, expected = decoded(batch), list(records_of(memoryview(batch)))
    assert found.offsets.tolist() == [each.offset for each in expected]
    assert found.times.tolist() == [each.timestamp for each in expected]
    stored = [field(each.key) + field(each.value) + each.tail for each in expected]
    assert found.content.tolist() == digests(stored)
    assert found.sizes.tolist() == [len(each) for each in stored]


@pytest.mark.parametrize("seed", range(20))
def test_many_batches_at_once_are_the_columns_of_each(seed: int) -> None:
    """Of any codec and kind of time; and where one of them is corrupt, that one is named."""
    random = Random(seed)
    batches = [
        random_batch(random, random.choice((0, GZIP, LOG_APPEND_TIME)), random.choice((1, 2, 50)))
        for _ in range(random.choice((2, 20)))
    ]
    together, each = all_decoded(batches), [decoded(batch) for batch in batches]
    for name in Columns._fields:
        assert getattr(together, name).tolist() == [number for one in each for number in getattr(one, name).tolist()]
    (number,) = struct.unpack_from(">i", batches[1], 57)
    for change in (-1, 1):
        broken = bytearray(batches[1])
        struct.pack_into(">q", broken, 0, 77)
        struct.pack_into(">i", broken, 57, number + change)
        with pytest.raises(CorruptBatch, match="the batch at offset 77: the lengths of its records do not fill it"):
            all_decoded([batches[0], mend(broken), *batches[2:]])


@pytest.mark.parametrize("seed", range(30))
def test_records_that_do_not_fill_their_batch_are_corrupt(seed: int) -> None:
    """Cut anywhere, or one length changed: never an error of ours, never other records in silence."""
    random = Random(seed)
    batch = random_batch(random, 0, 20)
    cut = batch[: random.randint(62, len(batch) - 1)]
    struct.pack_into(">i", cut, 8, len(cut) - 12)
    more = bytearray(batch)
    struct.pack_into(">i", more, 57, 21)  # the number of records
    endless = seal(b"\xff" * 40, 0, 0, 1, 0, (-1, -1, -1))
    for broken in (cut, more, endless):
        with pytest.raises(CorruptBatch):
            decoded(mend(broken))
    batch[70] ^= 1
    with pytest.raises(CorruptBatch, match="its checksum does not match"):
        decoded(batch)


def test_what_no_codec_has_written_is_corrupt_and_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of some kilobytes may grow to gigabytes: it ends at the limit, whatever the codec."""
    for codec in range(1, 5):
        with pytest.raises(CorruptBatch):
            codecs.decompressed(codec, memoryview(b"\x7fnothing of that kind"))
    with pytest.raises(UnsupportedBatch):
        codecs.decompressed(7, memoryview(b""))
    zeros = bytes(8 << 20)
    packed = {1: zlib.compress(zeros, wbits=31)}
    packed |= {n: pa.compress(zeros, codec=name, asbytes=True) for n, name in enumerate(CODECS[2:], start=2)}
    for codec, each in packed.items():
        assert codecs.decompressed(codec, memoryview(each)) == zeros
    monkeypatch.setattr(codecs, "MOST", len(zeros) - 1)
    for codec, each in packed.items():
        with pytest.raises(UnsupportedBatch, match="once decompressed"):
            codecs.decompressed(codec, memoryview(each))


@pytest.mark.parametrize("codec", range(5))
def test_a_difference_is_located_in_a_batch_of_any_codec(codec: int) -> None:
    """Of snappy, lz4 and zstd it was not: the batch differed, its record could not be named."""
    numbers = [b"%d" % n for n in range(10)]
    body = b"".join(encode_record(n, b"k", each, n) for n, each in enumerate(numbers))
    packed = zlib.compress(body, wbits=31) if codec == GZIP else body
    packed = pa.compress(body, codec=CODECS[codec], asbytes=True) if codec > GZIP else packed
    found = records_from(memoryview(seal(packed, 20, codec, 10, 1_000, (-1, -1, -1))), 23)
    assert found is not None
    assert [(each.offset, each.timestamp, each.value) for each in found] == [
        (20 + n, 1_000 + n, numbers[n]) for n in range(3, 10)
    ]


def test_blocks_of_snappy_java_are_read() -> None:
    """Behind a frame of its own, which other clients do not write; and a block that is cut is corrupt."""
    parts = [b"first" * 1000, b"second"]
    blocks = [pa.compress(part, codec="snappy", asbytes=True) for part in parts]
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    framed += b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    assert codecs.decompressed(2, memoryview(framed)) == b"".join(parts)
    for cut in (1, 3, len(framed) - 18):
        with pytest.raises(CorruptBatch):
            codecs.decompressed(2, memoryview(framed[:-cut]))


# ── real logs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def expected(rows: Iterable[Row]) -> list[tuple[int, int, int]]:
    """Offset, time and content of what an ordinary consumer has read."""
    found = list(rows)
    return [
        (row.offset, row.time[1], each)
        for row, each in zip(found, digests(content(row.key, row.value, row.headers) for row in found), strict=True)
    ]


def found_in(rig: Rig, span: LogSpan) -> list[tuple[int, int, int]]:
    found = [each.records for each in portions(rig.source.router, span)]
    return [
        row
        for each in found
        for row in zip(each.offsets.tolist(), each.times.tolist(), each.content.tolist(), strict=True)
    ]


def test_logs_that_java_has_written_are_read_as_a_consumer_reads_them(
    spark: SparkSession, rig: Rig, topic_name: str
) -> None:
    """Every codec, by the Java producer, in batches of several blocks; and by librdkafka."""
    by_java, by_c = (dict(zip(CODECS, rig.create(f"{topic_name}-{who}", len(CODECS)), strict=True)) for who in "jc")
    for codec, at in by_java.items():
        values = "concat(id, repeat(cast(id as string), 200))"
        rows = spark.range(3000).selectExpr(
            "if(id % 7 = 0, null, cast(id as string)) as key",
            f"if(id % 11 = 0, null, {values}) as value",
            "array(struct('h' as key, cast('v' as binary) as value), struct('n' as key, null as value)) as headers",
            f"'{at.topic}' as topic",
            f"{at.partition} as partition",
        )
        rows.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", rig.source.servers).option(
            "includeHeaders", "true"
        ).option("kafka.compression.type", codec).option("kafka.batch.size", "300000").option(
            "kafka.linger.ms", "50"
        ).save()
    for codec, at in by_c.items():
        rig.source.produce(at, [b"%d" % n * 100 for n in range(3000)], compression_type=codec)
    every = [*by_java.values(), *by_c.values()]
    read_by_others = read(rig.source.servers, every, "read_committed")
    for at in every:
        assert len(read_by_others[at]) == 3000
        assert found_in(rig, LogSpan(partition=at, start=0, until=3000)) == expected(read_by_others[at]), at


def test_a_span_brings_its_own_records_wherever_it_is_cut(rig: Rig, topic_name: str) -> None:
    """Each record once, none of before or behind the whole, also where one batch holds both ends."""
    [at] = rig.create(topic_name)
    written(rig.source, at)
    for cuts in ((0, 50), (3, 14, 15, 16, 47), (12, 17), (11, 13, 18), (49, 50), (0, 1, 2)):
        found = [
            offset
            for start, until in pairwise(cuts)
            for offset, *_ in found_in(
                rig, LogSpan(partition=at, start=start, until=until, first=start == cuts[0], whole=cuts[-1])
            )
        ]
        assert found == list(range(cuts[0], cuts[-1])), cuts


def test_what_a_worker_holds_does_not_grow_with_the_log(rig: Rig, topic_name: str) -> None:
    """Records are turned into rows a portion at a time; digests do not depend on where portions or batches end."""
    [at] = rig.create(topic_name)
    now = time.time_ns() // 1_000_000
    for side, size in ((rig.source, 1000), (rig.destination, 250)):
        batches = [range(first, first + size) for first in range(0, 120_000, size)]
        append(side, at, (next(many(numbers, [now])) for numbers in batches))
    span = LogSpan(partition=at, start=0, until=120_000)
    found = [list(portions(side.router, span)) for side in (rig.source, rig.destination)]
    for each in found:
        assert [len(portion.records.offsets) // FLUSH for portion in each] == [1, 1, 0]
    assert [sum(portion.batches for portion in each) for each in found] == [120, 480]
    first, second = ([mixed(span, each, name) for name in ("content", "time")] for each in found)
    assert first == second
    assert len(first[0]) == 12


def mixed(span: LogSpan, found: Iterable[Portion], name: str) -> dict[int, int]:
    """The digest of each bucket, as Spark puts it together."""
    total: dict[int, int] = {}
    for portion in found:
        for rows in digest_rows(span, portion):
            for bucket, digest in zip(rows["bucket"].tolist(), rows[name].tolist(), strict=True):
                total[bucket] = total.get(bucket, 0) ^ digest
    return total
