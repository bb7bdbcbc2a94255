"""A mirror that has failed over is reversed: the old source gets what was written since, at identical offsets."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import COMMAND_SECONDS, Answer, Pair, running
from tests.kafka.failover.test_real import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
MIRROR: Final = "dr"


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("reverse")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


def begin(pair: Pair, destination: str) -> None:
    """A fetcher of a destination."""
    where = ("--config", pair.environment()["TANIST_CONFIG"], "--destination", destination, "--id", f"at-{destination}")
    argv = [sys.executable, "-m", "tanist.cli.main", "fetcher", "run", *where]
    pair.workers[destination] = pair.guardian.spawn(argv, pair.home / f"{destination}.log")


def tanist(pair: Pair, at: str, *arguments: str, user: str = "mirror", expected: int | None = 0) -> Answer:
    """The command line, with the destination `at`."""
    done = forks.Command(forks.COMMANDS, (*arguments, "--destination", at), pair.environment(user), pair.home).wait(
        COMMAND_SECONDS
    )
    assert expected is None or done.code == expected, done.out + done.err
    return Answer(done.code, done.out, done.err)


def fail_over(pair: Pair, mirror: str, to: str, mode: str = "planned") -> None:
    tanist(pair, to, "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "60s")
    plan = tanist(pair, to, "failover", "plan", mirror, "--mode", mode, "--json").item["plan_hash"]
    tanist(pair, to, "failover", "approve", mirror, plan, "--mode", mode, "--reason", "drill", user="approver")
    done = tanist(pair, to, "failover", "run", mirror, "--plan", plan, *QUICK).item
    assert done["status"] == "DONE"


def reverse(pair: Pair, mirror: str, at: str, *options: str) -> dict[str, Any]:
    """Plan, approve and run; `at`: the present destination."""
    plan = tanist(pair, at, "mirrors", "reverse", mirror, *options, "--dry-run", "--json").item
    approval = ("--approve", plan["plan_hash"], "--reason", "drill")
    tanist(pair, at, "mirrors", "reverse", mirror, *options, *approval, user="approver")
    done = tanist(pair, at, "mirrors", "reverse", mirror, *options, "--json").item
    assert done["changed"] is True
    return plan


def records(side: KafkaSide, topic: str) -> list[tuple[int, int, bytes | None]]:
    return side.read(topic, isolation="read_committed")


def test_planned_failover_reverse_and_back(own: Pair) -> None:
    own.east.topic("orders")
    assert own.east.writes("orders", range(10))
    tanist(own, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", "orders")
    early = tanist(own, "west", "mirrors", "reverse", MIRROR, "--dry-run", expected=1)
    assert "NOTHING_FAILED_OVER" in early.err
    fail_over(own, MIRROR, "west")
    assert own.west.writes("orders", range(100, 110))
    unapproved = tanist(own, "west", "mirrors", "reverse", MIRROR, expected=1)
    assert "NOT_APPROVED" in unapproved.err
    plan = reverse(own, MIRROR, "west")
    assert [each["name"] for each in plan["limitations"]] == ["MIRROR_TOPIC_WRITABLE"]
    again = tanist(own, "west", "mirrors", "reverse", MIRROR, "--json")
    assert again.item["changed"] is False
    tanist(own, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "60s")
    assert records(own.east, "orders") == records(own.west, "orders")
    assert own.west.writes("orders", range(110, 120))
    fail_over(own, MIRROR, "east")
    assert records(own.east, "orders") == records(own.west, "orders")
    assert own.east.writes("orders", range(200, 210))
    reverse(own, MIRROR, "east")
    tanist(own, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "60s")
    found = records(own.west, "orders")
    assert records(own.east, "orders") == found
    assert sorted(int(value or 0) for _, _, value in found) == [*range(10), *range(100, 120), *range(200, 210)]


def test_ten_switchovers_keep_every_record_at_its_offset(own: Pair) -> None:
    """To and fro, with plain and compacted topics: nothing is lost, nothing repeated, all offsets are the same."""
    mirror, sides = "ten", {"east": own.east, "west": own.west}
    own.east.topic("plain")
    own.east.topic("keyed", cleanup_policy="compact")
    tanist(own, "west", "mirrors", "create", mirror, "--source", "east", "--topic", "plain|keyed")
    here, there, sent = "east", "west", 0
    for _ in range(10):
        for topic in ("plain", "keyed"):
            assert sides[here].writes(topic, range(sent, sent + 10))
        sent += 10
        fail_over(own, mirror, there)
        reverse(own, mirror, there)
        here, there = there, here
    tanist(own, there, "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "60s")
    for topic in ("plain", "keyed"):
        found = records(own.east, topic)
        assert records(own.west, topic) == found
        if topic == "plain":
            assert sorted(int(value or 0) for _, _, value in found) == list(range(sent))
    described = tanist(own, there, "mirrors", "lineage", mirror, "--topic", "plain", "--json")
    assert {"east", "west"} >= {row["cluster"] for row in json.loads(described.out)["items"]}
