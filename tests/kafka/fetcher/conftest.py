"""The clusters of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tanist.kafka.wire.messages  # noqa: F401  # kafka-python is loaded through the door that filters its warnings
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.fetcher.rig import Rig, RigCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian


@pytest.fixture(scope="package")
def three_brokers(guardian: Guardian) -> Iterator[SandboxCluster]:
    """RF 3, min ISR 2, forgetful: the broker looks every second whether it may forget a producer id."""
    properties = {
        "producer.id.expiration.check.interval.ms": "1000",
        "log.cleaner.backoff.ms": "200",
        "log.retention.check.interval.ms": "1000",
    }
    with SandboxCluster.new(ClusterSpec(name="trio", brokers=3, properties=properties), guardian=guardian) as cluster:
        yield cluster


@pytest.fixture
def trio(three_brokers: SandboxCluster) -> Iterator[RigCluster]:
    """The three brokers, all of them well again after the test."""
    side = RigCluster(three_brokers)
    yield side
    side.close()
    for broker in three_brokers.brokers:
        three_brokers.unpause(broker.id)
    three_brokers.start()


@pytest.fixture
def into_trio(sides: tuple[RigCluster, RigCluster], trio: RigCluster) -> Rig:
    return Rig(sides[0], trio)


@pytest.fixture
def out_of_trio(sides: tuple[RigCluster, RigCluster], trio: RigCluster) -> Rig:
    return Rig(trio, sides[1])


@pytest.fixture(autouse=True)
def lively(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second is what a lane waits for new records, and then for its end; a hundred tests wait for neither.

    Nor do they wait until it looks at all its partitions again.
    """
    if "idle" not in request.node.nodeid:
        monkeypatch.setattr("tanist.fetcher.engines.batches.reading.WAIT_MS", 50)
        monkeypatch.setattr("tanist.fetcher.fetcher_thread.WHOLE_SECONDS", 0.1)
