"""Where the copies of mapped mirrors begin: at the source, and behind what a destination topic has already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tanist.domain.fake_group import group_of
from tanist.domain.names import MirrorName
from tanist.kafka.wire.clock import SystemClock
from tests.kafka.failover.test_mapped import WAIT, committed, values
from tests.kafka.failover.test_metadata import grow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kafka.failover.conftest import KafkaSide, Pair

BEGAN = SystemClock().now() - 3_600_000
"""An hour ago: brokers delete older records soon."""
MAPPED = ("--source", "east", "--offsets", "mapped")


def write(side: KafkaSide, topic: str, numbers: Iterable[int], partition: int = 0) -> None:
    """One batch; each record has the time of its number."""
    producer = Producer(side.client(linger_ms="200"))
    for n in numbers:
        producer.produce(topic, b"%d" % n, partition=partition, timestamp=BEGAN + n)
    assert producer.flush(20) == 0


def copied(pair: Pair, topic: str, partitions: int = 1) -> dict[int, list[bytes | None]]:
    return values(committed(pair.west, topic, partitions))


def texts(numbers: Iterable[int]) -> list[bytes]:
    return [b"%d" % n for n in numbers]


def compared(pair: Pair, mirror: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a validation and a reconciliation of the whole mirror say."""
    validated = pair.tanist("validate", mirror, "--level", "records", "--json", expected=None).item
    return validated, pair.tanist("reconcile", mirror, "--json", expected=None).item


@pytest.mark.long
def test_a_copy_begins_at_a_time_inside_a_batch_and_what_lies_before_is_not_compared(pair: Pair) -> None:
    pair.worker()
    for topic in ("st-time", "st-later"):
        pair.east.topic(topic, 1)
        write(pair.east, topic, range(10))
    create = ("mirrors", "create", "st-time", *MAPPED, "--start", str(BEGAN + 4))
    pair.tanist(*create, "--topic", "st-time")
    pair.tanist("mirrors", "add", "st-time", "--topic", "st-later")
    write(pair.east, "st-time", range(10, 15))
    grow(pair.east, "st-time", 2)
    write(pair.east, "st-time", range(3), partition=1)  # of a time before the start
    pair.tanist("metadata", "sync", "st-time")
    pair.tanist("mirrors", "wait", "st-time", *WAIT)
    assert copied(pair, "st-time", 2) == {0: texts(range(4, 15)), 1: texts(range(3))}
    assert copied(pair, "st-later") == {0: texts(range(4, 10))}
    validated, reconciled = compared(pair, "st-time")
    assert (validated["verdict"], validated["records"]) == ("EQUAL", 11 + 3 + 6), validated
    assert {row["lost"] for row in reconciled["partitions"]} == {0}, reconciled


def test_a_copy_begins_at_the_end_of_what_is_there(pair: Pair) -> None:
    pair.worker()
    pair.east.topic("st-late", 1)
    write(pair.east, "st-late", range(5))
    pair.tanist("mirrors", "create", "st-late", *MAPPED, "--topic", "st-late", "--start", "latest", "--paused")
    write(pair.east, "st-late", range(5, 8))  # it is the end at the creation that counts
    pair.tanist("mirrors", "resume", "st-late", "--topic", "st-late")
    pair.tanist("mirrors", "wait", "st-late", *WAIT)
    assert copied(pair, "st-late") == {0: texts(range(5, 8))}


def test_a_copy_that_begins_at_the_end_of_an_idle_log_is_not_behind(pair: Pair) -> None:
    """Its first position is committed although no record comes with it."""
    pair.worker()
    pair.east.topic("st-idle", 1)
    write(pair.east, "st-idle", range(5))
    pair.tanist("mirrors", "create", "st-idle", *MAPPED, "--topic", "st-idle", "--start", "latest")
    pair.tanist("mirrors", "wait", "st-idle", "--for", "lag=0", "--timeout", "30s")
    assert copied(pair, "st-idle") == {}


@pytest.mark.long
def test_a_copy_begins_behind_the_records_that_its_topic_has(pair: Pair) -> None:
    pair.worker()
    pair.east.topic("st-into", 1)
    pair.west.topic("dr.st-into", 1)
    write(pair.west, "dr.st-into", range(100, 103))
    write(pair.east, "st-into", range(5))
    create = ("mirrors", "create", "st-into", *MAPPED, "--topic", "st-into", "--rename", "dr.{topic}")
    refused = pair.tanist(*create, expected=None)
    assert refused.code != 0
    assert "--into-existing" in refused.err
    pair.tanist(*create, "--into-existing")
    pair.tanist("mirrors", "wait", "st-into", *WAIT)
    assert copied(pair, "dr.st-into") == {0: texts([100, 101, 102, *range(5)])}
    validated, reconciled = compared(pair, "st-into")
    assert validated["verdict"] == "EQUAL", validated
    assert {(row["lost"], row["repeated"]) for row in reconciled["partitions"]} == {(0, 0)}, reconciled
    write(pair.west, "dr.st-into", [104])  # by somebody else, since
    write(pair.east, "st-into", range(5, 8))
    pair.tanist("mirrors", "wait", "st-into", "--for", "lag=0", "--timeout", "20s", expected=None)
    assert "FOREIGN_WRITE" in pair.tanist("mirrors", "describe", "st-into", "--json").out


def test_the_group_of_another_copier_is_taken_over(pair: Pair) -> None:
    pair.worker()
    pair.east.topic("st-seed", 2)
    pair.west.topic("st-seed", 2)
    for partition in (0, 1):
        write(pair.east, "st-seed", range(10), partition)
        write(pair.west, "st-seed", range(6), partition)  # it has copied more than it has committed
    pair.east.commit("copier", "st-seed", 4)
    create = ("mirrors", "create", "st-seed", *MAPPED, "--topic", "st-seed", "--into-existing", "--paused")
    pair.tanist(*create)
    pair.tanist("mirrors", "wait", "st-seed", "--for", "state=PAUSED", "--timeout", "20s")
    seed = ("mirrors", "seed-offsets", "st-seed", "--group", "copier")
    shown = pair.tanist(*seed, "--dry-run", "--json").item
    assert pair.tanist(*seed, "--json").item == shown | {"changed": True}
    rows = {row["partition"]: row for row in shown["partitions"]}
    assert (rows[0]["start"], rows[0]["may_repeat"]) == (4, 6)
    assert rows[1]["start"] is None
    pair.tanist("mirrors", "resume", "st-seed", "--topic", "st-seed")
    pair.tanist("mirrors", "wait", "st-seed", *WAIT)
    assert copied(pair, "st-seed", 2) == {0: texts([*range(6), *range(4, 10)]), 1: texts([*range(6), *range(10)])}
    refused = pair.tanist(*seed, expected=None)
    assert refused.code != 0
    assert group_of(MirrorName("st-seed")) in refused.err
