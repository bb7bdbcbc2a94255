"""Producers with `linger.ms=0`: their batches of one record are merged, and a reader of the copy sees no difference."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tanist.domain.names import SourceOffset
from tanist.domain.records import SmallBatches
from tanist.kafka.protocol.batch import split
from tanist.kafka.wire import requests
from tanist.kafka.wire.requests import End
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.rig import Rig, RigCluster, soon, until, value
from tests.kafka.fetcher.worker import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tanist.domain.names import MirrorPartition

ONE = {"linger_ms": 0, "batch_num_messages": 1}
"""Of the producer: a batch for each record."""


def batches(side: RigCluster, at: MirrorPartition) -> list[int]:
    """The records of each batch of a log, markers too."""
    found: list[int] = []
    offset, end = side.end(at, End.EARLIEST), side.end(at)
    while offset < end:
        fetched = value(requests.fetch(side.router, {at: offset}, soon())[at])
        for header, _ in split(fetched.records):
            found.append(header.record_count)
            offset = header.next_offset
    return found


def singles(rig: Rig, at: MirrorPartition, count: int, first: int = 0) -> None:
    rig.source.produce(at, [b"%d" % n for n in range(first, first + count)], **ONE, enable_idempotence=True)


def interleaved(rig: Rig, at: MirrorPartition, turns: int) -> None:
    """Transactions of two producers at once, in batches of one record; each third is aborted."""
    both = [rig.source.producer(transactional_id=f"{at.topic}-{n}", **ONE) for n in range(2)]
    for each in both:
        each.init_transactions(20)
    for turn in range(turns):
        for each in both:
            each.begin_transaction()
        for n in range(6):
            for number, each in enumerate(both):
                each.produce(at.topic, b"%d/%d/%d" % (turn, n, number), partition=at.partition)
                if n % 3 == 2:
                    each.flush(20)
        for number, each in enumerate(both):
            each.flush(20)
            if (turn + number) % 3:
                each.commit_transaction(20)
            else:
                each.abort_transaction(20)


def test_batches_of_one_record_are_merged(rig: Rig, topic_name: str) -> None:
    """Also those of an idempotent producer; times, keys, headers and offsets are the source's."""
    at = rig.create(topic_name, 2)
    for each in at:
        singles(rig, each, 1500)
    rig.source.produce(at[0], [None, b"", bytes(20_000), b"last"], **ONE)
    assert max(batches(rig.source, at[0])) == 1
    with rig.copier(at) as copier:
        rig.copied(copier)
    assert rig.identical(at) == ""
    for each in at:
        assert len(batches(rig.destination, each)) < 60
        assert rig.offsets(each).runs == ()


def test_a_mirror_that_does_not_merge_copies_small_batches_byte_for_byte(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    singles(rig, at, 300)
    with rig.copier([at], spec=replace(rig.spec, merge_small_batches=SmallBatches.OFF)) as copier:
        rig.copied(copier)
    assert rig.identical([at]) == ""
    assert batches(rig.destination, at) == [1] * 300


def test_transactions_of_batches_of_one_record_keep_their_aborted_parts_to_themselves(
    rig: Rig, topic_name: str
) -> None:
    [at] = rig.create(topic_name)
    interleaved(rig, at, 12)
    singles(rig, at, 40)
    interleaved(rig, at, 3)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    assert rig.identical([at]) == ""
    assert max(batches(rig.destination, at)) > 1


def test_compressed_batches_of_one_record_are_merged(rig: Rig, topic_name: str) -> None:
    """They stayed as they were, and each cost as much as a large one."""
    at = rig.create(topic_name, 4)
    for each, codec in zip(at, ("gzip", "snappy", "lz4", "zstd"), strict=True):
        rig.source.produce(each, [b"value" * 40] * 20, compression_type=codec, **ONE)
        singles(rig, each, 20)
    with rig.copier(at) as copier:
        rig.copied(copier)
    assert rig.identical(at) == ""
    for each in at:
        assert max(batches(rig.destination, each)) > 10


def test_a_topic_that_takes_only_small_batches_gets_smaller_ones(rig: Rig, topic_name: str) -> None:
    """What was merged must not stop a partition whose own batches are all taken."""
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name, config={"max.message.bytes": "5000"})
    singles(rig, at, 600)
    with rig.copier([at]) as copier:
        rig.copied(copier)
        assert copier.reports()[at].error is None
    assert rig.identical([at]) == ""
    assert 1 < max(batches(rig.destination, at)) < 400


def test_brokers_that_stamp_their_own_time_change_nothing_else(rig: Rig, topic_name: str) -> None:
    """Stamped at the source, batches stay as they are; stamped over at the destination, recovery forgives the time."""
    stamped = {"message.timestamp.type": "LogAppendTime"}
    at: list[MirrorPartition] = []
    for number, (source, copy) in enumerate(((stamped, {}), ({}, stamped))):
        rig.destination.create(f"{topic_name}-{number}", config=copy)
        at += rig.source.create(f"{topic_name}-{number}", config=source)
    for turn in range(2):
        for each in at:
            singles(rig, each, 200, first=200 * turn)
        with rig.copier(at, name=f"w{turn}") as copier:
            rig.copied(copier)
            assert {report.error for report in copier.reports().values()} == {None}
    source_logs, copies = rig.read(at)
    for each in at:
        assert [(row.offset, row.value) for row in copies[each]] == [
            (row.offset, row.value) for row in source_logs[each]
        ]
    assert batches(rig.destination, at[0]) == [1] * 400
    assert len(batches(rig.destination, at[1])) < 100


@pytest.mark.parametrize("left", [1, 7])
def test_a_merged_batch_of_which_the_source_has_only_the_end_is_recognised(
    rig: Rig, topic_name: str, left: int
) -> None:
    """Retention at the source cuts where it likes, and the last batch of the copy reaches over that."""
    [at] = rig.create(topic_name)
    singles(rig, at, 100)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    rig.source.delete_before(at, 100 - left)
    singles(rig, at, 50, first=100)
    with rig.copier([at], name="next") as copier:
        rig.copied(copier)
        assert copier.reports()[at].error is None
    source, copy = (rows[at] for rows in rig.read([at]))
    assert copy[-len(source) :] == source
    assert [row.offset for row in copy] == list(range(copy[0].offset, 150))


@contextmanager
def traffic(rig: Rig, partitions: Sequence[MirrorPartition]) -> Iterator[None]:
    """Batches of one record all the time: plain to the even partitions, in transactions to the odd ones."""
    stop = threading.Event()

    def run() -> None:
        plain = rig.source.producer(enable_idempotence=True, **ONE)
        transactional = rig.source.producer(transactional_id=partitions[0].topic, **ONE)
        transactional.init_transactions(30)
        turn = 0
        while not stop.is_set():
            turn += 1
            transactional.begin_transaction()
            for at in partitions:
                producer = transactional if at.partition % 2 else plain
                for n in range(20):
                    producer.produce(at.topic, b"%d/%d" % (turn, n), partition=at.partition)
            transactional.flush(30)
            if turn % 4:
                transactional.commit_transaction(30)
            else:
                transactional.abort_transaction(30)
        assert plain.flush(30) == 0

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.parametrize("how", ["killed", pytest.param("frozen", marks=pytest.mark.long)])
def test_workers_that_end_while_they_merge_copy_every_record_once(
    rig: Rig, topic_name: str, tmp_path: Path, how: str
) -> None:
    """The next one merges otherwise, or not at all: what is on its way lands wholly, or is refused.

    A worker is ended when it has copied something, in the middle of the next. A frozen one wakes up while its
    successor copies; never more than two of them are awake, because each makes the other read both logs again.
    """
    store = tmp_path / "store"
    rig.store = worker_store(store)
    auto, off = rig.spec, replace(rig.spec, merge_small_batches=SmallBatches.OFF)
    at = rig.create(topic_name, 4)
    with ExitStack() as stack:
        former = None
        with traffic(rig, at):
            for n in range(4):
                rig.spec = off if n % 2 else auto
                running = stack.enter_context(process(rig, at, store, f"w{n}"))
                _grows(rig, at)
                if former is not None and how == "frozen":
                    former.send_signal(signal.SIGCONT)
                    _grows(rig, at)
                    former.kill()
                running.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
                former = running
        rig.spec = auto
        with rig.copier(at, name="last", spec=off) as copier:
            assert former is not None
            if how == "frozen":
                former.send_signal(signal.SIGCONT)
            rig.copied(copier, 120)
            former.kill()
            former.wait()
            rig.copied(copier, 120)
    source, copy = rig.read(at)
    for each in at:
        assert [row.content for row in source[each]] == [row.content for row in copy[each]]
        offsets = rig.offsets(each)
        assert [offsets.locate(SourceOffset(row.offset)) for row in source[each]] == [row.offset for row in copy[each]]
        assert max(batches(rig.destination, each)) > 1


def _grows(rig: Rig, partitions: Sequence[MirrorPartition]) -> None:
    """Wait until more of each partition has been copied, by whomever."""
    before = rig.destination.ends(partitions, End.LOG_END)
    until(partial(_all_grown, rig, partitions, before), 90)


def _all_grown(rig: Rig, partitions: Sequence[MirrorPartition], before: dict[MirrorPartition, int]) -> bool:
    now = rig.destination.ends(partitions, End.LOG_END)
    return all(now[at] > before[at] + 100 for at in partitions)
