"""Topics that a reversal leaves behind at the old source stay fenced there, and the mirror still knows of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import begin, delete, fail_over, reverse, tanist
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.own.test_withdrawn_reversal import is_fenced
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("behind")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


def failed_over(pair: Pair, mirror: str) -> tuple[str, str]:
    """A mirror of two topics, one of which is to stay behind; both are fenced at east."""
    topics = (f"{mirror}.returns", f"{mirror}.stays")
    for topic in topics:
        pair.east.topic(topic)
        assert pair.east.writes(topic, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", f"{mirror}[.].*")
    fail_over(pair, mirror, "west")
    assert is_fenced(pair.east, topics[1])
    return topics


def fence_of(pair: Pair, at: str, mirror: str, topic: str) -> dict[str, Any]:
    rows = json.loads(tanist(pair, at, "fence", "show", mirror, "--json").out)["items"]
    (row,) = [each for each in rows if each["topic"] == topic]
    return dict(row)


def checked(pair: Pair, at: str, mirror: str) -> dict[str, Any]:
    """The check of source fences."""
    status = tanist(pair, at, "status", mirror, "--json", expected=None).item
    (found,) = [each for each in status["checks"] if each["name"] == "fences"]
    return dict(found)


def limit(side: KafkaSide, topic: str, value: str | None = None) -> str:
    """What max.message.bytes of a topic is; changed before, if `value` is given."""
    resource, client = ConfigResource(ConfigResource.Type.TOPIC, topic), AdminClient(side.client("admin"))
    if value is not None:
        entry = ConfigEntry("max.message.bytes", value, incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        [done] = client.incremental_alter_configs([change]).values()
        done.result(20)
    [configs] = client.describe_configs([resource]).values()
    return str(configs.result(20)["max.message.bytes"].value)


def test_a_topic_that_stays_behind_stays_fenced_and_can_be_lifted_exactly(own: Pair) -> None:
    mirror = "kept"
    _, stays = failed_over(own, mirror)
    plan = reverse(own, mirror, "west", "--exclude", stays)
    (named,) = [each["detail"] for each in plan["limitations"] if each["name"] == "TOPICS_STAY_BEHIND"]
    assert "it stays fenced at the old source" in named
    row = fence_of(own, "east", mirror, stays)
    assert (row["stands"], row["cluster"], row["before"]) == (True, "east", "max.message.bytes not set")
    assert "stayed behind at 'east'" in row["reason"]
    assert (checked(own, "east", mirror)["verdict"], is_fenced(own.east, stays)) == ("PASS", True)
    limit(own.east, stays, "1000000")
    until(lambda: limit(own.east, stays) == "78", 30)  # two writable primaries otherwise

    tanist(own, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    fail_over(own, mirror, "east")
    refused = tanist(own, "east", "mirrors", "delete", mirror, "--yes", expected=1)
    assert "FENCE_STANDS" in refused.err
    reverse(own, mirror, "east")
    row = fence_of(own, "west", mirror, stays)
    assert (row["stands"], row["cluster"]) == (True, "east")
    needed = tanist(own, "west", "fence", "lift", mirror, expected=1)
    assert "FENCE_STILL_NEEDED" in needed.err
    tanist(own, "west", "fence", "lift", mirror, "--promoted")
    assert not is_fenced(own.east, stays)
    assert limit(own.east, stays) == "1048588"
    check = checked(own, "west", mirror)
    assert (check["verdict"], f"`tanist fence set {mirror} --destination west" in check["reason"]) == ("FAIL", True)
    own.clock.wait(7)
    assert not is_fenced(own.east, stays), "no fetcher sets it again"
    tanist(own, "west", "fence", "set", mirror, "--topic", ".*")
    assert (is_fenced(own.east, stays), checked(own, "west", mirror)["verdict"]) == (True, "PASS")


def test_a_topic_that_the_old_source_lacked_is_fenced_when_its_application_creates_it_there(own: Pair) -> None:
    """Its source fence was forgotten when it was left behind: both clusters took records then."""
    mirror = "lacks"
    _, stays = failed_over(own, mirror)
    delete(own.east, stays)
    reverse(own, mirror, "west", "--exclude", stays)
    own.east.topic(stays)
    until(lambda: is_fenced(own.east, stays), 30)
    assert own.west.writes(stays, range(10, 12))
    assert checked(own, "east", mirror)["verdict"] == "PASS"


def test_a_topic_that_took_over_again_after_it_was_left_behind_is_not_fenced_there(own: Pair) -> None:
    """The stale record was carried on by the next reversal, and a fetcher fenced the live primary."""
    mirror = "again"
    _, stays = failed_over(own, mirror)
    reverse(own, mirror, "west", "--exclude", stays)
    tanist(own, "east", "mirrors", "add", mirror, "--topic", stays, "--adopt")
    tanist(own, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    fail_over(own, mirror, "east")
    reverse(own, mirror, "east", "--exclude", stays)
    own.clock.wait(12)
    assert not is_fenced(own.east, stays), "east is its primary"
    assert is_fenced(own.west, stays)
    rows = json.loads(tanist(own, "west", "fence", "show", mirror, "--json").out)["items"]
    assert [each["cluster"] for each in rows if each["topic"] == stays] == ["west"]
    assert checked(own, "west", mirror)["verdict"] == "PASS"
