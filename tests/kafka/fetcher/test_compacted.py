"""Compacted topics, with the brokers' own cleaners at work on both sides while they are copied.

What both logs hold at one offset is the same record, and what only one holds is superseded in the other: a cleaner has
taken it there, or not yet here.
"""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from tanist.domain.compaction import Holes
from tanist.kafka.wire.clock import SystemClock
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.rig import Rig, RigCluster, until
from tests.kafka.fetcher.worker import process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from confluent_kafka import Producer

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.logs import Logs, Row

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.0",
    "min.compaction.lag.ms": "0",
}
COPY = COMPACT | {"cleanup.policy": "compact,delete", "retention.ms": "-1"}
"""As a mirror topic is held while it is mirrored."""
STRIDE_MS = 300
"""Between records: with each batch a segment is rolled, whatever the real time."""
MOST_IN_A_BATCH = 15


@pytest.fixture
def cleaned(rig: Rig) -> Rig:
    """Both brokers look every 200 ms whether there is something to clean."""
    for side in (rig.source, rig.destination):
        entry = ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)
        [broker] = side.cluster.brokers
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker.id), incremental_configs=[entry])
        for done in side.admin.incremental_alter_configs([resource]).values():
            done.result(20)
    return rig


def short(number: int) -> bytes:
    return b"%d:" % number + b"x" * (number * 37 % 400)


def noise(number: int) -> bytes:
    """With its batch 9,995 bytes or a few less, and no codec makes it smaller."""
    return Random(number).randbytes(9_915)


class Writer:
    """Writes to one partition: 20 keys, some of them deleted; each record has its time. Not thread-safe."""

    def __init__(self, side: RigCluster, at: MirrorPartition, **settings: object) -> None:
        self._at = at
        self._producer: Producer = side.producer(linger_ms=2, batch_num_messages=MOST_IN_A_BATCH, **settings)
        self._begun = SystemClock().now() - 3_600_000
        self.number = count()
        if "transactional_id" in settings:
            self._producer.init_transactions(30)

    def write(self, records: int, keys: int = 20, value: Callable[[int], bytes] | None = None) -> None:
        """`value`: of a number; None: up to 400 bytes."""
        for number in (next(self.number) for _ in range(records)):
            written = None if number % 11 == 7 else (value or short)(number)
            when = self._begun + number * STRIDE_MS
            key = b"k%d" % (number * number % keys)
            self._producer.produce(
                self._at.topic,
                written,
                key,
                partition=self._at.partition,
                timestamp=when,
                headers=[("n", b"%d" % number)],
            )
        assert self._producer.flush(30) == 0

    def transaction(self, records: int, *, commit: bool) -> None:
        self._producer.begin_transaction()
        self.write(records)
        if commit:
            self._producer.commit_transaction(30)
        else:
            self._producer.abort_transaction(30)


def create(
    rig: Rig, topic: str, partitions: int = 1, copy: dict[str, str] | None = None
) -> tuple[MirrorPartition, ...]:
    rig.destination.create(topic, partitions, config=COPY if copy is None else copy)
    return rig.source.create(topic, partitions, config=COMPACT)


def committed(side: RigCluster, partitions: Sequence[MirrorPartition]) -> Logs:
    return read(side.servers, partitions, "read_committed")


def cleaned_source(rig: Rig, partitions: Sequence[MirrorPartition], write: Callable[[], object] = lambda: None) -> None:
    """Wait until the source's cleaner has been in all of `partitions`.

    `write` is done again and again: a marker has the broker's time, so that no segment is rolled behind it before that
    time has passed.
    """

    def done() -> bool:
        write()
        return has_holes(rig.source, partitions)

    until(done, 90)


def has_holes(side: RigCluster, partitions: Sequence[MirrorPartition]) -> bool:
    """Whether in each partition a cleaner has taken at least half of the offsets."""
    ends = {at: side.end(at) for at in partitions}
    return all(2 * len(rows) < ends[at] for at, rows in committed(side, partitions).items())


def state(rows: Sequence[Row]) -> dict[bytes | None, bytes | None]:
    latest = {row.key: row.value for row in rows}
    return {key: value for key, value in latest.items() if value is not None}


def agree(rig: Rig, partitions: Sequence[MirrorPartition]) -> str:
    """The first disagreement of both logs, read while cleaners are at work; empty: none."""
    copies, originals = read(rig.destination.servers, partitions, "read_uncommitted"), committed(rig.source, partitions)
    for at in partitions:
        ours, theirs = ({row.offset: row for row in rows} for rows in (originals[at], copies[at]))
        latest = {row.key: row.offset for row in copies[at]}
        for offset, row in ours.items():
            if offset in theirs and theirs[offset] != row:
                return f"{at}: {row} is not {theirs[offset]}"
            if offset not in theirs and latest.get(row.key, -1) <= offset and row.value is not None:
                return f"{at}: {row} is missing"
        if state(originals[at]) != state(copies[at]):
            return f"{at}: the latest values differ"
    return ""


def test_compacted_logs_of_every_codec_are_copied_at_their_offsets(cleaned: Rig, topic_name: str) -> None:
    """Also with transactions, some of them aborted; then what is written behind them, while it is cleaned."""
    at = create(cleaned, topic_name, 6)
    writers = [Writer(cleaned.source, each, compression_type=codec) for each, codec in zip(at, CODECS, strict=False)]
    transactional = Writer(cleaned.source, at[5], transactional_id=topic_name)
    for writer in writers:
        writer.write(600)
    for turn in range(20):
        transactional.transaction(30, commit=turn % 3 != 1)
    cleaned_source(cleaned, at, partial(transactional.transaction, 5, commit=True))
    with cleaned.copier(at, holes=Holes.COPIES) as copier:
        cleaned.copied(copier)
        assert agree(cleaned, at) == ""
        for _ in range(5):
            for writer in writers:
                writer.write(40)
            transactional.transaction(20, commit=True)
        cleaned.copied(copier)
        assert all(report.error is None for report in copier.reports().values())
    assert agree(cleaned, at) == ""
    for each in at:
        assert cleaned.offsets(each).runs == ()
        assert cleaned.destination.end(each) == cleaned.source.end(each)
    until(partial(has_holes, cleaned.destination, at[:5]), 90)
    assert agree(cleaned, at) == ""


@contextmanager
def traffic(rig: Rig, partitions: Sequence[MirrorPartition]) -> Iterator[None]:
    """All the time: plain to the even partitions, in transactions to the odd ones, every third of them aborted."""
    stop = threading.Event()

    def run() -> None:
        writers = [
            Writer(
                rig.source,
                at,
                compression_type=CODECS[at.partition % len(CODECS)],
                **({"transactional_id": str(at)} if at.partition % 2 else {}),
            )
            for at in partitions
        ]
        turn = 0
        while not stop.is_set():
            turn += 1
            for at, writer in zip(partitions, writers, strict=True):
                if at.partition % 2:
                    writer.transaction(15, commit=bool(turn % 3))
                else:
                    writer.write(15)
        for at, writer in zip(partitions, writers, strict=True):
            if at.partition % 2 == 0:
                writer.write(1)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def grown(rig: Rig, partitions: Sequence[MirrorPartition], before: dict[MirrorPartition, int]) -> bool:
    return all(rig.destination.end(at) > before[at] + 60 for at in partitions)


@pytest.mark.parametrize("how", ["killed", pytest.param("frozen", marks=pytest.mark.long)])
def test_workers_that_end_in_the_middle_leave_a_log_that_the_next_one_continues(
    cleaned: Rig, topic_name: str, tmp_path: Path, how: str
) -> None:
    """The next one reads the source cleaned further, in other batches. Frozen: each wakes up beside the last one."""
    store = tmp_path / "store"
    cleaned.store = worker_store(store)
    at = create(cleaned, topic_name, 4)
    with ExitStack() as ended:
        frozen = []
        with traffic(cleaned, at):
            for n in range(3):
                before = {each: cleaned.destination.end(each) for each in at}
                running = ended.enter_context(process(cleaned, at, store, f"w{n}", Holes.COPIES))
                until(partial(grown, cleaned, at, before), 90)
                running.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
                frozen.append(running)
        copier = ended.enter_context(cleaned.copier(at, name="last", holes=Holes.COPIES))
        for running in frozen if how == "frozen" else ():
            running.send_signal(signal.SIGCONT)
        cleaned.copied(copier, 90)
        for running in frozen:
            running.kill()
            running.wait()
        cleaned.copied(copier, 90)
        until(lambda: all(report.error is None for report in copier.reports().values()), 20, copier.reports)
    assert agree(cleaned, at) == ""


def test_markers_instead_of_copies_show_readers_nothing_but_what_is_left(cleaned: Rig, topic_name: str) -> None:
    [at] = create(cleaned, topic_name, copy={"cleanup.policy": "delete", "retention.ms": "-1"})
    writer = Writer(cleaned.source, at, compression_type="lz4")
    writer.write(400)
    cleaned_source(cleaned, [at])
    before = committed(cleaned.source, [at])[at]
    with cleaned.copier([at], holes=Holes.MARKERS) as copier:
        cleaned.copied(copier)
        writer.write(30)
        cleaned.copied(copier)
    after, copied = committed(cleaned.source, [at])[at], committed(cleaned.destination, [at])[at]
    assert set(copied) <= set(before) | set(after) | {row for row in copied if row.offset > before[-1].offset}
    assert agree(cleaned, [at]) == ""


def test_records_without_a_key_are_left_out(cleaned: Rig, topic_name: str) -> None:
    """The topic was not compacted when they were written. A compacted copy refuses them; so would a cleaner."""
    cleaned.destination.create(topic_name, config=COPY)
    [at] = cleaned.source.create(topic_name, config={"cleanup.policy": "delete"})
    producer = cleaned.source.producer(linger_ms=50)
    for number in range(20):
        producer.produce(topic_name, b"%d" % number, b"k%d" % number if number % 3 else None)
    producer.flush(20)
    with cleaned.copier([at], holes=Holes.COPIES) as copier:
        cleaned.copied(copier)
    copied = committed(cleaned.destination, [at])[at]
    keyed = [row for row in committed(cleaned.source, [at])[at] if row.key is not None]
    assert [row for row in copied if row.offset % 3] == keyed
    assert all(row.key is not None for row in copied)


@pytest.mark.long
def test_batches_that_outgrow_the_topic_are_compressed_or_split(cleaned: Rig, topic_name: str) -> None:
    """Each record is as large as the topic takes: with a copy of itself, or in an LZ4 frame, it is too large."""
    limit = {"max.message.bytes": "10000"}
    cleaned.destination.create(topic_name, config=COPY | limit)
    [at] = cleaned.source.create(topic_name, config=COMPACT | limit)
    writer = Writer(cleaned.source, at, batch_size=9_000)
    writer.write(150, value=noise)
    cleaned_source(cleaned, [at], partial(writer.write, 15, value=noise))
    with cleaned.copier([at], holes=Holes.COPIES) as copier:
        cleaned.copied(copier)
        assert copier.reports()[at].error is None
    assert agree(cleaned, [at]) == ""


@pytest.mark.long
def test_a_promoted_compacted_topic_is_mirrored_in_its_turn(cleaned: Rig, topic_name: str) -> None:
    """The way back: what it had of the first source, holes of its own cleaner, and what was written to it since."""
    at = create(cleaned, topic_name, 2)
    for each in at:
        Writer(cleaned.source, each, compression_type="lz4").write(400)
    cleaned_source(cleaned, at[:1], partial(Writer(cleaned.source, at[0]).write, 15))
    with cleaned.copier(at, holes=Holes.COPIES) as copier:
        cleaned.copied(copier)
    promote(cleaned.destination, topic_name)
    writers = [Writer(cleaned.destination, each) for each in at]

    def write(records: int = 15) -> None:
        for writer in writers:
            writer.write(records)

    back = Rig(source=cleaned.destination, destination=cleaned.source)
    delete(back.destination, topic_name)
    back.destination.create(topic_name, len(at), config=COPY)
    with back.copier(at, holes=Holes.COPIES) as copier:
        write(100)
        cleaned_source(back, at, write)
        back.copied(copier)
        assert all(report.error is None for report in copier.reports().values())
    assert agree(back, at) == ""
    assert [back.destination.end(each) for each in at] == [back.source.end(each) for each in at]


def promote(side: RigCluster, topic: str) -> None:
    """The source's own policy, as a failover sets it."""
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for done in side.admin.incremental_alter_configs([resource]).values():
        done.result(20)


def delete(side: RigCluster, topic: str) -> None:
    side.admin.delete_topics([topic])[topic].result(20)
    until(lambda: topic not in side.admin.list_topics(timeout=20).topics, 30)
