"""Copies with mapped offsets between real brokers: batches and positions in transactions of ours."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Place

from tanist.domain.compaction import Holes
from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.fake_group import CopiedPosition, copied_position, group_of, shown_group
from tanist.domain.names import MirrorPartition, SourceOffset
from tanist.domain.offset_map import OffsetMap
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.records import MirrorSpec, OffsetMode
from tanist.domain.thinning import ThinningStep
from tanist.fetcher.claims import Claims
from tanist.fetcher.engines.transactions import owned_id, partition, taking, thinning, write_back
from tanist.fetcher.runs import OffsetRuns
from tanist.kafka.adapters.logs import KafkaLogs
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.groups import fetch_positions
from tanist.usecases.offset_policy import detailed
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.rig import Rig, RigCluster, soon, transact, until, value
from tests.kafka.fetcher.test_writers import broken
from tests.kafka.fetcher.worker import process
from tests.kafka.wire.test_copy_transactions import OF_A_TRANSACTION
from tests.storm.proxy import Door, Held, Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tanist.ports.clock import Deadline

FIVE: Final = [b"%d" % n for n in range(5)]


@pytest.fixture
def mapped(sides: tuple[RigCluster, RigCluster]) -> Rig:
    """A mirror with mapped offsets between two brokers."""
    rig = Rig(*sides)
    rig.spec = mapped_spec(rig.spec)
    return rig


def mapped_spec(spec: MirrorSpec) -> MirrorSpec:
    name = uuid4().hex
    return replace(
        spec, mirror_id=name, offsets=OffsetMode.MAPPED, transactional_id=f"tanist-{name}", transaction_ms=100
    )


def committed(rig: Rig, at: MirrorPartition) -> CopiedPosition:
    """Where the copy goes on, as the brokers have it."""
    found = value(
        fetch_positions(rig.destination.router, [group_of(rig.spec.mirror)], soon())[group_of(rig.spec.mirror)]
    )
    held = value(found[at])
    return copied_position(at, held.offset, held.metadata, rig.spec.id, held.metadata.split(" ")[2])


def offsets(rig: Rig, at: MirrorPartition) -> OffsetMap:
    """The map as any reader can have it: what is published, and what rides with the position."""
    runs = OffsetRuns(rig.spec, rig.store, Claims("reader", rig.store, SystemClock()))
    position = committed(rig, at)
    return OffsetMap.of((*runs.published(at, soon()), *position.runs), position.position)


def must_be_equal(rig: Rig, partitions: Sequence[MirrorPartition]) -> int:
    """The records, for readers who read committed, and where the map says they are; their number."""
    source = read(rig.source.servers, partitions, "read_committed")
    copy = read(rig.destination.servers, partitions, "read_committed")
    for at in partitions:
        assert [each.content for each in copy[at]] == [each.content for each in source[at]], at
        found = offsets(rig, at)
        pairs = [(one.offset, other.offset) for one, other in zip(source[at], copy[at], strict=True)]
        assert [(one, found.locate(SourceOffset(one))) for one, _ in pairs] == pairs
        before = -1
        for one, other in pairs:  # also of the offsets between two records
            for position in range(before + 1, one):
                between = found.locate(SourceOffset(position))
                assert between <= other
                assert not any(between <= copied < other for _, copied in pairs)
            before = one
    return sum(map(len, source.values()))


def test_every_committed_record_is_in_the_copy_once_and_the_map_says_where(mapped: Rig, topic_name: str) -> None:
    """S1.2: a record and the position behind it are committed together, at the destination. S1.1: exactly once."""
    rig, dice = mapped, Random(5)
    at = rig.create(topic_name, 3)
    with rig.copier(at) as copier:
        for n in range(30):
            each = dice.choice(at)
            if dice.random() < 0.5:
                rig.source.produce(each, FIVE[: dice.randrange(1, 5)])
            else:
                rig.source.transaction(each, FIVE, commit=dice.random() < 0.6)
            if n % 10 == 9:
                rig.copied(copier)
        rig.copied(copier)
    assert must_be_equal(rig, at) > 30
    with rig.copier(at) as copier:  # and the next worker goes on where the last one was
        rig.source.produce(at[0], FIVE)
        rig.copied(copier)
    must_be_equal(rig, at)


def test_tools_at_the_source_show_the_lag_of_the_mirror(
    mapped: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1.6: the position is written back there, under the name of the mirror."""
    monkeypatch.setattr(write_back, "EVERY_SECONDS", 0.1)
    rig = mapped
    (at,) = rig.create(topic_name)
    group = shown_group(rig.spec.mirror)

    def told() -> int:
        found = value(fetch_positions(rig.source.router, [group], soon())[group])
        return value(found[at]).offset if at in found else -1

    with rig.copier([at]) as copier:
        rig.source.produce(at, FIVE)
        rig.copied(copier)
        until(lambda: told() == len(FIVE), 10)


def test_ranges_are_published_before_they_are_many(mapped: Rig, topic_name: str) -> None:
    rig = mapped
    rig.spec = replace(rig.spec, transaction_ms=1)
    (at,) = rig.create(topic_name)
    with rig.copier([at]) as copier:
        for _ in range(120):
            rig.source.produce(at, [b"one"])
            rig.copied(copier)
    held = rig.destination.router, committed(rig, at)
    assert len(held[1].metadata) < 600
    assert len(OffsetRuns(rig.spec, rig.store, Claims("r", rig.store, SystemClock())).published(at, soon())) > 40
    must_be_equal(rig, [at])


def test_more_holes_than_ranges_fit_beside_a_position_take_more_transactions(
    mapped: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each marker of the source begins a range; all of them come with one fetch."""
    monkeypatch.setattr(taking, "MOST_RANGES", 20)
    rig = mapped
    rig.spec = replace(rig.spec, transaction_ms=2_000)
    (at,) = rig.create(topic_name)
    for n in range(70):
        rig.source.transaction(at, [b"%d" % n])
    with rig.copier([at]) as copier:
        rig.copied(copier)
    assert must_be_equal(rig, [at]) == 70
    assert committed(rig, at).count > 70 / 20


def rewind(rig: Rig, at: MirrorPartition) -> None:
    """As `kafka-consumer-groups.sh --reset-offsets` does."""
    group = group_of(rig.spec.mirror)
    rewound = ConsumerGroupTopicPartitions(group, [Place(at.topic, at.partition, 0)])
    rig.destination.admin.alter_consumer_group_offsets([rewound])[group].result(20)


def test_a_position_that_somebody_else_has_committed_is_never_used(mapped: Rig, topic_name: str) -> None:
    rig = mapped
    at = rig.create(topic_name, 2)
    with rig.copier(at) as copier:
        for each in at:
            rig.source.produce(each, FIVE)
        rig.copied(copier)
    rewind(rig, at[0])
    with rig.copier(at) as copier:
        assert broken(copier, at[0]) == "POSITION_NOT_OURS"
        rig.source.produce(at[1], FIVE)
        rig.copied(copier, only=[at[1]])


def test_a_mirror_topic_that_was_created_again_is_not_copied_from_the_middle(
    mapped: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its positions are gone with it; what was published of its map says how much was there."""
    monkeypatch.setattr(partition, "PUBLISHED_AT_BYTES", 0)
    monkeypatch.setattr(partition, "FEW", 1)
    rig = mapped
    (at,) = rig.create(topic_name)
    with rig.copier([at]) as copier:
        for _ in range(5):
            rig.source.produce(at, FIVE)
            rig.copied(copier)
    rig.destination.admin.delete_topics([topic_name])[topic_name].result(20)
    until(lambda: not rig.destination.complete(topic_name, 1), 20)
    rig.destination.create(topic_name)
    with rig.copier([at]) as copier:
        assert broken(copier, at) == "MIRROR_TRUNCATED"
    must_have(rig, at, [])


def test_a_source_whose_log_begins_inside_a_batch_is_copied_from_there(mapped: Rig, topic_name: str) -> None:
    rig = mapped
    (at,) = rig.create(topic_name)
    rig.source.produce(at, FIVE)
    rig.source.delete_before(at, 3)
    with rig.copier([at], holes=Holes.MARKERS, compacted=False) as copier:
        rig.copied(copier)
    must_have(rig, at, FIVE[3:])
    assert must_be_equal(rig, [at]) == len(FIVE) - 3


def must_have(rig: Rig, at: MirrorPartition, wanted: Sequence[bytes]) -> None:
    assert [each.value for each in read(rig.destination.servers, [at], "read_committed")[at]] == list(wanted)


def test_records_of_others_in_the_copy_stop_its_partition(mapped: Rig, topic_name: str) -> None:
    rig = mapped
    at = rig.create(topic_name, 2)
    with rig.copier(at) as copier:
        rig.source.produce(at[0], FIVE)
        rig.copied(copier)
        rig.destination.produce(at[0], [b"foreign"])
        rig.source.produce(at[0], FIVE)
        rig.source.produce(at[1], FIVE)
        assert broken(copier, at[0]) == "FOREIGN_WRITE"
        rig.copied(copier, only=[at[1]])
    must_have(rig, at[0], [*FIVE, b"foreign"])


def too_large_fails_alone(rig: Rig, topic_name: str) -> None:
    """One partition gets a record that its copy does not take; what the other one gets is copied."""
    rig.destination.create(topic_name, 2, config={"max.message.bytes": "2000"})
    at = rig.source.create(topic_name, 2)
    with rig.copier(at) as copier:
        rig.source.produce(at[0], [b"fits"])
        rig.copied(copier)
        rig.source.produce(at[0], [b"x" * 5_000])
        for n in range(5):
            rig.source.produce(at[1], [b"%d" % n])
        assert broken(copier, at[0]) == "RECORD_TOO_LARGE"
        rig.copied(copier, only=[at[1]])
    must_be_equal(rig, [at[1]])
    must_have(rig, at[0], [b"fits"])


def test_a_record_that_is_too_large_fails_alone(mapped: Rig, topic_name: str) -> None:
    too_large_fails_alone(mapped, topic_name)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3, 4))])
def test_killed_and_frozen_owners_neither_lose_nor_repeat(
    mapped: Rig, topic_name: str, tmp_path: Path, seed: int
) -> None:
    """Two workers that both believe that they hold the lease: the brokers fence all but the last one (S1.5).

    Who takes over reads the positions again, of what it was assigned; what was aborted has moved none (S1.3), and is
    copied again as a whole transaction (S1.4).
    """
    rig, dice, store = mapped, Random(seed), tmp_path / "state"
    at, rig.store = rig.create(topic_name, 3), worker_store(store)
    producer = rig.source.producer(transactional_id=f"t-{uuid4().hex}", linger_ms=0)
    producer.init_transactions(20)
    with ExitStack() as workers:
        running = [workers.enter_context(process(rig, at, store, f"w{n}")) for n in range(2)]
        rig.source.transaction(at[0], [b"first"])
        until(lambda: rig.destination.end(at[0]), 60)  # before, nobody copies what the dice disturb
        for n in range(40):
            victim = dice.randrange(2)
            frozen, killed = dice.random() < 0.2, dice.random() < 0.15
            if frozen:
                os.kill(running[victim].pid, signal.SIGSTOP)
            values = [b"%d-%d" % (n, m) for m in range(dice.randrange(1, 200))]
            transact(producer, dice.choice(at), values, commit=dice.random() < 0.7)
            time.sleep(0.25)  # noqa: TID251  # workers copy meanwhile
            if frozen:
                os.kill(running[victim].pid, signal.SIGCONT)
            if killed:
                running[victim].kill()
                running[victim] = workers.enter_context(process(rig, at, store, f"w{n + 2}"))
    with rig.copier(at, topic_ids={}) as copier:
        rig.copied(copier)
    assert must_be_equal(rig, at) > 1_000
    assert committed(rig, at[0]).count > 1


@pytest.mark.long  # the storm over mapped offsets in tests/storm/test_storm.py kills brokers, coordinators among them
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_brokers_that_die_under_open_transactions_neither_lose_nor_repeat(
    into_trio: Rig, topic_name: str, seed: int
) -> None:
    """Leaders, coordinators of the transactions and of the group among them."""
    rig, dice = into_trio, Random(seed)
    rig.spec = mapped_spec(rig.spec)
    at = rig.create(topic_name, 6)
    with rig.copier(at) as copier:
        for n in range(6):
            for m in range(20):
                rig.source.transaction(dice.choice(at), [b"%d-%d" % (n, m)] * dice.randrange(1, 50), commit=m % 4 > 0)
            broker = dice.choice(rig.destination.cluster.brokers).id
            rig.destination.cluster.kill(broker)
            rig.source.produce(dice.choice(at), FIVE)
            rig.destination.cluster.start_broker(broker)
        rig.copied(copier, 90)
    assert must_be_equal(rig, at) > 1_000


@pytest.mark.long  # the same storm loses them, and test_at_least_once.py holds them back under the same engine
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_requests_that_are_lost_or_late_neither_lose_nor_repeat(
    mapped: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Two workers behind proxies that hold back, cut and release requests of every kind that a transaction has."""
    monkeypatch.setattr(owned_id, "ANSWER_SECONDS", 1.5)
    rig, dice = mapped, Random(seed)
    at = rig.create(topic_name, 3)
    with Proxy() as proxy, ExitStack() as owners:
        doors = [proxy.door(rig.destination.cluster) for _ in range(2)]
        for n, door in enumerate(doors):
            copier = rig.copier(at, name=f"w{n}")
            copier.destination = through(rig.destination.cluster.endpoint(), door)
            owners.enter_context(copier)

        def write() -> None:
            values = [b"%d" % each for each in range(dice.randrange(1, 50))]
            rig.source.transaction(dice.choice(at), values, commit=dice.random() < 0.7)

        disturbed(doors, dice, write)
    with rig.copier(at) as copier:
        rig.copied(copier)
    assert must_be_equal(rig, at) > 500


def disturbed(doors: Sequence[Door], dice: Random, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Ten seconds in which requests of transactions are held back, cut and released; at the end all that are held."""
    held: list[Held] = []
    began = time.monotonic()
    while time.monotonic() - began < 10:
        door = dice.choice(doors)
        if dice.random() < 0.3:
            held.append(door.hold(dice.choice(OF_A_TRANSACTION), skip=dice.randrange(4)))
        if held and dice.random() < 0.4:
            held.pop(dice.randrange(len(held))).release()
        if dice.random() < 0.1:
            door.cut()
        meanwhile()
        time.sleep(0.1)  # noqa: TID251  # workers copy meanwhile
    for late in held:
        late.release()


def through(endpoint: Endpoint, door: Door) -> Endpoint:
    """The same cluster, by the door of a proxy."""
    host_ports = [each.rpartition(":") for each in door.bootstrap_servers.split(",")]
    return replace(endpoint, bootstrap=tuple(Address(host, int(port)) for host, _, port in host_ports))


def detailed_map(rig: Rig, at: MirrorPartition) -> tuple[OffsetMap, OffsetMap]:
    """The map before and after every span between two anchors was read."""
    cluster: Any = SimpleNamespace(logs=KafkaLogs(rig.destination.router))
    position = committed(rig, at)
    policy = OffsetPolicy.of(rig.store.catch_up(soon()), rig.spec, {at: position})
    return policy.map_of(at), detailed(policy, cluster, {at: None}, soon(60)).map_of(at)


def test_old_ranges_become_anchors_and_the_log_of_the_copy_gives_the_rest_back(
    mapped: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a worker ends between writing and deleting, and where the log of the copy begins in between."""
    monkeypatch.setattr(thinning, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(thinning, "BYTES", 3_000)
    monkeypatch.setattr("tanist.domain.thinning.WORTH_PERCENT", 200)
    rig, dice = mapped, Random(11)
    rig.spec = replace(rig.spec, transaction_ms=50)
    (at,) = rig.create(topic_name)
    thin, ended = OffsetRuns.thin, list[ThinningStep]()

    def dies(self: OffsetRuns, of: Any, step: ThinningStep, by: Deadline) -> None:
        if step.written and not ended:  # the deletion of this step is the next worker's
            ended.append(step)
            step = replace(step, deleted=())
        thin(self, of, step, by)

    def is_thinned() -> bool:
        stored = rig.store.catch_up(soon())
        anchors = [each for each in stored.offset_anchors(rig.spec) if each.partition == at]
        return len(anchors) > 1 and not any(set(step.deleted) & set(stored) for step in ended)

    monkeypatch.setattr(OffsetRuns, "thin", dies)
    with rig.copier([at], compacted=False) as copier:
        for _ in range(250):
            if dice.random() < 0.6:
                rig.source.produce(at, FIVE[: dice.randrange(1, 5)])
            else:
                rig.source.transaction(at, FIVE, commit=dice.random() < 0.6)
            rig.copied(copier)
        until(is_thinned, 20, lambda: list(rig.store.view()))
    assert ended
    assert ended[0].deleted
    before, after = detailed_map(rig, at)
    assert [span for span in before.unwalked if not span.is_known]
    assert not after.unwalked
    source = read(rig.source.servers, [at], "read_committed")[at]
    copy = read(rig.destination.servers, [at], "read_committed")[at]
    pairs = [(one.offset, other.offset) for one, other in zip(source, copy, strict=True)]
    assert [(one, after.locate(SourceOffset(one))) for one, _ in pairs] == pairs
    assert all(before.locate(SourceOffset(one)) <= other for one, other in pairs)

    (cut, *_) = [span for span in before.unwalked if not span.is_known]
    start = cut.until.destination - 3
    rig.destination.delete_before(at, start)
    _, shorter = detailed_map(rig, at)
    left = [(one, other) for one, other in pairs if other >= start]
    assert [(one, shorter.locate(SourceOffset(one))) for one, _ in left] == left
