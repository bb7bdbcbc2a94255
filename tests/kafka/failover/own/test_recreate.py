"""Topics that cannot return as they are: deleted at the old source and copied again, with the same mirror."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import KILLED, begin, delete, fail_over, records, reverse, tanist
from tests.kafka.failover.conftest import COMMAND_SECONDS, Pair, running
from tests.kafka.failover.own.test_expired_tails import expire
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
TOPICS: Final = ("fine", "gone", "made", "over")
AGAIN: Final = ("--recreate", ".*")
MIRROR: Final = "dr"


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("recreate")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        yield pair


def returns_with_an_overlap(pair: Pair) -> None:
    """`over` has eight records at offsets that the new primary has used; the other topics have nothing of their own."""
    for topic in TOPICS:
        pair.east.topic(topic)
        assert pair.east.writes(topic, range(10))
    tanist(pair, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", "|".join(TOPICS))
    tanist(pair, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    pair.workers["west"].send(signal.SIGKILL)
    assert pair.east.writes("over", range(100, 108))
    pair.east.cluster.kill()
    options = ("--mode", "unplanned", "--reserve", "none")
    plan = tanist(pair, "west", "failover", "plan", MIRROR, *options, "--json", expected=None).item["plan_hash"]
    tanist(pair, "west", "failover", "approve", MIRROR, plan, *options, "--reason", "drill", user="approver")
    tanist(pair, "west", "failover", "run", MIRROR, "--plan", plan, *QUICK, expected=None)
    for topic in TOPICS:
        assert pair.west.writes(topic, range(200, 210))
    pair.east.cluster.start()
    begin(pair, "west")
    until(lambda: is_final(pair), 60)


def is_final(pair: Pair) -> bool:
    """Whether the survey has answered for all topics, and says what will not change any more."""
    rows = json.loads(tanist(pair, "west", "failback", "survey", "--no-rescue", MIRROR, "--json", expected=None).out)[
        "items"
    ]
    return bool(rows) and all(row["final"] for row in rows)


def decides(pair: Pair, *, rescued: int = 0) -> None:
    """The tail is rescued, and left in quarantine. `rescued`: the exit code of the rescue."""
    tanist(pair, "west", "failback", "rescue", MIRROR, expected=rescued)
    drop = [word for name in ("safe", "conflict", "unordered", "expired") for word in ("--drop", name)]
    plan = tanist(pair, "west", "failback", "decide", MIRROR, *drop, "--json").item["plan_hash"]
    tanist(pair, "west", "failback", "approve", MIRROR, plan, *drop, "--reason", "drill", user="approver")
    tanist(pair, "west", "failback", "replay", MIRROR, "--plan", plan)


def mirror_id(pair: Pair, at: str) -> Any:
    (found,) = json.loads(tanist(pair, at, "state", "dump", "--key", f"mirror/{MIRROR}", "--json").out)["items"]
    return found["value"]["mirror_id"]


def refused(pair: Pair, *options: str) -> str:
    return tanist(pair, "west", "mirrors", "reverse", MIRROR, *options, "--dry-run", expected=1).err


def test_topics_that_cannot_return_are_deleted_and_copied_again_whatever_is_killed(own: Pair) -> None:
    returns_with_an_overlap(own)
    assert "OFFSETS_OVERLAP" in refused(own)
    assert "MAPPED_OFFSETS_UNSUPPORTED" in refused(own, "--mapped", "over")
    assert "TAIL_WOULD_BE_DELETED" in refused(own, *AGAIN, "--accept", "TAIL_UNDECIDED")
    decides(own)
    for topic in ("gone", "made"):
        delete(own.east, topic)
    own.east.topic("made", 3)
    assert own.east.writes("made", range(300, 303))
    assert "TOPIC_CANNOT_RETURN" in refused(own, "--recreate", "over")
    plan = tanist(own, "west", "mirrors", "reverse", MIRROR, *AGAIN, "--dry-run", "--json").item
    again = {row["topic"]: row["offsets"] for row in plan["topics"] if row["recreated"]}
    assert again.keys() == {"gone", "made", "over"}
    assert min(again.values()) >= 20
    assert all(row["bytes"] > 0 for row in plan["topics"] if row["recreated"])
    named = {each["name"]: each["detail"] for each in plan["limitations"]}
    assert "made (3 offsets)" in named["RECORDS_NOT_SURVEYED"]
    assert f"over ({again['over']} offsets, " in named["TOPICS_COPIED_AGAIN"]
    approval = ("--approve", plan["plan_hash"], "--reason", "drill")
    tanist(own, "west", "mirrors", "reverse", MIRROR, *AGAIN, *approval, user="approver")

    before = mirror_id(own, "west")
    for point in ("moving", "deleted", "recreated", "configured", "settling"):
        killed = forks.Command(KILLED, (point, MIRROR, "west", "SIGKILL", ".*"), own.environment(), own.home)
        assert killed.wait(COMMAND_SECONDS).code == -9, point
    assert tanist(own, "west", "mirrors", "reverse", MIRROR, "--json").item["changed"] is True
    assert mirror_id(own, "east") == before
    begin(own, "east")
    for topic in TOPICS:
        assert own.west.writes(topic, range(210, 214))
    tanist(own, "east", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    for topic in TOPICS:
        assert records(own.east, topic) == records(own.west, topic)
    rescued = own.west.read("__mirror_quarantine.over")
    assert sorted(int(value or 0) for _, _, value in rescued) == list(range(100, 108))

    fail_over(own, MIRROR, "east")
    assert own.east.writes("over", range(400, 404))
    reverse(own, MIRROR, "east")
    tanist(own, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    assert records(own.east, "over") == records(own.west, "over")


def test_a_topic_that_got_records_since_they_were_decided_is_not_deleted(own: Pair) -> None:
    """The reversal is withdrawn, and planned again; records of a few bytes pass the source fence."""
    returns_with_an_overlap(own)
    decides(own)
    plan = tanist(own, "west", "mirrors", "reverse", MIRROR, *AGAIN, "--dry-run", "--json").item
    approval = ("--approve", plan["plan_hash"], "--reason", "drill")
    tanist(own, "west", "mirrors", "reverse", MIRROR, *AGAIN, *approval, user="approver")
    asked = ("moving", MIRROR, "west", "SIGKILL", ".*")
    assert forks.Command(KILLED, asked, own.environment(), own.home).wait(COMMAND_SECONDS).code == -9
    assert own.east.writes("over", range(500, 502))
    late = tanist(own, "west", "mirrors", "reverse", MIRROR, expected=1)
    assert "REVERSAL_WITHDRAWN" in late.err
    assert "500" in str(records(own.east, "over"))
    tanist(own, "west", "failback", "survey", "--no-rescue", MIRROR, expected=1)
    decides(own)
    values = sorted(int(value or 0) for _, _, value in own.west.read("__mirror_quarantine.over"))
    assert values == [*range(100, 108), 500, 501]

    plan = tanist(own, "west", "mirrors", "reverse", MIRROR, *AGAIN, "--dry-run", "--json").item
    assert "QUARANTINE_INCOMPLETE" not in str(plan["limitations"])
    approval = ("--approve", plan["plan_hash"], "--reason", "drill")
    tanist(own, "west", "mirrors", "reverse", MIRROR, *AGAIN, *approval, user="approver")
    assert forks.Command(KILLED, asked, own.environment(), own.home).wait(COMMAND_SECONDS).code == -9
    expire(own.west, "__mirror_quarantine.over", 2)
    late = tanist(own, "west", "mirrors", "reverse", MIRROR, expected=1)
    assert "REVERSAL_WITHDRAWN" in late.err
    assert "QUARANTINE_CHANGED" in late.err
    assert records(own.east, "over")
    reversal = reverse(own, MIRROR, "west", *AGAIN)
    assert "QUARANTINE_INCOMPLETE" in {each["name"] for each in reversal["limitations"]}
