"""A mirror and its failover between clusters of other releases than the one that the other tests run."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tanist_testkit.sandbox.jars import KAFKA_VERSION
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide

pytestmark = pytest.mark.long
RELEASES: Final = (
    pytest.param(("2.4.1", KAFKA_VERSION), id="from 2.4"),
    pytest.param(("2.7.2", KAFKA_VERSION), id="from 2.7"),
    pytest.param(("2.8.2", KAFKA_VERSION), id="from 2.8"),
    pytest.param(("3.9.1", KAFKA_VERSION), id="from 3.9"),
    pytest.param(("4.4.0", KAFKA_VERSION), id="from 4.4"),
    pytest.param((KAFKA_VERSION, "3.9.1"), id="to 3.9"),
    pytest.param((KAFKA_VERSION, "4.4.0"), id="to 4.4"),
)
TRANSACTIONS: Final = 10
FETCH: Final = {"2.4.1": 11, "2.7.2": 12, "2.8.2": 12}
"""The version of Fetch that each release serves; 13 from 3.1 on: by topic id."""


@pytest.fixture(params=RELEASES)
def pair(
    request: pytest.FixtureRequest,
    guardian: Guardian,
    client_config: ClientConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    source, destination = request.param
    home = tmp_path_factory.mktemp("releases")
    east = ClusterSpec(name="east", heap_mb=384, version=source, properties={"log.cleaner.backoff.ms": "200"})
    with running(guardian, client_config, home, source=east, version=destination) as pair:
        yield pair


def transact(pair: Pair, topic: str) -> None:
    """Every other transaction is aborted."""
    producer = Producer(pair.east.client(transactional_id="t", compression_type="lz4"))
    producer.init_transactions(30)
    for n in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, b"transaction %d" % n, key=b"k", partition=partition, headers={"n": b"%d" % n})
        producer.flush(20)
        (producer.abort_transaction if n % 2 else producer.commit_transaction)(20)


def caught_up(pair: Pair) -> None:
    pair.tanist("mirrors", "wait", "old", "--for", "lag=0", "--timeout", "200s")


def fetch_versions(pair: Pair) -> set[int]:
    """With which records are read from the source."""
    described = json.loads(pair.tanist("mirrors", "describe", "old", "--json").out)["items"]
    return {item["source_versions"]["Fetch"] for item in described}


def test_a_mirror_and_its_failover_between_releases(pair: Pair) -> None:
    """Identical offsets, through a kill of the worker; a group continues at its number; nothing is lost."""
    pair.worker()
    pair.east.topic("old")
    assert pair.east.writes("old", range(50))
    pair.tanist("mirrors", "create", "old", "--source", "east", "--topic", "old")
    caught_up(pair)
    pair.worker().send(signal.SIGKILL)
    transact(pair, "old")
    assert pair.east.writes("old", range(50, 100))
    pair.worker("w2")
    caught_up(pair)
    source = pair.east.read("old", isolation="read_committed")
    assert len(source) == 100 + TRANSACTIONS
    assert pair.west.read("old", isolation="read_committed") == source

    assert fetch_versions(pair) == {FETCH.get(pair.east.cluster.spec.version, 13)}
    found = pair.tanist("validate", "old", "--level", "records", "--json").item
    assert found["verdict"] == "EQUAL", found["reason"]

    pair.east.commit("billing", "old", 30)
    pair.tanist("failover", "run", "old", "--plan", pair.approved("old"))
    assert pair.tanist("failover", "status", "old", "--json").item["status"] == "DONE"
    assert pair.west.read("old", isolation="read_committed") == source
    assert pair.west.committed("billing", "old") == 30
    assert pair.west.writes("old", range(100, 110))


def errors(pair: Pair) -> set[str | None]:
    """Of the partitions of the mirror."""
    described = json.loads(pair.tanist("mirrors", "describe", "old", "--json").out)["items"]
    return {item["error"] for item in described}


def is_created(side: KafkaSide, topic: str) -> bool:
    """Whether it can be created: for a moment the one that was deleted still has its name."""
    try:
        side.topic(topic)
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("pair", [RELEASES[0]], indirect=True)
def test_records_of_a_recreated_topic_without_an_id_are_not_appended(pair: Pair) -> None:
    """Below 2.8 topics have no ids: the end of the copy is compared with the new log, which is longer than it.

    If the worker has looked several times while there was no topic, it has stopped the partitions instead.
    """
    pair.worker()
    pair.east.topic("old")
    assert pair.east.writes("old", range(50))
    pair.tanist("mirrors", "create", "old", "--source", "east", "--topic", "old")
    caught_up(pair)
    copied = pair.west.read("old")
    assert len(copied) == 50

    client = AdminClient(pair.east.client("admin"))
    client.delete_topics(["old"])["old"].result(20)
    until(lambda: is_created(pair.east, "old"), 30)
    assert pair.east.writes("old", range(1000, 1200))
    until(lambda: errors(pair) in ({"DIVERGED"}, {"SOURCE_TOPIC_DELETED"}), 90, lambda: errors(pair))
    assert pair.west.read("old") == copied


@pytest.mark.parametrize("pair", [RELEASES[0], RELEASES[2]], indirect=True)
def test_a_topic_that_is_deleted_at_a_source_with_zookeeper_stops_and_keeps_its_records(pair: Pair) -> None:
    """2.8 has topic ids in some answers only, 2.4 in none. Another topic is copied all the time."""
    pair.worker()
    for topic in ("old", "beside"):
        pair.east.topic(topic)
        assert pair.east.writes(topic, range(20))
    pair.tanist("mirrors", "create", "old", "--source", "east", "--topic", "old|beside")
    caught_up(pair)
    copied = pair.west.read("old")
    client = AdminClient(pair.east.client("admin"))
    client.delete_topics(["old"])["old"].result(20)
    stopped = {("STOPPED", "SOURCE_TOPIC_DELETED")}
    until(lambda: states(pair, "old") == stopped, 60, lambda: states(pair, "old"))
    assert pair.east.writes("beside", range(20, 30))
    pair.tanist("mirrors", "wait", "old", "--topic", "beside", "--for", "lag=0", "--timeout", "200s")
    assert pair.west.read("beside") == pair.east.read("beside")
    assert len(copied) == 20
    assert pair.west.read("old") == copied


def states(pair: Pair, topic: str) -> set[tuple[str, str | None]]:
    """State and error of each partition of `topic`."""
    described = json.loads(pair.tanist("mirrors", "describe", "old", "--json").out)["items"]
    return {(item["state"], item["error"]) for item in described if item["topic"] == topic}


@pytest.mark.parametrize("pair", RELEASES[:2], indirect=True)
def test_holes_that_the_cleaner_of_an_old_release_made_are_copied(pair: Pair) -> None:
    """Its batches have no delete horizon (KIP-534, from 3.1 on). More is cleaned while the topic is mirrored."""
    pair.east.topic("old", cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.01")
    until(lambda: holes(pair) > 50, 150)
    pair.worker()
    pair.tanist("mirrors", "create", "old", "--source", "east", "--topic", "old")
    caught_up(pair)
    pair.worker().send(signal.SIGKILL)
    before = holes(pair)
    until(lambda: holes(pair) > before + 50, 150)
    pair.worker("w2")
    caught_up(pair)
    found = pair.tanist("validate", "old", "--level", "records", "--json").item
    assert found["verdict"] == "EQUAL", found["reason"]


def holes(pair: Pair) -> int:
    """How many offsets of partition 0 have lost their record, after some more were written with one key."""
    assert pair.east.writes("old", range(40))
    offsets = [offset for partition, offset, _ in pair.east.read("old") if partition == 0]
    return max(offsets) + 1 - len(offsets)
