"""What a planned failover reserves behind near fences, where the source has no authorizer: only what may be used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tanist.domain.failover.evidence import from_json
from tanist.domain.failover.reserve import NEAR_RESERVE
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.test_real import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
MIRROR, IDLE, EXACTLY = "near", "idle", "exactly"
PARTITIONS: Final = 300
LIMIT_SECONDS: Final = 10.0
"""It takes 2 s where nothing else runs; it took 33."""


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("near")
    source = ClusterSpec(name="east", heap_mb=384)
    with running(guardian, client_config, home, brokers=3, source=source, authorizer=False) as pair:
        pair.worker()
        yield pair


def seal_of(pair: Pair, topic: str, mirror: str) -> dict[str, Any]:
    """What the step `seal` has to show for itself, and its `ms`."""
    pair.tanist("mirrors", "create", mirror, "--source", "east", "--topic", topic)
    pair.tanist("mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    plan = pair.approved(mirror)
    folder = pair.home / mirror
    pair.tanist("failover", "run", mirror, "--plan", plan, *QUICK, "--evidence", str(folder))
    evidence = from_json((folder / "evidence.json").read_text())
    (done,) = (each for each in evidence.events if (each.step, each.what) == ("seal", "done"))
    return {**json.loads(done.detail), "seconds": done.seconds}


def test_seal_took_33_s_for_290_idle_partitions(own: Pair) -> None:
    """A thousand markers for each of them, behind the point of no return, although no producer was transactional."""
    admin = AdminClient(own.east.client("admin"))
    admin.create_topics([NewTopic(IDLE, PARTITIONS)])[IDLE].result(30)
    assert own.east.writes(IDLE, range(PARTITIONS), partitions=PARTITIONS)
    found = seal_of(own, IDLE, MIRROR)
    assert found["seconds"] < LIMIT_SECONDS
    lineage = found["lineage"][IDLE]
    assert lineage["old_ends"] == lineage["reserve_ends"]


def test_consumers_of_a_compacted_topic_read_its_last_record_a_thousand_times(own: Pair) -> None:
    """Copies of it were the reserve behind a near fence; markers are, which no consumer sees."""
    own.east.topic(EXACTLY, 1, cleanup_policy="compact")
    producer = Producer(own.east.client() | {"transactional.id": "an application"})
    producer.init_transactions(30)
    for number in range(3):
        producer.begin_transaction()
        producer.produce(EXACTLY, b"%d" % number, b"key")
        producer.commit_transaction(30)
    found = seal_of(own, EXACTLY, "exactly-once")
    lineage = found["lineage"][EXACTLY]
    assert lineage["reserve_ends"] == [3 * 2 + NEAR_RESERVE], "behind three records and the marker of each"
    rows = [(offset, value) for _, offset, value in own.west.read(EXACTLY, 1)]
    copied = [(0, b"0"), (1, b"1"), (2, b"1"), (3, b"2"), (4, b"2")]  # a marker's offset has the record behind it
    assert rows == [*copied, (3 * 2 + NEAR_RESERVE + 1, b"2")], "the last record once, behind the reserve"
