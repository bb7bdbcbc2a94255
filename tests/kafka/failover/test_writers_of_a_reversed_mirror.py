"""While a mirror is reversed only the mirror may write at its old source; after the failback it is as it was."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from tanist.domain.acls import AclBinding
from tanist.domain.approval.entries import APPROVALS_TOPIC
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC
from tanist_testkit.sandbox import forks
from tests.kafka.failover.both_ways import KILLED, begin, fail_over, records, reverse, tanist
from tests.kafka.failover.conftest import ALLOW, COMMAND_SECONDS, LITERAL, TOPIC, WRITE, give, take
from tests.kafka.failover.test_real import QUICK, rules_of

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair


@pytest.mark.long
def test_only_the_mirror_may_write_at_the_old_source(pair: Pair) -> None:
    """It copies what was written since the failover, at the same offsets."""
    pair.worker()
    begin(pair, "east")
    pair.east.topic("mirror-only")
    assert pair.east.writes("mirror-only", range(10))
    tanist(pair, "west", "mirrors", "create", "mirror-only", "--source", "east", "--topic", "mirror-only")
    fail_over(pair, "mirror-only", "west")
    assert pair.west.writes("mirror-only", range(100, 104))
    plan = tanist(pair, "west", "mirrors", "reverse", "mirror-only", "--dry-run", "--json").item
    assert "User:app" in plan["topics"][0]["denied"]
    approval = ("--approve", plan["plan_hash"], "--reason", "drill")
    tanist(pair, "west", "mirrors", "reverse", "mirror-only", *approval, user="approver")
    died = forks.Command(KILLED, ("lifting", "mirror-only", "west"), pair.environment(), pair.home).wait(
        COMMAND_SECONDS
    )
    assert died.code == -9, died.err
    there = AdminClient(pair.east.client("admin")).list_topics(timeout=20).topics
    assert {STATE_TOPIC, OFFSETS_TOPIC} <= there.keys(), "the fence was lifted before they were created"
    assert not pair.east.writes("mirror-only", range(1)), "the lifted fence was all that kept producers off"
    assert tanist(pair, "west", "mirrors", "reverse", "mirror-only", "--json").item["changed"] is True
    assert not pair.east.writes("mirror-only", range(1))
    tanist(pair, "east", "mirrors", "wait", "mirror-only", "--for", "lag=0", "--timeout", "200s")
    assert records(pair.east, "mirror-only") == records(pair.west, "mirror-only")


def approvals_at_the_old_source(pair: Pair) -> None:
    """The approvers' topic, which the tests of this file share."""
    client = AdminClient(pair.east.client("admin"))
    if APPROVALS_TOPIC not in client.list_topics(timeout=20).topics:
        pair.east.topic(APPROVALS_TOPIC, 1, retention_ms="-1", message_timestamp_type="LogAppendTime")


@pytest.mark.long
def test_a_failback_that_was_killed_while_both_clusters_refuse_producers_is_aborted_or_completed(pair: Pair) -> None:
    """Nobody can write anywhere then; `abort` gives the primary back, and a run ends at the old source."""
    mirror = "both-fenced"
    pair.worker()
    approvals_at_the_old_source(pair)
    begin(pair, "east")
    pair.east.topic(mirror)
    assert pair.east.writes(mirror, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", mirror)
    fail_over(pair, mirror, "west")
    reverse(pair, mirror, "west")
    assert pair.west.writes(mirror, range(100, 104))
    for aborted in (True, False):
        tanist(pair, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
        plan = tanist(pair, "east", "failover", "plan", mirror, "--json").item["plan_hash"]
        tanist(pair, "east", "failover", "approve", mirror, plan, "--reason", "drill", user="approver")
        assert pair.killed("fence:applied" if aborted else "after:fence", mirror, plan, at="east") == -9
        assert not pair.west.writes(mirror, range(1))
        assert not pair.east.writes(mirror, range(1))
        if aborted:
            tanist(pair, "east", "failover", "abort", mirror, "--reason", "drill")
            assert pair.west.writes(mirror, range(200, 204))
            assert not pair.east.writes(mirror, range(1))
        else:
            assert tanist(pair, "east", "failover", "run", mirror, "--plan", plan, *QUICK).item["status"] == "DONE"
    assert records(pair.east, mirror) == records(pair.west, mirror)
    assert pair.east.writes(mirror, range(300, 304))
    assert not pair.west.writes(mirror, range(1))
    values = sorted(int(value or 0) for _, _, value in records(pair.east, mirror))
    assert values == [*range(10), *range(100, 104), *range(200, 204), *range(300, 304)]
    pair.workers["east"].send(signal.SIGTERM)


@pytest.mark.long
def test_writers_are_denied_by_name_until_the_failback(pair: Pair) -> None:
    """The mirror may write where it was shut out by the failover before; nobody else may, until the next one."""
    pair.worker()
    approvals_at_the_old_source(pair)
    begin(pair, "east")
    pair.east.topic("returns")
    assert pair.east.writes("returns", range(10))
    before = rules_of(pair.east)
    tanist(pair, "west", "mirrors", "create", "returns", "--source", "east", "--topic", "returns")
    fail_over(pair, "returns", "west")
    assert pair.west.writes("returns", range(100, 104))
    plan = reverse(pair, "returns", "west")
    assert "User:app" in plan["topics"][0]["denied"]
    (writable,) = (each for each in plan["limitations"] if each["name"] == "MIRROR_TOPIC_WRITABLE")
    assert "super.users is set on broker 1, which hides whom it lists" in writable["detail"]
    assert not pair.east.writes("returns", range(1))
    fail_over(pair, "returns", "east")
    assert records(pair.east, "returns") == records(pair.west, "returns")
    assert pair.east.writes("returns", range(200, 204))
    assert not pair.west.writes("returns", range(1))
    assert not pair.east.writes("returns", range(1), user="mirror")
    added = rules_of(pair.east) - before
    assert len(added) == 1, added
    assert "User:mirror" in str(added)
    withdrawn_leaves_the_acls_as_they_were(pair, "returns")
    reverse(pair, "returns", "east")
    tanist(pair, "west", "mirrors", "wait", "returns", "--for", "lag=0", "--timeout", "200s")
    assert records(pair.east, "returns") == records(pair.west, "returns")
    assert not pair.west.writes("returns", range(1))
    pair.workers["east"].send(signal.SIGTERM)


def withdrawn_leaves_the_acls_as_they_were(pair: Pair, topic: str) -> None:
    """Of the old source, where the mirror was shut out when it was promoted: with a principal more since the plan."""
    late = AclBinding(TOPIC, topic, LITERAL, "User:late", "*", WRITE, ALLOW)
    before = rules_of(pair.west)
    plan = tanist(pair, "east", "mirrors", "reverse", topic, "--dry-run", "--json").item["plan_hash"]
    approval = ("--approve", plan, "--reason", "drill")
    tanist(pair, "east", "mirrors", "reverse", topic, *approval, user="approver")
    died = forks.Command(KILLED, ("lifted", topic, "east"), pair.environment(), pair.home).wait(COMMAND_SECONDS)
    assert died.code == -9, died.err
    assert rules_of(pair.west) != before
    give(pair.west.cluster, late)
    refused = tanist(pair, "east", "mirrors", "reverse", topic, expected=1)
    assert "REVERSAL_WITHDRAWN" in refused.err
    assert "OTHER_WRITERS_REMAIN: returns: User:late" in refused.err
    take(pair.west.cluster, late)
    assert rules_of(pair.west) == before
