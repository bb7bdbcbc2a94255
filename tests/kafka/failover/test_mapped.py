"""Failovers of mirrors with mapped offsets, as they are typed: every record once, and every group at its very next."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from tanist.domain.names import MirrorPartition
from tests.kafka.failover.test_dead_source import busily, killed_under_load
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import transact, until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import KafkaSide, Pair

WAIT = ("--for", "lag=0", "--timeout", "200s")


def mirrored(pair: Pair, name: str, partitions: int = 2) -> None:
    """A mirror with mapped offsets, whose source has transactions."""
    pair.east.topic(name, partitions)
    producer = Producer(pair.east.client(transactional_id=uuid4().hex, linger_ms="0"))
    producer.init_transactions(20)
    assert pair.east.writes(name, range(10))
    for n in range(6):
        at = MirrorPartition(name, n % partitions)
        transact(producer, at, [b"%d" % (1_000 + 10 * n + m) for m in range(5)], commit=n % 3 > 0)
    pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name, "--offsets", "mapped")
    pair.tanist("mirrors", "wait", name, *WAIT)


def committed(side: KafkaSide, topic: str, partitions: int = 2) -> dict[int, list[tuple[int, bytes | None]]]:
    """By partition: offset and value of each record that a reader of committed records sees."""
    found: dict[int, list[tuple[int, bytes | None]]] = {}
    for partition, offset, content in side.read(topic, partitions, isolation="read_committed"):
        found.setdefault(partition, []).append((offset, content))
    return found


def values(rows: dict[int, list[tuple[int, bytes | None]]]) -> dict[int, list[bytes | None]]:
    return {partition: [content for _, content in some] for partition, some in rows.items()}


def test_planned_with_groups_that_go_on_at_their_very_next_record(pair: Pair) -> None:
    worker = pair.worker()
    mirrored(pair, "mapped")
    source = committed(pair.east, "mapped")
    for n, (offset, _) in enumerate(source[0]):
        pair.east.commit(f"mapped-{n}", "mapped", offset)
    until(lambda: f"mapped-{len(source[0]) - 1}" in pair.tanist("state", "dump", "--key", "group/mapped").out, 40)
    plan = pair.approved("mapped")
    pair.tanist("failover", "run", "mapped", "--plan", plan, *QUICK)
    copy = committed(pair.west, "mapped")
    assert values(copy) == values(source)
    for n, (offset, _) in enumerate(copy[0]):
        assert pair.west.committed(f"mapped-{n}", "mapped") == offset
    assert pair.west.writes("mapped", range(100, 104))
    assert not pair.east.writes("mapped", range(1))
    assert not pair.west.writes("mapped", range(1), user="mirror")
    worker.send(signal.SIGSTOP)
    seen = committed(pair.west, "mapped")
    worker.send(signal.SIGCONT)
    pair.clock.wait(3)
    assert committed(pair.west, "mapped") == seen
    assert pair.tanist("failover", "status", "mapped", "--json").item["status"] == "DONE"


def test_unplanned_with_a_source_that_dies_under_load_and_a_worker_that_dies_with_it(pair: Pair) -> None:
    worker = pair.worker()
    name = "mapped-fire"
    pair.east.topic(name, 12)
    assert pair.east.writes(name, range(12), partitions=12)
    pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name, "--offsets", "mapped")
    pair.tanist("mirrors", "wait", name, *WAIT)
    acknowledged = killed_under_load(pair, name)
    worker.send(signal.SIGKILL)
    plan = pair.approved(name, mode="unplanned")
    pair.tanist("failover", "run", name, "--plan", plan, *QUICK)
    rows = pair.west.read(name, partitions=12, isolation="read_committed")
    for at, records in acknowledged.items():
        copied = [value for partition, _, value in rows if partition == at.partition]
        wanted = [records[offset] for offset in sorted(records)]
        begun = copied[1:]  # the record that the mirror was created with
        assert begun[: len(wanted)] == wanted[: len(begun)]  # the source died before it acknowledged the last ones
    assert len(rows) > 1_000
    assert pair.west.writes(name, range(12), partitions=12)
    pair.east.cluster.start()


@pytest.mark.long
def test_at_least_once_with_a_source_and_a_worker_that_die_under_load(pair: Pair) -> None:
    """S1.4: no acknowledged record that was copied is missing, in its order; the last ones may be there again."""
    worker = pair.worker()
    name = "mapped-again"
    pair.east.topic(name, 12)
    assert pair.east.writes(name, range(12), partitions=12)
    mapped = ("--offsets", "mapped", "--delivery", "at-least-once")
    pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name, *mapped)
    pair.tanist("mirrors", "wait", name, *WAIT)
    assert "at least once" in pair.tanist("mirrors", "describe", name).err
    acknowledged = killed_under_load(pair, name)
    worker.send(signal.SIGKILL)
    plan = pair.approved(name, mode="unplanned")
    pair.tanist("failover", "run", name, "--plan", plan, *QUICK)
    rows = pair.west.read(name, partitions=12)
    for at, records in acknowledged.items():
        copied = [value for partition, _, value in rows if partition == at.partition][1:]
        wanted = [records[offset] for offset in sorted(records)]
        first = list(dict.fromkeys(copied))
        assert first[: len(wanted)] == wanted[: len(first)]  # the source died before it acknowledged the last ones
    assert len(rows) > 1_000
    assert pair.west.writes(name, range(12), partitions=12)
    pair.east.cluster.start()


@pytest.mark.long  # tests/kafka/fetcher/test_at_least_once.py changes it to and fro under load, as a worker is told
def test_the_delivery_of_a_mirror_is_altered_while_producers_write(pair: Pair) -> None:
    """S1.8, as it is typed: a running worker follows."""
    pair.worker()
    name = "mapped-altered"
    pair.east.topic(name, 12)
    assert pair.east.writes(name, range(12), partitions=12)
    mapped = ("--offsets", "mapped", "--delivery", "at-least-once")
    pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name, *mapped)
    pair.tanist("mirrors", "wait", name, *WAIT)
    with busily(pair.east, name) as acknowledged:
        pair.clock.wait(2)
        for delivery in ("exactly-once", "at-least-once", "exactly-once"):
            pair.tanist("mirrors", "alter", name, "--delivery", delivery)
            pair.clock.wait(4)
    pair.tanist("mirrors", "wait", name, *WAIT)
    assert "a transaction every" in pair.tanist("mirrors", "describe", name).err
    copied = values(committed(pair.west, name, 12))
    assert copied == values(committed(pair.east, name, 12))
    for at, records in acknowledged.items():
        assert set(records.values()) <= set(copied[at.partition])


@pytest.mark.long
def test_the_number_of_records_that_a_killed_worker_repeats_is_shown(pair: Pair) -> None:
    """S1.4: as the reason of their partition, which the next worker has counted."""
    worker = pair.worker()
    name = "mapped-counted"
    pair.east.topic(name, 12)
    assert pair.east.writes(name, range(12), partitions=12)
    mapped = ("--offsets", "mapped", "--delivery", "at-least-once", "--transaction-ms", "10000")
    pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name, *mapped)
    pair.tanist("mirrors", "wait", name, *WAIT)
    with busily(pair.east, name) as acknowledged:
        pair.clock.wait(4)
        worker.send(signal.SIGKILL)
        pair.worker("w2")
        until(lambda: "record(s)" in pair.tanist("mirrors", "describe", name).out, 60)
    pair.tanist("mirrors", "wait", name, *WAIT)
    copied = values(committed(pair.west, name, 12))
    again = 0
    for partition, source in values(committed(pair.east, name, 12)).items():
        assert list(dict.fromkeys(copied[partition][1:])) == source[1:]
        again += len(copied[partition]) - len(source)
    validated = pair.tanist("validate", name, "--json").item
    assert (validated["verdict"], again > 0) == ("EQUAL", True), validated
    assert f"{again} records are there again" in validated["reason"]
    for at, records in acknowledged.items():
        assert set(records.values()) <= set(copied[at.partition])
