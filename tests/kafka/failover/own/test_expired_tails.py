"""Retention that passed the end of the copies before the old source returned: named, and never silently no tail."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import begin, records, reverse, tanist
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide

pytestmark = pytest.mark.long
TOPICS: Final = ("lost", "part", "ours", "over")
MIRROR: Final = "dr"


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("expired")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        yield pair


def expire(side: KafkaSide, topic: str, offset: int) -> None:
    """As retention does: partition 0 begins at `offset` from now on."""
    client = AdminClient(side.client("admin"))

    def is_cut() -> bool:
        (future,) = client.delete_records([At(topic, 0, offset)]).values()
        try:
            return bool(future.result(20).low_watermark == offset)
        except KafkaException as why:  # a broker that was started a moment ago leads nothing yet
            if why.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return False

    until(is_cut, 30)


def surveyed(pair: Pair) -> dict[tuple[str, int], dict[str, Any]]:
    rows = json.loads(tanist(pair, "west", "failback", "survey", "--no-rescue", MIRROR, "--json", expected=None).out)[
        "items"
    ]
    return {(row["topic"], row["partition"]): row for row in rows}


def finding(pair: Pair, at: str) -> dict[str, Any]:
    checks = tanist(pair, at, "status", MIRROR, "--json", expected=None).item["checks"]
    (found,) = [each for each in checks if each["check"] == "tail_findings"]
    return dict(found)


def dies_with_tails(pair: Pair) -> None:
    """Partition 0 of each topic has five copied records; `lost` and `part` four more, `over` four in use elsewhere."""
    for topic in TOPICS:
        pair.east.topic(topic)
        assert pair.east.writes(topic, range(10))
    tanist(pair, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", "|".join(TOPICS))
    tanist(pair, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    pair.workers["west"].send(signal.SIGKILL)
    for topic in ("lost", "part", "over"):
        assert pair.east.writes(topic, range(100, 108))
    pair.east.cluster.kill()
    options = ("--mode", "unplanned", "--reserve", "none")
    plan = tanist(pair, "west", "failover", "plan", MIRROR, *options, "--json", expected=None).item["plan_hash"]
    tanist(pair, "west", "failover", "approve", MIRROR, plan, *options, "--reason", "drill", user="approver")
    tanist(pair, "west", "failover", "run", MIRROR, "--plan", plan, *QUICK, expected=None)


def test_retention_that_passed_the_end_of_the_copies_is_named_on_either_side(own: Pair) -> None:
    dies_with_tails(own)
    for topic in TOPICS:
        assert own.west.writes(topic, range(200, 220))
    expire(own.west, "ours", 12)
    own.east.cluster.start()
    expire(own.east, "lost", 9)
    expire(own.east, "part", 7)
    begin(own, "west")
    until(lambda: all(row["final"] for row in surveyed(own).values()), 60)

    rows = surveyed(own)
    assert {at: row["expired"] for at, row in rows.items() if row["expired"]} == {("lost", 0): 4, ("part", 0): 2}
    assert (rows["part", 0]["records"], rows["lost", 0]["records"]) == (2, 0)
    assert "had deleted 4 offset(s)" in str(rows["lost", 0]["warnings"])
    assert rows["ours", 0]["primary_start"] == 12
    assert "no copied record is left to compare" in str(rows["ours", 0]["warnings"])
    assert rows["ours", 1]["warnings"] == []

    red = finding(own, "west")
    assert red["verdict"] == "FAIL"
    assert "OVERLAP" in red["reason"]
    assert "TAIL_EXPIRED" in red["reason"]
    accept = ("failback", "accept", MIRROR, "--reason", "drill")
    tanist(own, "west", *accept, "--finding", "OVERLAP", "--topic", "over", "--dry-run")
    assert finding(own, "west") == red
    tanist(own, "west", *accept, "--finding", "OVERLAP")
    assert finding(own, "west")["verdict"] == "FAIL"
    again = tanist(own, "west", *accept, "--finding", "OVERLAP", expected=1)
    assert "NOTHING_TO_ACCEPT" in again.err
    taken = json.loads(tanist(own, "west", *accept, "--finding", "TAIL_EXPIRED", "--json").out)["items"]
    assert {row["topic"]: row["offsets"] for row in taken if row["finding"] == "TAIL_EXPIRED"} == {"lost": 4, "part": 2}
    assert finding(own, "west")["verdict"] == "PASS"

    options = ("--exclude", "lost|part|over", "--accept", "TAIL_UNDECIDED")
    reverse(own, MIRROR, "west", *options)
    left_undecided(own, *accept)
    begin(own, "east")
    until(lambda: "UNCOPIED_RECORDS_DELETED" in described(own), 60, lambda: described(own))
    tanist(own, "east", "mirrors", "alter", MIRROR, "--on-loss", "continue")
    wait = ("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "20s")
    until(lambda: tanist(own, "east", *wait, expected=None).code == 0, 60, lambda: described(own))
    copied = [row for row in records(own.east, "ours") if row[0] == 1 or row[1] >= 12]
    assert copied == records(own.west, "ours")


def left_undecided(pair: Pair, *accept: str) -> None:
    """Tails of topics that stay behind are counted at the mirror's new destination, until they are accepted."""
    assert "TAIL_UNDECIDED" in finding(pair, "east")["reason"]
    tanist(pair, "east", *accept, "--finding", "TAIL_UNDECIDED")
    assert finding(pair, "east")["verdict"] == "PASS"


def described(pair: Pair) -> str:
    return tanist(pair, "east", "mirrors", "describe", MIRROR, expected=None).out
