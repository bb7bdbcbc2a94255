"""A mirror between two homes: its state is at the new destination, and the old one has no forwarding record yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from tanist.usecases.mirrors.create import EXPIRATION, LONGEST_EXPIRATION_MS
from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import KILLED, begin, fail_over, records, tanist
from tests.kafka.failover.conftest import COMMAND_SECONDS, Pair, running
from tests.kafka.failover.own.test_withdrawn_reversal import is_fenced
from tests.kafka.failover.test_real import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("moving")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


def killed(pair: Pair, mirror: str, point: str) -> None:
    """The mirror of a topic of its name has failed over to west; its approved reversal was killed at `point`."""
    pair.east.topic(mirror)
    assert pair.east.writes(mirror, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", mirror)
    fail_over(pair, mirror, "west")
    assert pair.west.writes(mirror, range(100, 110))
    plan = tanist(pair, "west", "mirrors", "reverse", mirror, "--dry-run", "--json").item["plan_hash"]
    tanist(pair, "west", "mirrors", "reverse", mirror, "--approve", plan, "--reason", "drill", user="approver")
    died = forks.Command(KILLED, (point, mirror, "west"), pair.environment(), pair.home).wait(COMMAND_SECONDS)
    assert died.code == -9, died.err


def expiration(side: KafkaSide) -> str:
    """What broker 1 does with producer ids that write nothing."""
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    client = AdminClient(side.client("admin"))
    [answer] = client.describe_configs([resource]).values()
    return str(answer.result(20)[EXPIRATION].value)


def planned(pair: Pair, mirror: str, mode: str) -> str:
    """An approved failover to east."""
    plan = str(tanist(pair, "east", "failover", "plan", mirror, "--mode", mode, "--json").item["plan_hash"])
    tanist(pair, "east", "failover", "approve", mirror, plan, "--mode", mode, "--reason", "drill", user="approver")
    return plan


def test_brokers_are_asked_to_remember_producer_ids_before_copying_begins(own: Pair) -> None:
    """Killed directly before the state has moved; it was asked afterwards, and a kill in between skipped it."""
    assert expiration(own.east) != str(LONGEST_EXPIRATION_MS)
    killed(own, "remembered", "settling")
    assert expiration(own.east) == str(LONGEST_EXPIRATION_MS)


@pytest.mark.parametrize("point", ["state", "left"])
def test_a_mirror_that_has_half_moved_is_locked_at_its_new_destination_too(own: Pair, point: str) -> None:
    mirror = f"half-{point}"
    killed(own, mirror, point)
    for command in ("pause", "resume"):
        assert "MIRROR_LOCKED" in tanist(own, "east", "mirrors", command, mirror, "--topic", mirror, expected=1).err
    for options in (("alter", mirror, "--on-loss", "fail"), ("delete", mirror, "--yes")):
        assert "MIRROR_LOCKED" in tanist(own, "east", "mirrors", *options, expected=1).err
    tanist(own, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    plan = planned(own, mirror, "planned")
    refused = tanist(own, "east", "failover", "run", mirror, "--plan", plan, *QUICK, expected=1)
    assert "MIRROR_LOCKED: the reversal" in refused.err
    withdrawal = ("--withdraw", "--reason", "drill")
    late = tanist(own, "east", "mirrors", "reverse", mirror, *withdrawal, expected=None)
    assert "is at 'east' already: the reversal can be completed" in late.err
    done = tanist(own, "east", "mirrors", "reverse", mirror, "--json").item
    assert (done["changed"], done["topics"]) == (True, [mirror])
    assert tanist(own, "east", "mirrors", "reverse", mirror, "--json").item["changed"] is False
    tanist(own, "east", "failover", "run", mirror, "--plan", plan, *QUICK)
    assert records(own.east, mirror) == records(own.west, mirror)


def test_an_unplanned_failover_does_not_wait_for_the_forwarding_record(own: Pair) -> None:
    """The old destination may be lost. The next reversal completes the first one, and is none that is done already."""
    mirror = "onward"
    killed(own, mirror, "state")
    tanist(own, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    tanist(own, "east", "failover", "run", mirror, "--plan", planned(own, mirror, "unplanned"), *QUICK)
    assert own.east.writes(mirror, range(200, 210))
    assert "MOVING" in tanist(own, "west", "state", "dump", "--key", f"moved/{mirror}").out
    other = tanist(own, "east", "mirrors", "reverse", mirror, "--json", expected=None)
    assert other.code != 0
    assert '"changed": true' not in other.out
    assert "MOVED" in tanist(own, "west", "state", "dump", "--key", f"moved/{mirror}").out
    assert not is_fenced(own.east, mirror)


def test_a_reversal_that_comes_too_late_does_not_fence_the_live_primary(own: Pair) -> None:
    """The mirror has failed over to east and was deleted there: its state at west still asks for the reversal."""
    mirror = "toolate"
    killed(own, mirror, "state")
    tanist(own, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    tanist(own, "east", "failover", "run", mirror, "--plan", planned(own, mirror, "unplanned"), *QUICK)
    abandoned = ("--yes", "--abandon-fence", "--reason", "drill")
    tanist(own, "east", "mirrors", "delete", mirror, *abandoned)
    assert own.east.writes(mirror, range(200, 210))
    late = tanist(own, "west", "mirrors", "reverse", mirror, expected=1)
    assert "REVERSAL_OUTDATED: 'east' has taken over again since plan" in late.err
    assert f"{mirror} (promotion 2, planned at 1)" in late.err
    assert not is_fenced(own.east, mirror)
    ended = tanist(own, "west", "mirrors", "reverse", mirror, "--withdraw", "--reason", "drill")
    assert "nothing was changed at 'east'" in ended.err
    assert not is_fenced(own.east, mirror)
    own.clock.wait(7)
    assert not is_fenced(own.east, mirror), "no fetcher may set it, either"
    tanist(own, "west", "mirrors", "delete", mirror, *abandoned)
