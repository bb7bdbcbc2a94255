"""Mirrors that deliver at least once, between real brokers: batches of the id's epoch, and positions behind them."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import pytest

from tanist.domain.delivery import Delivery
from tanist.domain.fake_group import NO_PRODUCER
from tanist.domain.names import SourceOffset
from tanist.domain.states import Finding
from tanist.fetcher.engines.transactions import owned_id
from tanist.kafka.wire.requests import End
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.rig import Rig, RigCluster, transact, until
from tests.kafka.fetcher.test_mapped import (
    FIVE,
    committed,
    disturbed,
    mapped_spec,
    must_be_equal,
    offsets,
    through,
    too_large_fails_alone,
)
from tests.kafka.fetcher.test_writers import broken
from tests.kafka.fetcher.worker import process
from tests.storm import leaders
from tests.storm.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.copier import Copier


@pytest.fixture
def rig(sides: tuple[RigCluster, RigCluster]) -> Rig:
    """A mirror that delivers at least once."""
    found = Rig(*sides)
    found.spec = replace(mapped_spec(found.spec), delivery=Delivery.AT_LEAST_ONCE)
    return found


class Load(Thread):
    """Transactions at the source, until `end`."""

    def __init__(self, rig: Rig, at: Sequence[MirrorPartition], seed: int) -> None:
        super().__init__(daemon=True)
        self._at, self._dice, self._over = at, Random(seed), Event()
        self._producer = rig.source.producer(transactional_id=f"t-{uuid4().hex}", linger_ms=0)
        self.records = 0

    def run(self) -> None:
        self._producer.init_transactions(20)
        while not self._over.wait(0.02):
            values = [b"%d" % (self.records + n) for n in range(self._dice.randrange(1, 100))]
            self.records += len(values)
            transact(self._producer, self._dice.choice(self._at), values, commit=self._dice.random() < 0.7)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(30)


def repeated(rig: Rig, partitions: Sequence[MirrorPartition], isolation: str = "read_uncommitted") -> int:
    """How many records of the copy are there again; each record is there, and none is skipped from where it is said.

    Whoever reads from where the map says a position is gets every record of the source from that position on, in its
    order.
    """
    source = read(rig.source.servers, partitions, "read_committed")
    copy = read(rig.destination.servers, partitions, isolation)
    more = 0
    for at in partitions:
        wanted = [each.content for each in source[at]]
        values = [each.content for each in copy[at]]
        index = {content: n for n, content in enumerate(wanted)}
        assert len(index) == len(wanted), "the test's records must differ"
        order = [index[content] for content in values]  # and nothing else is in the copy
        highest = -1
        for n in order:  # after a repeat the copy goes on without a hole
            assert n <= highest + 1, (at, order)
            highest = max(highest, n)
        assert highest == len(wanted) - 1
        last = {n: each.offset for n, each in zip(order, copy[at], strict=True)}
        found = offsets(rig, at)
        for n, each in enumerate(source[at]):
            assert found.locate(SourceOffset(each.offset)) == last[n], (at, each.offset)
        more += len(values) - len(wanted)
    return more


def settled(rig: Rig, at: Sequence[MirrorPartition]) -> None:
    with rig.copier(at, topic_ids={}) as copier:
        rig.copied(copier)


def test_every_committed_record_is_in_the_copy_and_a_worker_that_stops_repeats_none(rig: Rig, topic_name: str) -> None:
    """S1.1, S1.4: at least once, and exactly once as long as nobody dies."""
    at = rig.create(topic_name, 3)
    with rig.copier(at) as copier, Load(rig, at, 1):
        until(lambda: sum(each.records for each in copier.reports().values()) > 500, 30)
    with rig.copier(at) as copier:
        rig.copied(copier)
    assert repeated(rig, at) == 0
    assert must_be_equal(rig, at) > 500
    assert committed(rig, at[0]).producer_id >= 0


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3, 4))])
def test_killed_workers_repeat_what_they_had_not_committed_and_say_how_much(
    rig: Rig, topic_name: str, tmp_path: Path, seed: int
) -> None:
    """S1.4."""
    store = tmp_path / "state"
    rig.spec = replace(rig.spec, transaction_ms=400)
    at, rig.store = rig.create(topic_name, 3), worker_store(store)
    dice, told = Random(seed), 0
    with Load(rig, at, seed):
        for n in range(4):
            kill_one(rig, at, store, f"w{n}", dice)
            with rig.copier(at, topic_ids={}) as copier:
                told += said(copier)
    settled(rig, at)
    assert 0 < repeated(rig, at) <= told


@pytest.mark.long  # `make storm` does it for five minutes, and the storm in tests/storm/test_storm.py for exactly once
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_brokers_that_die_and_leaders_that_move_lose_nothing_and_keep_the_order(
    into_trio: Rig, topic_name: str, seed: int
) -> None:
    """S1.4: what a dead leader has not replicated to others is appended again, and nothing behind it before it."""
    rig, dice = into_trio, Random(seed)
    rig.spec = replace(mapped_spec(rig.spec), delivery=Delivery.AT_LEAST_ONCE)
    at, cluster, moved = rig.create(topic_name, 6), rig.destination.cluster, 0
    with Load(rig, at, seed), rig.copier(at) as copier:
        for _ in range(6):
            moved += leaders.move(cluster, [topic_name], dice)
            broker = dice.choice(cluster.brokers).id
            cluster.kill(broker)
            time.sleep(dice.uniform(0.0, 1.0))  # noqa: TID251  # it copies to the others meanwhile
            cluster.start_broker(broker)
            until(lambda: leaders.in_sync(cluster), 60)
    with rig.copier(at) as copier:
        rig.copied(copier, 90)
    repeated(rig, at)
    assert moved
    assert sum(rig.source.ends(at, End.LAST_STABLE).values()) > 1_000


def kill_one(rig: Rig, at: Sequence[MirrorPartition], store: Path, name: str, dice: Random) -> None:
    """Run a worker until it copies, and kill it some time between two of its commits."""
    with process(rig, at, store, name) as running:
        before = ends(rig, at)
        until(lambda: ends(rig, at) > before + 200, 30)
        time.sleep(dice.uniform(0.0, 0.8))  # noqa: TID251
        running.kill()


def ends(rig: Rig, at: Sequence[MirrorPartition]) -> int:
    return sum(rig.destination.ends(at, End.HIGH_WATERMARK).values())


def said(copier: Copier) -> int:
    """How many records it copies again, as it reports."""
    until(lambda: [each.finding for each in copier.reports().values()] == 3 * [Finding.ALIGNED], 30)
    notes = [each.note for each in copier.reports().values()]
    return sum(int(note.split()[3]) for note in notes if note.startswith("at least once: "))


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_the_delivery_changes_under_load_and_nothing_is_lost_or_repeated_from_then_on(
    rig: Rig, topic_name: str, tmp_path: Path, seed: int
) -> None:
    """S1.8: the last worker that delivers at least once is killed; its successor learns of the change as it copies."""
    store, dice, told = tmp_path / "state", Random(seed), 0
    at, rig.store = rig.create(topic_name, 3), worker_store(store)
    plain = rig.spec
    with Load(rig, at, seed):
        kill_one(rig, at, store, "w1", dice)
        with rig.copier(at, topic_ids={}) as copier:
            told += said(copier)
            for delivery in (Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE, Delivery.EXACTLY_ONCE):
                change(rig, copier, delivery)
            assert copier.deaths() == []
        rig.spec = replace(plain, delivery=Delivery.EXACTLY_ONCE)
        kill_one(rig, at, store, "w2", dice)  # what it has not committed, nobody sees
    settled(rig, at)
    assert repeated(rig, at, "read_committed") <= told
    for each in at:
        rig.source.produce(each, FIVE)
    settled(rig, at)
    assert all(_in_transactions(rig, each) for each in at)


def change(rig: Rig, copier: Copier, delivery: Delivery) -> None:
    """Alter the mirror while the worker copies, and wait until positions show that it has followed."""

    def copied() -> int:
        return sum(each.records for each in copier.reports().values())

    for _ in range(2):
        before = copied()
        until(lambda: copied() > before + 300, 30)  # noqa: B023
        copier.alter(replace(copier.spec, delivery=delivery))
    in_transactions = delivery is Delivery.EXACTLY_ONCE
    until(lambda: all(_in_transactions(rig, each) is in_transactions for each in copier.partitions), 30)


def _in_transactions(rig: Rig, at: MirrorPartition) -> bool:
    return committed(rig, at).producer_id == NO_PRODUCER


def test_a_record_that_is_too_large_fails_alone_and_repeats_nothing(rig: Rig, topic_name: str) -> None:
    too_large_fails_alone(rig, topic_name)


def test_records_of_others_are_told_from_our_own(rig: Rig, topic_name: str) -> None:
    (at,) = rig.create(topic_name)
    with rig.copier([at]) as copier:
        rig.source.produce(at, FIVE)
        rig.copied(copier)
        rig.destination.produce(at, [b"foreign"])
        rig.source.produce(at, FIVE)
        assert broken(copier, at) == "FOREIGN_WRITE"


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_requests_that_are_lost_or_late_lose_nothing_and_leave_no_hole(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Two workers that both believe that they hold the lease, behind proxies that hold back, cut and release."""
    monkeypatch.setattr(owned_id, "ANSWER_SECONDS", 1.5)
    dice = Random(seed)
    at = rig.create(topic_name, 3)
    with Proxy() as proxy, ExitStack() as owners, Load(rig, at, seed):
        doors = [proxy.door(rig.destination.cluster) for _ in range(2)]
        for n, door in enumerate(doors):
            copier = rig.copier(at, name=f"w{n}", topic_ids={})
            copier.destination = through(rig.destination.cluster.endpoint(), door)
            owners.enter_context(copier)
        disturbed(doors, dice)
    settled(rig, at)
    assert repeated(rig, at) > 0
