"""A reversal is refused by name, and changes nothing, where a log or a topic is not what the mirror left."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import begin, delete, fail_over, records, reverse, tanist
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
TOPICS = ("good", "gone", "made", "more", "west")


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("refused")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


def test_topics_that_are_not_what_they_were_are_named_and_may_stay_behind(own: Pair) -> None:
    for topic in TOPICS:
        own.east.topic(topic)
        assert own.east.writes(topic, range(10))
    tanist(own, "west", "mirrors", "create", "dr", "--source", "east", "--topic", "|".join(TOPICS))
    still = tanist(own, "west", "mirrors", "wait", "dr", "--for", "lag=0", "--timeout", "200s")
    assert still.code == 0
    plan = tanist(own, "west", "failover", "plan", "dr", "--topic", "good", "--json").item["plan_hash"]
    tanist(own, "west", "failover", "approve", "dr", plan, "--topic", "good", "--reason", "x", user="approver")
    tanist(own, "west", "failover", "run", "dr", "--plan", plan, *QUICK)
    partly = tanist(own, "west", "mirrors", "reverse", "dr", "--dry-run", expected=1)
    assert "MIRROR_STILL_COPIES" in partly.err
    fail_over(own, "dr", "west")
    for topic in ("gone", "made"):
        delete(own.east, topic)
    own.east.topic("made")
    client = AdminClient(own.west.client("admin"))
    client.create_partitions([NewPartitions("more", 3)])["more"].result(20)
    delete(own.west, "west")
    own.west.topic("west")
    refused = tanist(own, "west", "mirrors", "reverse", "dr", "--dry-run", expected=None)
    assert refused.code in {1, 3}
    assert "'good'" not in refused.err
    for topic in ("gone", "made", "more", "west"):
        assert topic in refused.err
    assert "TOPIC_CANNOT_RETURN" in refused.err
    behind = ("--exclude", "gone|made|more|west")
    shown = reverse(own, "dr", "west", *behind)
    assert "TOPICS_STAY_BEHIND" in {each["name"] for each in shown["limitations"]}
    assert [each["topic"] for each in shown["topics"]] == ["good"]
    assert own.west.writes("good", range(100, 110))
    tanist(own, "east", "mirrors", "wait", "dr", "--for", "lag=0", "--timeout", "200s")
    assert records(own.east, "good") == records(own.west, "good")
    added = tanist(own, "east", "mirrors", "add", "dr", "--topic", "gone", "--promoted", expected=None)
    assert added.code == 0, added.err
    tanist(own, "east", "mirrors", "wait", "dr", "--for", "lag=0", "--timeout", "200s")
    assert records(own.east, "gone") == records(own.west, "gone")


def test_a_source_that_took_more_than_was_reserved_is_refused(own: Pair) -> None:
    own.east.topic("over")
    assert own.east.writes("over", range(10))
    tanist(own, "west", "mirrors", "create", "over", "--source", "east", "--topic", "over")
    tanist(own, "west", "mirrors", "wait", "over", "--for", "lag=0", "--timeout", "200s")
    own.workers["west"].send(signal.SIGKILL)
    assert own.east.writes("over", range(100, 108))
    own.workers["east"].send(signal.SIGKILL)
    own.east.cluster.kill()
    options = ("--mode", "unplanned", "--reserve", "none")
    plan = tanist(own, "west", "failover", "plan", "over", *options, "--json", expected=None).item["plan_hash"]
    tanist(own, "west", "failover", "approve", "over", plan, *options, "--reason", "drill", user="approver")
    tanist(own, "west", "failover", "run", "over", "--plan", plan, *QUICK, expected=None)
    assert own.west.writes("over", range(200, 210))
    own.east.cluster.start()
    begin(own, "west")
    until(lambda: tanist(own, "west", "failback", "survey", "--no-rescue", "over", expected=None).code == 1, 60)
    refused = tanist(own, "west", "mirrors", "reverse", "over", "--dry-run", expected=1)
    assert "OFFSETS_OVERLAP" in refused.err
    before = records(own.east, "over")
    tanist(own, "west", "mirrors", "reverse", "over", expected=1)
    assert records(own.east, "over") == before
