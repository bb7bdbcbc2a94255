"""Three brokers, RF 3, min ISR 2: killed and frozen ones on either side, in mid-flight, and killed workers."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset
from tanist.domain.recovery import ResumePoint
from tanist.domain.states import Finding
from tanist.kafka.wire.requests import End
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.raw import Wires
from tests.kafka.fetcher.rig import Rig, until
from tests.kafka.fetcher.test_log_start import batches
from tests.kafka.fetcher.worker import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

HELD_UP_SECONDS = 8.0
"""Less than any deadline of a request to a broker that does not answer; on a busy machine a copy takes its time."""


@contextmanager
def traffic(rig: Rig, partitions: Sequence[MirrorPartition], pause: float = 0.02) -> Iterator[None]:
    """Plain records to the even partitions, transactions of one to three records to the odd ones, all the time."""
    stop = threading.Event()

    def run() -> None:
        plain = rig.source.producer(enable_idempotence=True)
        transactional = rig.source.producer(transactional_id=partitions[0].topic, linger_ms=0)
        transactional.init_transactions(30)
        turn = 0
        while not stop.wait(pause):
            turn += 1
            transactional.begin_transaction()
            for at in partitions:
                producer = transactional if at.partition % 2 else plain
                for n in range(turn % 3 + 1):
                    producer.produce(at.topic, b"%d/%d" % (turn, n), partition=at.partition)
            plain.poll(0)
            if turn % 4:
                transactional.commit_transaction(30)
            else:
                transactional.flush(30)
                transactional.abort_transaction(30)
        assert plain.flush(30) == 0

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(40)


def wait(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251  # faults take their time


@pytest.mark.parametrize("rule", ["on", "off"])
def test_a_tail_that_is_not_committed_is_neither_lost_nor_repeated(
    into_trio: Rig, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Worker killed after sending, followers asleep. Off: position by high watermark, sequence by the broker."""
    rig = into_trio
    store = tmp_path / "store"
    rig.store = worker_store(store)
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name, brokers=[1, 2, 3])
    batches(rig, at, 1)
    trio = rig.destination.cluster
    with process(rig, [at], store) as worker:
        rig.landed([at])
        for follower in (2, 3):
            trio.pause(follower)
        batches(rig, at, 1)
        until(lambda: rig.destination.end(at, End.LOG_END) == 20, 20)
        worker.kill()
        worker.wait()
    assert rig.destination.end(at) == 10
    if rule == "off":

        def naive(evidence: Any, *_: object) -> ResumePoint:
            end = evidence.copy_ends().high_watermark
            return ResumePoint(SourceOffset(end), DestinationOffset(end), evidence.next_sequence() or 0)

        monkeypatch.setattr("tanist.fetcher.engines.batches.recovery.recover_position", naive)
    with rig.copier([at], name="w2") as copier:
        if rule == "on":
            until(
                lambda: (r := copier.reports().get(at)) and r.error and r.error.name == "NOT_COMMITTED_YET",
                20,
                copier.reports,
            )
        else:
            until(lambda: rig.destination.end(at, End.LOG_END) > 20, 20, copier.reports)
        for follower in (2, 3):
            trio.unpause(follower)
        if rule == "on":
            rig.copied(copier)
    assert bool(rig.identical([at])) == (rule == "off")


def test_fillers_that_die_with_a_leader_are_written_again(
    into_trio: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = into_trio
    trio = rig.destination.cluster
    wires = Wires(monkeypatch)
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name, brokers=[1, 2, 3])
    with rig.copier([at]) as copier:
        rig.source.transaction(at, [b"first"])
        rig.copied(copier)
        end, sent = rig.destination.end(at), threading.Event()

        def asleep(router: object, markers: Any, by: object) -> Any:
            for follower in (2, 3):
                trio.pause(follower)
            sent.set()
            return wires.real(router, markers, by)

        wires.next_fill = asleep
        rig.source.transaction(at, [b"aborted"] * 5, commit=False)
        assert sent.wait(10)
        until(lambda: rig.destination.end(at, End.LOG_END) == end + 6, 20)
        trio.kill(1)
        for follower in (2, 3):
            trio.unpause(follower)
        rig.source.produce(at, [b"last"])
        rig.copied(copier, 40)
        trio.start_broker(1)
    until(lambda: rig.destination.end(at) == end + 7, 30)
    assert rig.identical([at]) == ""
    assert rig.offsets(at).runs == ()


def test_a_lane_that_is_told_to_end_waits_for_what_is_in_flight(into_trio: Rig, topic_name: str) -> None:
    """Its heir may read the log as soon as it has ended: what lands after that would be copied twice, or overtaken."""
    rig = into_trio
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name, brokers=[1, 2, 3])
    batches(rig, at, 1)
    with rig.copier([at]) as copier:
        rig.copied(copier)
        for follower in (2, 3):
            rig.destination.cluster.pause(follower)
        batches(rig, at, 1)
        until(lambda: rig.destination.end(at, End.LOG_END) == 20, 20)
        [lane] = copier.made
        copier.lanes.apply({})
        lane.join(1)
        assert lane.is_alive()
        for follower in (2, 3):
            rig.destination.cluster.unpause(follower)
        lane.join(20)
        assert not lane.is_alive()
    assert rig.identical([at]) == ""


@pytest.mark.parametrize("where", ["source", "destination"])
def test_brokers_that_are_killed_in_mid_flight_change_nothing(
    into_trio: Rig, out_of_trio: Rig, topic_name: str, where: str
) -> None:
    rig = out_of_trio if where == "source" else into_trio
    side = rig.source if where == "source" else rig.destination
    at = rig.create(topic_name, 6)
    with rig.copier(at) as copier:
        with traffic(rig, at):
            wait(1)
            victim = side.leader(at[1])
            side.cluster.kill(victim)
            until(lambda: side.leader(at[1]) != victim, 20)
            side.cluster.start_broker(victim)
        until(lambda: side.complete(topic_name, 6), 30)
        rig.copied(copier, 40)
    assert [shifted for each in at if (shifted := rig.offsets(each).runs)] == []
    assert rig.identical(at) == ""


def test_workers_that_are_killed_one_after_another_copy_every_record_once(
    into_trio: Rig, topic_name: str, tmp_path: Path
) -> None:
    rig = into_trio
    store = tmp_path / "store"
    rig.store = worker_store(store)
    at = rig.create(topic_name, 4)
    with traffic(rig, at, 0.005):
        for n in range(4):
            with process(rig, at, store, f"w{n}"):
                wait(1.2 + n / 10)
    with rig.copier(at, name="last") as copier:
        rig.copied(copier)
    source, copy = rig.read(at)
    for each in at:
        assert [row.content for row in source[each]] == [row.content for row in copy[each]]
        offsets = rig.offsets(each)
        assert [offsets.locate(SourceOffset(row.offset)) for row in source[each]] == [row.offset for row in copy[each]]


def test_a_frozen_leader_holds_up_its_own_partitions_alone(into_trio: Rig, topic_name: str) -> None:
    """Until the first deadline it holds up the lane; after that the others go on, though it still sleeps."""
    rig = into_trio
    topics = [f"{topic_name}-{n}" for n in (1, 2, 3)]
    for n, topic in enumerate(topics):
        rig.source.create(topic)
        rig.destination.create(topic, brokers=[[1, 2, 3], [2, 3, 1], [3, 1, 2]][n])
    at = [MirrorPartition(topic, 0) for topic in topics]
    with rig.copier(at) as copier:
        for each in at:
            batches(rig, each, 1)
        rig.copied(copier)
        rig.destination.cluster.pause(1)
        begin = time.monotonic()
        for each in at:
            batches(rig, each, 1)
        waits = []
        while time.monotonic() < begin + 18:
            batches(rig, at[1], 1)
            sent = time.monotonic()
            rig.copied(copier, 22, only=[at[1]])
            waits.append(round(time.monotonic() - sent, 1))
        rig.destination.cluster.unpause(1)
        assert max(waits[1:]) < HELD_UP_SECONDS, waits
        rig.copied(copier)
        assert all(r.finding is Finding.ALIGNED for r in copier.reports().values())
    assert rig.identical(at) == ""
