"""A mirror that has failed over is reversed: the old source gets what was written since, at identical offsets."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import KILLED, begin, fail_over, records, reverse, tanist
from tests.kafka.failover.conftest import COMMAND_SECONDS, Pair, running
from tests.kafka.failover.killed_reversal import POINTS
from tests.kafka.failover.test_real import QUICK
from tests.kafka.failover.test_reserve import steadily
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide

pytestmark = pytest.mark.long
MIRROR: Final = "dr"


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("reverse")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


def latest(side: KafkaSide, topic: str) -> dict[int, tuple[int, bytes | None]]:
    """Of each partition the last record; in a compacted topic copies of a record may stand below it."""
    return {partition: (offset, value) for partition, offset, value in records(side, topic)}


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
    tanist(own, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    assert records(own.east, "orders") == records(own.west, "orders")
    assert own.west.writes("orders", range(110, 120))
    own.west.commit("billing", "orders", 7)
    until(lambda: "billing" in tanist(own, "east", "state", "dump", "--key", "group/dr").out, 40)
    fail_over(own, MIRROR, "east")
    assert own.east.committed("billing", "orders") == 7
    assert records(own.east, "orders") == records(own.west, "orders")
    assert own.east.writes("orders", range(200, 210))
    reverse(own, MIRROR, "east")
    tanist(own, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    found = records(own.west, "orders")
    assert records(own.east, "orders") == found
    assert sorted(int(value or 0) for _, _, value in found) == [*range(10), *range(100, 120), *range(200, 210)]


def test_a_reversal_killed_at_any_point_is_completed_by_the_next_command(own: Pair) -> None:
    """From either cluster, without another approval, and without a record too few or too many."""
    mirror, sides = "killed", {"east": own.east, "west": own.west}
    own.east.topic("killed")
    tanist(own, "west", "mirrors", "create", mirror, "--source", "east", "--topic", "killed")
    here, there, sent = "east", "west", 0
    for number, point in enumerate(POINTS):
        assert sides[here].writes("killed", range(sent, sent + 4))
        sent += 4
        fail_over(own, mirror, there)
        plan = tanist(own, there, "mirrors", "reverse", mirror, "--dry-run", "--json").item
        approval = ("--approve", plan["plan_hash"], "--reason", "drill")
        tanist(own, there, "mirrors", "reverse", mirror, *approval, user="approver")
        died = forks.Command(KILLED, (point, mirror, there), own.environment(), own.home).wait(COMMAND_SECONDS)
        assert died.code == -9, died.err
        locked = tanist(own, there, "mirrors", "alter", mirror, "--on-loss", "fail", expected=1)
        assert "MIRROR_LOCKED" in locked.err
        moved = POINTS.index(point) >= POINTS.index("state")
        if moved:  # the state is at its new destination, which has no forwarding record to follow
            arriving = tanist(own, here, "mirrors", "alter", mirror, "--on-loss", "fail", expected=1)
            assert "MIRROR_LOCKED" in arriving.err
        finished_at = here if moved and number % 2 else there
        tanist(own, finished_at, "mirrors", "reverse", mirror)
        here, there = there, here
    tanist(own, there, "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    found = records(own.east, "killed")
    assert records(own.west, "killed") == found
    assert sorted(int(value or 0) for _, _, value in found) == list(range(sent))


def test_records_that_nobody_copied_stay_at_their_offsets_in_the_old_source(own: Pair) -> None:
    """An unplanned failover: the old source returns with a tail, whose offsets no record of the new primary has."""
    mirror = "tail"
    own.east.topic("tail")
    assert own.east.writes("tail", range(10))
    tanist(own, "west", "mirrors", "create", mirror, "--source", "east", "--topic", "tail")
    tanist(own, "west", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    steadily(own.east, "tail", 4, 1000)
    own.workers["west"].send(signal.SIGKILL)
    assert own.east.writes("tail", range(100, 108))
    own.workers["east"].send(signal.SIGKILL)
    own.east.cluster.kill()
    plan = tanist(own, "west", "failover", "plan", mirror, "--mode", "unplanned", "--json").item["plan_hash"]
    approval = ("--mode", "unplanned", "--reason", "drill")
    tanist(own, "west", "failover", "approve", mirror, plan, *approval, user="approver")
    tanist(own, "west", "failover", "run", mirror, "--plan", plan, *QUICK, expected=None)
    assert own.west.writes("tail", range(200, 210))
    own.east.cluster.start()
    begin(own, "west")
    begin(own, "east")
    dry = ("failback", "survey", mirror, "--dry-run")  # the reversal records what it finds
    until(lambda: tanist(own, "west", *dry, expected=None).code != 3, 60)
    undecided = tanist(own, "west", "mirrors", "reverse", mirror, "--dry-run", expected=1)
    assert "TAIL_UNDECIDED" in undecided.err
    shown = reverse(own, mirror, "west", "--accept", "TAIL_UNDECIDED")
    assert {"TAIL_STAYS_READABLE", "TAIL_UNDECIDED"} <= {each["name"] for each in shown["limitations"]}
    tanist(own, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    east, west = records(own.east, "tail"), records(own.west, "tail")
    tail = [row for row in east if 100 <= int(row[2] or 0) < 108]
    assert len(tail) == 8
    tail = [row for row in east if row not in west]
    assert [row for row in east if row not in tail] == west
    assert not {row[:2] for row in tail} & {row[:2] for row in west}
    must_be_equal(own, mirror)
    must_be_accepted(own, mirror)
    fail_over(own, mirror, "east")
    assert own.east.writes("tail", range(300, 310))
    must_be_equal(own, mirror)
    reverse(own, mirror, "east")
    tanist(own, "west", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    assert [row for row in records(own.east, "tail") if row not in tail] == records(own.west, "tail")


def must_be_accepted(pair: Pair, mirror: str) -> None:
    """Nobody has decided about the tail: that is counted, and stops a failback, until somebody accepts it by name."""
    status = tanist(pair, "east", "status", mirror, "--json", expected=None)
    (tails,) = [each for each in status.item["checks"] if each["name"] == "tails"]
    assert (tails["verdict"], "1 undecided since a reversal" in tails["observed"]) == ("FAIL", True), tails
    late = tanist(pair, "east", "failback", "rescue", mirror, expected=1)
    assert "MIRROR_REVERSED" in late.err
    plan = tanist(pair, "east", "failover", "plan", mirror, "--json", expected=None).item
    assert "TAIL_UNDECIDED" in {each["name"] for each in plan["limitations"] if each["blocks"]}
    why = ("--reason", "drill")
    refused = tanist(pair, "east", "failover", "approve", mirror, plan["plan_hash"], *why, user="approver", expected=1)
    assert "PLAN_BLOCKED: TAIL_UNDECIDED" in refused.err
    assert f"tanist failback accept {mirror} --destination east --finding TAIL_UNDECIDED" in refused.err
    disaster = tanist(pair, "east", "failover", "plan", mirror, "--mode", "unplanned", "--json", expected=None).item
    (named,) = [each for each in disaster["limitations"] if each["name"] == "TAIL_UNDECIDED"]
    assert not named["blocks"]
    tanist(pair, "east", "failback", "accept", mirror, "--finding", "TAIL_UNDECIDED", *why)
    status = tanist(pair, "east", "status", mirror, "--json", expected=None)
    checks = {each["name"]: each["verdict"] for each in status.item["checks"]}
    assert (checks["tails"], checks["tail_findings"]) == ("PASS", "PASS")


def test_a_planned_failover_whose_last_step_is_the_reversal_needs_one_approval(own: Pair) -> None:
    """Killed in the reversal and run again it finishes, at either cluster; run once more it changes nothing.

    One topic is idle: in its logs only markers of the failovers are added, which count as no overlap.
    """
    mirror, sides = "onestep", {"east": own.east, "west": own.west}
    own.east.topic("onestep")
    own.east.topic("onestep-idle")
    assert own.east.writes("onestep-idle", range(0, 10, 2))  # partition 1 stays empty
    tanist(own, "west", "mirrors", "create", mirror, "--source", "east", "--topic", "onestep.*")
    here, there, sent = "east", "west", 0
    for point in (None, "moving", "settling", "state"):
        assert sides[here].writes("onestep", range(sent, sent + 4))
        sent += 4
        tanist(own, there, "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
        plan = tanist(own, there, "failover", "plan", mirror, "--reverse", "--json").item
        assert plan["steps"][-1]["id"] == "reverse"
        assert "MIRROR_TOPIC_WRITABLE" in {each["name"] for each in plan["limitations"]}
        found = plan["plan_hash"]
        assert found != tanist(own, there, "failover", "plan", mirror, "--json").item["plan_hash"]
        tanist(own, there, "failover", "approve", mirror, found, "--reverse", "--reason", "drill", user="approver")
        run = ("failover", "run", mirror, "--plan", found, *QUICK)
        if point is not None:
            assert tanist(own, there, *run, "--until", "movers").item["reversal"] is None
            must_be_pending(
                own, mirror, there, "PENDING", f"failover run {mirror} --destination {there} --plan {found}"
            )
            asked = (point, mirror, there, "SIGKILL", f"plan={found}")
            died = forks.Command(KILLED, asked, own.environment(), own.home).wait(COMMAND_SECONDS)
            assert died.code == -9, died.err
            must_be_pending(own, mirror, there, "MOVING", f"mirrors reverse {mirror} --destination {there}")
        done = tanist(own, there, *run).item
        assert (done["status"], done["reversal"]["destination"]) == ("DONE", here)
        assert tanist(own, there, *run).item["reversal"]["changed"] is False
        assert last_event(own, found)["detail"]["destination"] == here
        here, there = there, here
    tanist(own, there, "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    found = records(own.east, "onestep")
    assert records(own.west, "onestep") == found
    assert sorted(int(value or 0) for _, _, value in found) == list(range(sent))
    assert records(own.west, "onestep-idle") == records(own.east, "onestep-idle")
    first = json.loads(tanist(own, there, "failover", "status", mirror, "--json").out)["items"]
    assert len(first) == 4
    left = tanist(own, there, "failover", "plan", mirror, "--reverse", "--mode", "unplanned", expected=None)
    assert (left.code, "--reverse is for planned failovers" in left.err) == (2, True)


def must_be_pending(pair: Pair, mirror: str, at: str, status: str, command: str) -> None:
    """The failover is done, and the reversal that was approved with it is not: everybody who asks is told."""
    shown = tanist(pair, at, "failover", "status", mirror, "--json", expected=4)
    last = json.loads(shown.out)["items"][-1]
    assert (last["status"], last["pending_reversal"]["status"]) == ("DONE", status)
    assert last["pending_reversal"]["next"] == f"tanist {command}"
    assert f"`tanist {command}`" in shown.err
    checks = {each["name"]: each for each in tanist(pair, at, "status", mirror, "--json", expected=None).item["checks"]}
    assert checks["reversal"]["verdict"] == "FAIL"
    assert f"`tanist {command}`" in checks["reversal"]["reason"]
    assert last_event(pair, last["plan_hash"])["detail"]["reversal"] == "pending"


def last_event(pair: Pair, plan: str) -> dict[str, Any]:
    """Of the evidence of a failover."""
    book = json.loads((pair.home / "evidence" / plan / "evidence.json").read_text())
    return dict(book["events"][-1])


def must_be_equal(pair: Pair, mirror: str) -> None:
    """The tail lies in the destination, which only it can have; what lies below it had other writers."""
    for level in ("batches", "records"):
        for row in tanist(pair, "east", "validate", mirror, "--level", level, "--json").item["partitions"]:
            assert row["verdict"] == "EQUAL"
            assert "are not compared: promotion 1 reserved these offsets for 'east'" in row["reason"]


@pytest.mark.parametrize("point", ["moving", "configured", "settling", "state"])
def test_a_reversal_that_wakes_up_after_the_next_one_changes_nothing(own: Pair, point: str) -> None:
    """It was frozen; another command has completed the reversal, and the mirror has failed back."""
    mirror = f"frozen-{point}"
    own.east.topic(mirror)
    assert own.east.writes(mirror, range(10))
    tanist(own, "west", "mirrors", "create", mirror, "--source", "east", "--topic", mirror)
    fail_over(own, mirror, "west")
    plan = tanist(own, "west", "mirrors", "reverse", mirror, "--dry-run", "--json").item["plan_hash"]
    tanist(own, "west", "mirrors", "reverse", mirror, "--approve", plan, "--reason", "drill", user="approver")
    frozen = forks.Command(KILLED, (point, mirror, "west", "SIGSTOP"), own.environment(), own.home)
    dump = ("state", "dump", "--key", f"moved/{mirror}")
    until(lambda: "MOVING" in tanist(own, "west", *dump).out, 60)
    tanist(own, "west", "mirrors", "reverse", mirror)
    tanist(own, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    fail_over(own, mirror, "east")
    assert own.east.writes(mirror, range(10, 20))
    before = [rules_and_state(own, side, mirror) for side in ("east", "west")]
    frozen.send(signal.SIGCONT)
    assert frozen.wait(COMMAND_SECONDS).code != 0
    assert [rules_and_state(own, side, mirror) for side in ("east", "west")] == before
    reverse(own, mirror, "east")
    tanist(own, "west", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    assert records(own.east, mirror) == records(own.west, mirror)


def rules_and_state(pair: Pair, side: str, mirror: str) -> tuple[object, ...]:
    """What a late command could have changed: records of the mirror, and configs of its topic."""
    kinds = ("mirror", "topic", "moved", "generation", "lineage")
    found = [tanist(pair, side, "state", "dump", "--key", f"{kind}/{mirror}").out for kind in kinds]
    at = {"east": pair.east, "west": pair.west}[side]
    resource = ConfigResource(ConfigResource.Type.TOPIC, mirror)
    client = AdminClient(at.client("admin"))
    [configs] = client.describe_configs([resource]).values()
    return (*found, {name: each.value for name, each in configs.result(20).items()})
