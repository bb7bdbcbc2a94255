"""Compacted logs, cleaned at random while they are copied, against a model that knows every record ever written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tanist.domain.copying import AbortedTransaction, Append, Fill, Refuse, decide
from tanist.domain.errors import CompactionHole, CorruptBatch
from tanist.domain.names import SourceOffset
from tanist.kafka.protocol import refilling
from tanist.kafka.protocol.batch import (
    HEADER_SIZE,
    BatchHeader,
    ControlType,
    assembled,
    control_type,
    header_of,
    patch,
    walk,
)
from tanist.kafka.protocol.compression import compressed
from tanist.kafka.protocol.encoding import zigzag
from tanist.kafka.protocol.refilling import DeletedKeys, refilled, split_at_holes
from tanist.spark.codecs import decompressed
from tests.unit.kafka.protocol.batches import CONTROL, TRANSACTIONAL, encode_marker, length_and_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.copying import Step

LIMIT = 64 << 10
CODECS = range(5)
HORIZON = 0x40
BASE_TIME = 1_700_000_000_000


class Written(NamedTuple):
    offset: int
    time: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def encoded(record: Written, base: int, base_time: int) -> bytes:
    headers = b"".join(length_and_bytes(name.encode()) + length_and_bytes(value) for name, value in record.headers)
    body = b"\0" + zigzag(record.time - base_time) + zigzag(record.offset - base)
    body += length_and_bytes(record.key) + length_and_bytes(record.value) + zigzag(len(record.headers)) + headers
    return zigzag(len(body)) + body


@dataclass
class StoredBatch:
    base: int
    until: int
    records: list[Written]
    codec: int = 0
    producer: int = -1
    transactional: bool = False
    aborted: bool = False

    def bytes(self) -> bytes:
        """As the broker's log has it; a cleaner has set a delete horizon where tombstones are left."""
        horizon = HORIZON if any(each.value is None for each in self.records) else 0
        attributes = (self.codec if self.records else 0) | TRANSACTIONAL * self.transactional | horizon
        base_time = BASE_TIME + (999_999 if horizon else 0)
        newest = max((each.time for each in self.records), default=-1)
        body = b"".join(encoded(each, self.base, base_time) for each in self.records)
        delta, count = self.until - self.base - 1, len(self.records)
        header = BatchHeader(self.base, 0, 3, 2, 0, attributes, delta, base_time, newest, self.producer, 0, 5, count)
        return bytes(assembled(header, compressed(attributes & 7, body))[1])


@dataclass
class Log:
    """A compacted log: `batches` (None: a marker) and everything that was ever committed."""

    rng: Random
    batches: list[StoredBatch | bytes] = field(default_factory=list)
    committed: list[Written] = field(default_factory=list)
    end: int = 0

    def write(self, most_value: int = 40) -> None:
        count, aborted = self.rng.randint(1, 12), self.rng.random() < 0.15
        transactional = aborted or self.rng.random() < 0.2
        records = [self._record(self.end + n, most_value) for n in range(count)]
        codec = self.rng.choice(CODECS)
        producer = self.rng.randint(1, 3) if transactional else -1
        self.batches.append(StoredBatch(self.end, self.end + count, records, codec, producer, transactional, aborted))
        self.end += count
        if transactional:
            kind = ControlType.ABORT if aborted else ControlType.COMMIT
            self.batches.append(bytes(encode_marker(self.end, kind, (producer, 0, -1))))
            self.end += 1
        if not aborted:
            self.committed += records

    def _record(self, offset: int, most_value: int) -> Written:
        key = b"k%d" % min(self.rng.randrange(30), self.rng.randrange(30))
        value = (
            None if self.rng.random() < 0.1 else b"%d:" % offset + self.rng.randbytes(self.rng.randrange(most_value))
        )
        headers = (("h", b"%d" % offset),) * self.rng.randrange(1, 3)
        return Written(offset, BASE_TIME + offset * 10 + self.rng.randrange(-300, 300), key, value, headers)

    def clean(self, below: int, *, tombstones: bool) -> None:
        """What a cleaner does to the batches below an offset; `tombstones`: it removes those too, if they are last."""
        latest = {each.key: each.offset for each in self.committed if each.offset < below}
        left: list[StoredBatch | bytes] = []
        for batch in self.batches:
            if isinstance(batch, bytes):
                if header_of(memoryview(batch)).base_offset >= below or self.rng.random() < 0.7:
                    left.append(batch)
                continue
            if batch.until <= below:
                batch.records = [
                    each
                    for each in batch.records
                    if not batch.aborted and latest[each.key] == each.offset and not (tombstones and each.value is None)
                ]
            if batch.records or self.rng.random() < 0.2:
                left.append(batch)
        self.batches = left

    def fetch(self, position: int, most: int) -> tuple[bytes, list[AbortedTransaction]]:
        """The batches from the one that holds `position`."""
        found, aborted = b"", []
        for batch in self.batches:
            raw = batch if isinstance(batch, bytes) else batch.bytes()
            if header_of(memoryview(raw)).next_offset > position and most:
                found, most = found + raw, most - 1
                if not isinstance(batch, bytes) and batch.aborted:
                    aborted.append(AbortedTransaction(batch.producer, batch.base))
        return found, aborted


def decided(position: int, raw: bytes, aborted: list[AbortedTransaction]) -> Iterator[Step[BatchHeader, memoryview]]:
    def ends_abort(batch: memoryview) -> bool:
        return control_type(batch) is ControlType.ABORT

    return decide(SourceOffset(position), walk(memoryview(bytearray(raw))), aborted, ends_abort, holes=True)


def read(batch: memoryview) -> list[Written]:
    """The records of a batch that was sent, as kafka-python reads them; its codec is the Spark jobs'."""
    header = header_of(batch)
    assert header.is_dense
    plain = header._replace(attributes=header.attributes & ~7)
    _, batch = assembled(plain, decompressed(header.codec, batch[HEADER_SIZE:]))
    found = import_module("kafka.record.default_records").DefaultRecordBatch(bytes(batch))
    return [Written(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in found]


@dataclass
class CopyLog:
    """What a broker keeps of the appends; `ends`: where the batches end."""

    records: list[Written] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def append(self, step: Append[BatchHeader, memoryview]) -> None:
        assert step.header.record_count == step.header.last_offset_delta + 1
        end = self.ends[-1] if self.ends else 0
        assert step.start == end
        patch(step.payload, 9, 0, end)
        assert not header_of(step.payload).attributes & (HORIZON | TRANSACTIONAL | CONTROL)
        rows = [each._replace(offset=each.offset + end) for each in read(step.payload)]
        assert [each.offset for each in rows] == list(range(end, step.until))
        assert header_of(step.payload).max_timestamp >= max(each.time for each in rows) or step.header.size
        self.records += rows
        self.ends.append(step.until)

    def state(self, until: int) -> dict[bytes, bytes | None]:
        return state(each for each in self.records if each.offset < until)


def state(records: Iterable[Written]) -> dict[bytes, bytes | None]:
    """The latest value of each key, tombstones too."""
    return {each.key: each.value for each in records}


def copy_while_cleaning(rng: Random, log: Log, copy: CopyLog, turns: int, limit: int) -> None:
    position = 0
    for turn in range(turns):
        for _ in range(rng.randrange(4)):
            log.write()
        if rng.random() < 0.5:
            log.clean(rng.randint(0, log.end), tombstones=rng.random() < 0.3)
        if turn == turns - 1:
            log.batches.append(StoredBatch(log.end, log.end + 1, [Written(log.end, BASE_TIME, b"last", b"v")]))
            log.committed += log.batches[-1].records  # type: ignore[union-attr]
            log.end += 1
        while True:
            raw, aborted = log.fetch(position, rng.randint(1, 6))
            end = copy.ends[-1] if copy.ends else 0
            seen = refilled(decided(position, raw, aborted), position, end, limit)
            for step in seen.steps:
                assert isinstance(step, Append)
                copy.append(step)
            assert seen.until > position or not raw
            position = seen.until
            if rng.random() < 0.2 and copy.ends:
                position = copy.ends[-1]  # another worker: it knows the end of the copy only
            if turn < turns - 1 or not raw:
                break


@pytest.mark.parametrize("seed", range(40))
def test_every_record_that_is_left_is_at_its_offset_and_no_key_is_ever_lost(seed: int) -> None:
    """Wherever the copy ends: at each end of a batch, every key has a value that it once had, never an older one."""
    rng = Random(seed)
    log, copy = Log(rng), CopyLog()
    copy_while_cleaning(rng, log, copy, 25, rng.choice((300, 2_000, LIMIT)))
    assert copy.ends[-1] == log.end
    left = [
        each for batch in log.batches if isinstance(batch, StoredBatch) and not batch.aborted for each in batch.records
    ]
    assert [copy.records[each.offset] for each in left] == left
    ever = {(each.key, each.value, each.time, each.headers): each.offset for each in log.committed}
    reached: dict[bytes, int] = {}
    for each in copy.records:
        original = ever[each.key, each.value, each.time, each.headers]
        assert original >= max(each.offset, reached.get(each.key, 0)), "a value came back, or too late"
        reached[each.key] = original
    live = {each.key: each for each in log.committed}.values()
    assert all(copy.records[each.offset] == each for each in live if each.value is not None)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [10, 2_000])
def test_a_long_hole_ends_each_batch_with_the_next_record(
    monkeypatch: pytest.MonkeyPatch, codec: int, size: int
) -> None:
    """A failover cuts there: tombstones alone would have deleted a key that the source never deleted."""
    monkeypatch.setattr(refilling, "LONG_HOLE", 20_000)
    monkeypatch.setattr(refilling, "MOST_OFFSETS", 400)
    value = Random(1).randbytes(size)
    records = [Written(0, BASE_TIME, b"a", b"1"), Written(5_000, BASE_TIME + 5, b"b", value)]
    raw = StoredBatch(0, 7_000, records, codec).bytes()
    copy = CopyLog()
    found = refilled(decided(0, raw, []), 0, 0, LIMIT)
    assert found.until == 7_000
    for step in found.steps:
        assert isinstance(step, Append)
        assert step.header.size <= LIMIT
        copy.append(step)
    assert copy.ends[-1] == 5_001
    assert len({id(step.payload) for step in found.steps if isinstance(step, Append)}) < len(found.steps)
    assert all(copy.state(end)[b"b"] == value for end in copy.ends[1:])
    assert any(each.value is None for each in copy.records) == (size > 1_000)


def test_what_is_too_much_at_once_is_left_to_the_next_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refilling, "LONG_HOLE", 20_000)
    monkeypatch.setattr(refilling, "MOST_OFFSETS", 2_000)
    monkeypatch.setattr(refilling, "MADE_AT_ONCE", 1_000)
    raw = StoredBatch(0, 20_000, [Written(19_999, BASE_TIME, b"k", b"v" * 900)], 1).bytes()
    copy, position = CopyLog(), 0
    fetches = 0
    while position < 20_000:
        fetches += 1
        found = refilled(decided(position, raw, []), position, position, 1_000)
        for step in found.steps:
            assert isinstance(step, Append)
            copy.append(step)
        assert found.until > position
        position = found.until
    assert fetches > 1
    assert copy.ends[-1] == 20_000
    assert copy.records[-1].value == b"v" * 900


def test_dense_batches_stay_as_they_are_and_the_hole_before_one_gets_a_batch_of_its_own() -> None:
    dense = StoredBatch(4, 7, [Written(n, BASE_TIME + n, b"k%d" % n, b"v") for n in (4, 5, 6)], 4).bytes()
    [before, itself] = refilled(decided(1, dense, []), 1, 1, LIMIT).steps
    assert isinstance(before, Append)
    assert isinstance(itself, Append)
    assert (before.start, before.until) == (1, 4)
    assert {each.key for each in read(before.payload)} == {b"k4"}
    assert bytes(itself.payload) == dense


def test_a_batch_that_outgrows_the_limit_uncompressed_is_compressed_or_split() -> None:
    even = [Written(n * 50, BASE_TIME, b"k%d" % n, b"v" * 100) for n in range(20)]
    odd = [Written(n, BASE_TIME, b"k%d" % n, Random(n).randbytes(900)) for n in range(20) if n % 2]
    [one] = refilled(decided(0, StoredBatch(0, 951, even).bytes(), []), 0, 0, 50_000).steps
    assert isinstance(one, Append)
    assert one.header.codec == 3
    many = refilled(decided(0, StoredBatch(0, 20, odd).bytes(), []), 0, 0, 4_000).steps
    assert len(many) > 2
    copy = CopyLog()
    for step in many:
        assert isinstance(step, Append)
        assert step.header.size <= 4_000
        copy.append(step)


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_as_large_as_the_topic_takes_does_not_grow_by_compression(codec: int) -> None:
    """The limit is halved until batches are taken; that of one record must not be larger than at the source."""
    large = Written(3, BASE_TIME, b"k", Random(1).randbytes(9_000))
    plain = StoredBatch(0, 4, [large])
    made = refilled(decided(0, replace(plain, codec=codec).bytes(), []), 0, 0, 5_000).steps
    copy = CopyLog()
    for step in made:
        assert isinstance(step, Append)
        assert step.header.size <= len(plain.bytes())
        copy.append(step)
    assert [each.value for each in copy.records] == [large.value] * 4


@pytest.mark.parametrize("most", [1, 60])
def test_lost_tombstones_take_the_first_offsets_of_holes(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Each key gets one, also if what was made is too much at once and the rest is made again from the next fetch."""
    monkeypatch.setattr(refilling, "MADE_AT_ONCE", most)
    sparse = StoredBatch(0, 6, [Written(1, BASE_TIME + 1, b"a", b"1"), Written(5, BASE_TIME + 5, b"b", b"2")])
    dense = StoredBatch(9, 11, [Written(n, BASE_TIME + n, b"c", b"3") for n in (9, 10)])
    deleted = DeletedKeys((b"x", b"y", b"z", b"v", b"w", b"u"), 11)
    position, copy = 0, CopyLog()
    while position < 11:
        raw = b"".join(batch.bytes() for batch in (sparse, dense) if batch.until > position)
        made = refilled(decided(position, raw, []), position, position, 150, deleted=deleted)
        for step in made.steps:
            assert isinstance(step, Append)
            copy.append(step)
        position, deleted = made.until, made.deleted
    assert [each.key for each in copy.records] == [b"x", b"a", *(b"y", b"z", b"v"), b"b", b"w", b"u", b"c", b"c", b"c"]
    assert [each.value for each in copy.records if each.key < b"s"] == [b"1", b"2", b"3", b"3", b"3"]
    assert {each.value for each in copy.records if each.key > b"s"} == {None}
    assert deleted.keys == ()


def test_a_tombstone_that_finds_no_hole_is_left_for_the_next_one() -> None:
    raw = StoredBatch(0, 2, [Written(1, BASE_TIME, b"a", b"1")]).bytes()
    assert refilled(decided(0, raw, []), 0, 0, LIMIT, deleted=DeletedKeys((b"x", b"y"), 2)).deleted.keys == (b"y",)


def test_a_tombstone_is_not_placed_where_its_key_may_be_alive_again() -> None:
    raw = StoredBatch(0, 9, [Written(8, BASE_TIME, b"a", b"1")]).bytes()
    made = refilled(decided(0, raw, []), 0, 0, LIMIT, deleted=DeletedKeys((b"x", b"y"), 1))
    assert made.deleted.keys == (b"y",)
    [step] = made.steps
    assert isinstance(step, Append)
    assert [each.key for each in read(step.payload)] == [b"x", *[b"a"] * 8]


def test_records_without_a_key_are_left_out_where_the_copy_refuses_them() -> None:
    records = [Written(n, BASE_TIME, None if n % 3 else b"k", b"%d" % n) for n in range(7)]  # type: ignore[arg-type]
    copy = CopyLog()
    for step in refilled(decided(0, StoredBatch(0, 7, records).bytes(), []), 0, 0, LIMIT, keyed=True).steps:
        assert isinstance(step, Append)
        copy.append(step)
    assert [each.value for each in copy.records] == [b"0", b"3", b"3", b"3", b"6", b"6", b"6"]


def test_a_surplus_of_the_copy_is_worked_off_at_the_next_hole() -> None:
    batches = [
        StoredBatch(n, n + 2, [Written(n, BASE_TIME, b"a", b"1"), Written(n + 1, BASE_TIME, b"b", b"2")])
        for n in (3, 9)
    ]
    raw = b"".join(batch.bytes() for batch in batches)
    found = refilled(decided(3, raw, []), 3, 5, LIMIT).steps
    assert [(step.start, step.until) for step in found if isinstance(step, Append)] == [(3, 5), (7, 9), (9, 11)]


def test_markers_instead_of_copies_split_a_batch_at_its_holes() -> None:
    records = [Written(n, BASE_TIME + n, b"k", b"%d" % n) for n in (2, 3, 7, 8)]
    raw = StoredBatch(0, 12, records, 3).bytes() + StoredBatch(14, 15, [Written(14, BASE_TIME, b"k", b"l")]).bytes()
    found = list(split_at_holes(decided(1, raw, []), 1, LIMIT))
    assert [(type(step), step.start, step.until) for step in found if not isinstance(step, Refuse)] == [
        (Fill, 1, 2),
        (Append, 2, 4),
        (Fill, 4, 7),
        (Append, 7, 9),
        (Fill, 9, 14),
        (Append, 14, 15),
    ]
    values = [each.value for step in found if isinstance(step, Append) for each in read(step.payload)]
    assert values == [b"2", b"3", b"7", b"8", b"l"]


def test_a_refusal_ends_what_is_occupied() -> None:
    refusal = Refuse(CompactionHole("x"))
    assert refilled([refusal], 5, 5, LIMIT)[:2] == ([refusal], 5)
    assert list(split_at_holes([refusal], 5, LIMIT)) == [refusal]


@pytest.mark.parametrize("cut", [3, 9, 30])
def test_records_that_end_too_early_are_corrupt(cut: int) -> None:
    whole = StoredBatch(0, 9, [Written(n, BASE_TIME, b"k", b"value") for n in (0, 5)])
    header, body = header_of(memoryview(whole.bytes())), whole.bytes()[HEADER_SIZE:]
    broken = assembled(header, body[:-cut])
    for steps in (refilled([Append(*broken)], 0, 0, LIMIT).steps, list(split_at_holes([Append(*broken)], 0, LIMIT))):
        [refused] = steps
        assert isinstance(refused, Refuse)
        assert isinstance(refused.error, CorruptBatch)
