"""Records that disappear while a tail is surveyed, rescued and decided: from the old source, or from quarantine."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import begin, delete, tanist
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.own.returning import configs, killed, messages
from tests.kafka.failover.own.test_expired_tails import expire, finding, surveyed
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
TOPICS: Final = ("early", "late", "kept", "made")
MIRROR: Final = "dr"
TAIL: Final = range(100, 110)
QUARANTINE: Final = "__mirror_quarantine.kept"
DROP: Final = [word for name in ("safe", "conflict", "expired") for word in ("--drop", name)]


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("vanishing")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        yield pair


def returns_with_tails(pair: Pair) -> None:
    """Partition 0 of each topic has one copied record, and ten of 600 bytes that nobody has copied: offsets 1 to 10."""
    for topic in TOPICS:
        pair.east.topic(topic)
        write(pair, topic, range(1))
    tanist(pair, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", "|".join(TOPICS))
    tanist(pair, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    pair.workers["west"].send(signal.SIGKILL)
    for topic in TOPICS:
        write(pair, topic, TAIL)
    pair.east.cluster.kill()
    plan = pair.approved(MIRROR, mode="unplanned")
    tanist(pair, "west", "failover", "run", MIRROR, "--plan", plan, *QUICK, expected=None)
    pair.east.cluster.start()
    delete(pair.east, "made")
    pair.east.topic("made")
    begin(pair, "west")
    until(lambda: all(row["final"] for row in surveyed(pair).values() if row["topic"] != "made"), 60)


def write(pair: Pair, topic: str, numbers: range) -> None:
    producer = Producer(pair.east.client())
    for n in numbers:
        producer.produce(topic, b"%d-" % n + bytes(600), partition=0)
    assert producer.flush(20) == 0


def rescued(pair: Pair, topics: str, *, expected: int) -> dict[tuple[str, int], dict[str, Any]]:
    asked = ("failback", "rescue", MIRROR, "--topic", topics, "--json")
    rows = json.loads(tanist(pair, "west", *asked, expected=expected).out)["items"]
    return {(row["topic"], row["partition"]): row for row in rows}


def in_quarantine(pair: Pair, topic: str) -> list[int]:
    client = pair.west.client(group_id="q", enable_partition_eof="true", auto_offset_reset="earliest")
    found = messages(client, f"__mirror_quarantine.{topic}", 0)
    return [int(each.value().split(b"-")[0]) for each in found]


def decided(pair: Pair, *, expected: int = 0) -> Any:
    options = ("--topic", "kept", "--replay", "unordered", *DROP, "--json")
    return tanist(pair, "west", "failback", "decide", MIRROR, *options, expected=expected)


def test_records_that_vanish_between_survey_and_rescue_are_counted_and_those_that_were_rescued_are_not(
    own: Pair,
) -> None:
    returns_with_tails(own)
    rows = surveyed(own)
    assert {topic: rows[topic, 0]["records"] for topic in TOPICS[:3]} == dict.fromkeys(TOPICS[:3], 10)
    assert configs(own, "early")["retention.ms"] == "-1"
    assert configs(own, "made")["retention.ms"] != "-1", "a topic that was re-created is not the mirror's"

    expire(own.east, "early", 7)
    assert surveyed(own)["early", 0]["expired"] == 6
    assert killed(own, "appended", 8, MIRROR) == -9, "two appends of early, four of kept, two of four of late"
    some = in_quarantine(own, "late")
    assert 0 < len(some) < 10
    expire(own.east, "late", 3)
    done = rescued(own, "early|late", expected=1)
    assert (done["late", 0]["rescued"], done["late", 0]["expired"]) == (10, 0)
    assert in_quarantine(own, "late") == list(TAIL)
    assert (done["early", 0]["rescued"], done["early", 0]["expired"]) == (4, 6)
    assert in_quarantine(own, "early") == list(TAIL)[6:]
    assert "TAIL_EXPIRED" in finding(own, "west")["reason"]
    again = rescued(own, "early", expected=1)
    assert (again["early", 0]["records"], again["early", 0]["expired"]) == (4, 6)

    first = decided(own).item["plan_hash"]
    for partly in (False, True):
        expire(own.west, QUARANTINE, 4) if partly else delete(own.west, QUARANTINE)
        assert "QUARANTINE_CHANGED" in decided(own, expected=1).err
        rescued(own, "kept", expected=0)
        assert in_quarantine(own, "kept")[-10:] == list(TAIL)
        assert decided(own).item["plan_hash"] == first
