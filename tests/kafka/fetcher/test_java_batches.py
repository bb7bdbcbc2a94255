"""Apache Kafka's Java producer with tiny batches: idempotent, and in transactions, whose epoch it raises each time."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tanist.domain.names import MirrorPartition, SourceOffset
from tanist.kafka.protocol.batch import split
from tanist.kafka.wire import requests
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import End
from tanist_testkit.verify.inspection import Inspector
from tanist_testkit.verify.traces import Place, merged
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.java_producer import JavaProducer, JavaProducers, java_producers
from tests.kafka.fetcher.rig import Rig, soon, until, value
from tests.kafka.fetcher.test_small_batches import batches
from tests.kafka.fetcher.worker import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tanist_testkit.verify.comparing import Locate
    from tanist_testkit.verify.inspection import Inspection
    from tanist_testkit.verify.traces import Traces

TINY = {"batch_size": "0"}
"""A batch for each record."""
SMALL = {"batch_size": "200"}
"""A few records in a batch."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaProducers]:
    with java_producers() as found:
        yield found


def inspected(rig: Rig, topic: str, *acknowledged: Traces) -> Inspection:
    """Both logs record by record, and what the producers know, at the offsets that the map has for them."""

    def locate(place: Place) -> Locate:
        offsets = rig.offsets(MirrorPartition(place.topic, place.partition))
        return lambda offset: offsets.locate(SourceOffset(offset))

    inspector = Inspector(
        source=rig.source.servers,
        destination=rig.destination.servers,
        clock=SystemClock(),
        locate=locate,
    )
    return inspector.inspect([topic], merged(acknowledged), soon(60), lambda _: None)


def transactions(
    producers: Sequence[JavaProducer], at: Sequence[MirrorPartition], turns: int, numbers: count[int]
) -> None:
    """One of each producer at the same time, in the same partitions; every third is aborted.

    Each producer's records of a transaction follow one another, so that there is something to merge.
    """
    for turn in range(turns):
        for producer in producers:
            producer.client.beginTransaction()
        for producer in producers:
            for each in at:
                for _ in range(4):
                    producer.send(each, next(numbers))
            producer.client.flush()
        for number, producer in enumerate(producers):
            if (turn + number) % 3:
                producer.commit()
            else:
                producer.abort()


def test_tiny_batches_of_an_idempotent_java_producer_are_merged(rig: Rig, java: JavaProducers, topic_name: str) -> None:
    """At identical offsets, also those that are written while the mirror copies."""
    at = rig.create(topic_name, 2)
    with ExitStack() as stack:
        tiny, small = (
            stack.enter_context(java.open(rig.source.servers, enable_idempotence="true", **size))
            for size in (TINY, SMALL)
        )

        def write(first: int) -> None:
            for number in range(first, first + 200):
                tiny.send(at[0], number)
                small.send(at[1], number)
            for producer in (tiny, small):
                producer.keep()

        write(0)
        copier = stack.enter_context(rig.copier(at))
        write(200)
        rig.copied(copier)
        found = inspected(rig, topic_name, tiny.acknowledged, small.acknowledged)
    assert found.ok, (found.whole, found.uncommitted, found.missing)
    assert (found.acknowledged, found.whole.records) == (800, 800)
    assert set(batches(rig.source, at[0])) == {1}
    assert max(batches(rig.source, at[1])) < 10
    for each in at:
        assert max(batches(rig.destination, each)) > 20
        assert rig.offsets(each).runs == ()


def test_transactions_of_java_producers_with_tiny_batches_are_merged_and_aborted_ones_left_out(
    rig: Rig, java: JavaProducers, topic_name: str
) -> None:
    """One producer is fenced by its successor with a transaction open."""
    at, numbers = rig.create(topic_name, 2), count()
    with ExitStack() as stack:
        both = [
            stack.enter_context(java.open(rig.source.servers, transactional_id=f"{topic_name}-{n}", **TINY))
            for n in range(2)
        ]
        transactions(both, at, 12, numbers)
        both[0].client.beginTransaction()
        for each in at:
            both[0].send(each, next(numbers))
        both[0].client.flush()
        heir = stack.enter_context(java.open(rig.source.servers, transactional_id=f"{topic_name}-0", **TINY))
        transactions([heir, both[1]], at, 6, numbers)
        with rig.copier(at) as copier:
            rig.copied(copier)
        found = inspected(rig, topic_name, *(each.acknowledged for each in (*both, heir)))
    assert found.ok, (found.whole, found.uncommitted, found.missing)
    assert found.acknowledged == found.whole.records == 2 * 12 * 8
    for each in at:
        assert set(batches(rig.source, each)) == {1}
        assert all(len(known) > 10 for known in epochs(rig, each).values())
        assert max(batches(rig.destination, each)) > 1
        assert rig.offsets(each).runs == ()


def epochs(rig: Rig, at: MirrorPartition) -> dict[int, set[int]]:
    """The producer epochs of each producer id in a log of the source."""
    found: dict[int, set[int]] = {}
    offset, end = 0, rig.source.end(at)
    while offset < end:
        fetched = value(requests.fetch(rig.source.router, {at: offset}, soon())[at])
        for header, _ in split(fetched.records):
            found.setdefault(header.producer_id, set()).add(header.producer_epoch)
            offset = header.next_offset
    return found


@contextmanager
def traffic(rig: Rig, java: JavaProducers, at: Sequence[MirrorPartition], topic: str) -> Iterator[tuple[Traces, ...]]:
    """Both kinds of producers write all the time; what they know is complete after the block."""
    stop, numbers = threading.Event(), count()
    failures: list[BaseException] = []
    with ExitStack() as stack:
        plain = stack.enter_context(java.open(rig.source.servers, enable_idempotence="true", **TINY))
        pair = [
            stack.enter_context(java.open(rig.source.servers, transactional_id=f"{topic}-{n}", **TINY))
            for n in range(2)
        ]

        def run() -> None:
            try:
                while not stop.is_set():
                    for _ in range(30):
                        plain.send(at[0], next(numbers))
                    plain.keep()
                    transactions(pair, at, 2, numbers)
            except BaseException as why:
                failures.append(why)
                raise

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield tuple(each.acknowledged for each in (plain, *pair))
        finally:
            stop.set()
            thread.join(60)
    assert not failures, failures


def grows(rig: Rig, at: Sequence[MirrorPartition]) -> None:
    """Wait until more of each partition has been copied."""
    before = rig.destination.ends(at, End.LOG_END)

    def grown() -> bool:
        now = rig.destination.ends(at, End.LOG_END)
        return all(now[each] > before[each] + 20 for each in at)

    until(grown, 60)


def test_killed_workers_copy_every_record_of_java_producers_once(
    rig: Rig, java: JavaProducers, topic_name: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    rig.store = worker_store(store)
    at = rig.create(topic_name, 2)
    with traffic(rig, java, at, topic_name) as acknowledged:
        for n in range(4):
            with process(rig, at, store, f"w{n}") as running:
                grows(rig, at)
                running.send_signal(signal.SIGKILL)
    with rig.copier(at, name="last") as copier:
        rig.copied(copier, 60)
    found = inspected(rig, topic_name, *acknowledged)
    assert found.ok, (found.whole, found.uncommitted, found.missing)
    assert found.acknowledged == found.whole.records > 300
