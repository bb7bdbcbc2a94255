"""Mirrors with mapped offsets between other releases, and under each version of the brokers' transaction protocol.

What a worker asks of a coordinator stays below the versions of KIP-890 part 2, but brokers with `transaction.version` 2
handle what they are asked otherwise than those with 0 and 1, and none before 3.6 verify a transaction at all.
"""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from tanist.domain.names import MirrorPartition
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.jars import KAFKA_VERSION
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import KafkaSide, Pair, running
from tests.kafka.failover.test_mapped import WAIT, committed, values
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import transact, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

TRANSACTION_VERSION: Final = "transaction.version"
KILLS: Final = 3
ROUNDS: Final = 12
"""Transactions of the source while each worker copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Of both clusters. `features`: of the destination; `verifies`: whether its leaders verify transactions."""

    source: str = KAFKA_VERSION
    destination: str = KAFKA_VERSION
    features: Mapping[str, int] = field(default_factory=dict)
    verifies: bool = True


def levels(level: int) -> Releases:
    return Releases(features={TRANSACTION_VERSION: level})


TRIED: Final = (
    pytest.param(levels(0), id="transaction version 0"),
    pytest.param(levels(1), id="transaction version 1"),
    pytest.param(levels(2), id="transaction version 2"),
    pytest.param(Releases(source="2.4.1", destination="3.9.1"), id="from 2.4 to 3.9"),
    pytest.param(Releases(source="3.9.1", destination="4.4.0"), id="from 3.9 to 4.4"),
    pytest.param(Releases(destination="3.5.2", verifies=False), id="to 3.5"),
)


@contextmanager
def clusters(releases: Releases, guardian: Guardian, config: ClientConfig, home: Path) -> Iterator[Pair]:
    """Without authorizers: old releases are run without one here."""
    source = ClusterSpec(name="east", heap_mb=384, version=releases.source)
    with running(
        guardian,
        config,
        home,
        source=source,
        authorizer=False,
        version=releases.destination,
        features=releases.features,
    ) as pair:
        yield pair


@pytest.mark.long  # the next one is as short as it can be told
@pytest.mark.parametrize("releases", TRIED)
def test_every_record_once_through_kills_and_a_failover(
    guardian: Guardian, client_config: ClientConfig, tmp_path: Path, releases: Releases
) -> None:
    with clusters(releases, guardian, client_config, tmp_path) as pair:
        warned = copied_and_failed_over(pair, Random(1), kills=KILLS)
        assert ("older than Kafka 3.6" in warned) is not releases.verifies
        (found,) = (each for each in items_of(pair, "doctor") if each["name"] == "transactions on west")
        assert (found["observed"] == "verified") is releases.verifies
        assert ("older than Kafka 3.6" in found["reason"]) is not releases.verifies


@pytest.fixture
def into_first_version(pair: Pair, guardian: Guardian, client_config: ClientConfig, tmp_path: Path) -> Iterator[Pair]:
    """From the source that all tests of this folder share."""
    spec = ClusterSpec(name="west", heap_mb=384, features=levels(0).features)
    with SandboxCluster.new(spec, guardian=guardian) as west:
        found = Pair(pair.east, KafkaSide(west, client_config), tmp_path, guardian)
        found.west.topic("__mirror_approvals", 1, retention_ms="-1", message_timestamp_type="LogAppendTime")
        yield found
        found.dismiss()


def test_every_record_once_under_the_first_version_of_the_transaction_protocol(into_first_version: Pair) -> None:
    copied_and_failed_over(into_first_version, Random(1), kills=1)


def copied_and_failed_over(pair: Pair, dice: Random, *, kills: int) -> str:
    """Transactions of the source, committed and aborted, workers that are killed, and a planned failover.

    Returns what whoever created the mirror was warned of.
    """
    pair.east.topic("old")
    assert pair.east.writes("old", range(10))
    created = ("--source", "east", "--topic", "old", "--offsets", "mapped", "--transaction-ms", "200")
    warned = pair.tanist("mirrors", "create", "old", *created).err
    producer = Producer(pair.east.client(transactional_id=uuid4().hex, linger_ms="0"))
    producer.init_transactions(30)
    for n in range(kills + 1):
        worker = pair.worker(f"w{n}")
        until(lambda n=n: len(pair.west.read("old", isolation="read_committed")) >= 10 * (n + 1), 60)  # type: ignore[misc]
        for m in range(ROUNDS):
            number = 10_000 * (n + 1) + 100 * m
            at = MirrorPartition("old", dice.randrange(2))
            some = [b"%d" % (number + each) for each in range(dice.randrange(1, 40))]
            transact(producer, at, some, commit=m % 3 > 0)
        if n < kills:
            worker.send(signal.SIGKILL)
    pair.tanist("mirrors", "wait", "old", *WAIT)
    source = committed(pair.east, "old")
    positions = source[0][:: max(1, len(source[0]) // 5)]
    for n, (offset, _) in enumerate(positions):
        pair.east.commit(f"old-{n}", "old", offset)
    until(lambda: f"old-{len(positions) - 1}" in pair.tanist("state", "dump", "--key", "group/old").out, 40)
    pair.tanist("failover", "run", "old", "--plan", pair.approved("old"), *QUICK)
    copy = committed(pair.west, "old")
    assert values(copy) == values(source)
    there = {content: offset for offset, content in copy[0]}
    assert [pair.west.committed(f"old-{n}", "old") for n in range(len(positions))] == [
        there[content] for _, content in positions
    ]
    assert pair.west.writes("old", range(100, 110))
    (status,) = items_of(pair, "status", "old")
    assert {each["name"]: each["verdict"] for each in status["checks"]}["barrier"] == "PASS"
    return warned


def items_of(pair: Pair, *command: str) -> list[dict[str, Any]]:
    """What a command answers, whatever its exit code."""
    return list(json.loads(pair.tanist(*command, "--json", expected=None).out)["items"])
