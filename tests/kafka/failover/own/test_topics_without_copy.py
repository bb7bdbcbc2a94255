"""A topic that only the old source has: it is named before the mirror is reversed, and can be taken along."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import begin, records, reverse, tanist
from tests.kafka.failover.conftest import running
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Pair

pytestmark = pytest.mark.long
MIRROR = "solo"


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("without-copy")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


def fail_over(pair: Pair, mode: str, *topic: str) -> None:
    how = ("--mode", mode, *topic)
    plan = tanist(pair, "west", "failover", "plan", MIRROR, *how, "--json").item["plan_hash"]
    tanist(pair, "west", "failover", "approve", MIRROR, plan, *how, "--reason", "drill", user="approver")
    tanist(pair, "west", "failover", "run", MIRROR, "--plan", plan, *QUICK, expected=None)


def test_a_topic_that_only_the_old_source_has_is_named_and_taken_along(own: Pair) -> None:
    """It was created after the last sync, the source died, and its records were in no plan, survey or status."""
    own.east.topic("solo.a")
    assert own.east.writes("solo.a", range(10))
    tanist(own, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", "solo[.].*")
    tanist(own, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    for topic in ("solo.east", "other"):
        own.east.topic(topic)
        assert own.east.writes(topic, range(10))
    for worker in ("west", "east"):
        own.workers[worker].send(signal.SIGKILL)
    own.east.cluster.kill()
    fail_over(own, "unplanned")
    own.east.cluster.start()
    begin(own, "west")
    begin(own, "east")
    dry = ("failback", "survey", MIRROR, "--dry-run")
    until(lambda: tanist(own, "west", *dry, expected=None).code != 3, 60)
    said = tanist(own, "west", "failback", "survey", "--no-rescue", MIRROR).err
    assert "warning: topics of the old source match the mirror's filters and were never copied" in said
    assert "solo.east" in said
    assert "other" not in said
    plan = tanist(own, "west", "mirrors", "reverse", MIRROR, "--dry-run", "--json").item
    (named,) = [each for each in plan["limitations"] if each["name"] == "TOPICS_WITHOUT_COPY"]
    assert "solo.east" in named["detail"]

    tanist(own, "west", "mirrors", "add", MIRROR, "--topic", "solo[.]east")
    here = ("--topic", "solo[.]east")
    tanist(own, "west", "mirrors", "wait", MIRROR, *here, "--for", "lag=0", "--timeout", "200s")
    fail_over(own, "planned", *here)
    plan = reverse(own, MIRROR, "west")
    assert "TOPICS_WITHOUT_COPY" not in {each["name"] for each in plan["limitations"]}
    tanist(own, "east", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    for topic in ("solo.a", "solo.east"):
        assert own.west.writes(topic, range(10, 20))
    tanist(own, "east", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    for topic in ("solo.a", "solo.east"):
        found = records(own.east, topic)
        assert found == records(own.west, topic)
        assert sorted(int(value or 0) for _, _, value in found) == list(range(20))
