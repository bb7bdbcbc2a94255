"""A mirror's name that is used again inherits nothing: no run, no approval, no source fence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from tanist.domain.acls import AclBinding
from tanist.usecases.failover.route import ROUTE
from tests.kafka.failover.conftest import DENY, LITERAL, TOPIC, WRITE, give, take
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

QUICK = ("--fence-proof", "1s", "--drain", "30s", "--json")


@pytest.mark.long  # unit/usecases/failover/test_lock.py has it by step
def test_a_mirror_made_again_is_not_done_by_the_failover_of_its_namesake(pair: Pair) -> None:
    """`failover run --until STEP` answered DONE, exit 0, without approval or action, while partitions were MIRRORING.

    And a source fence of the first mirror was nobody's any more, or fenced the source of the second one.
    """
    pair.worker()
    pair.mirror("twice", "twice")
    plan = pair.approved("twice")
    pair.tanist("failover", "run", "twice", "--plan", plan, *QUICK)
    refused = pair.tanist("mirrors", "delete", "twice", "--yes", expected=1)
    assert "FENCE_STANDS" in refused.err
    assert pair.tanist("fence", "show", "twice", "--json").item["stands"] is True
    deleted = pair.tanist("mirrors", "delete", "twice", "--yes", "--abandon-fence", "--reason", "scrapped")
    assert "by hand: kafka-acls.sh" in deleted.err
    assert not pair.tanist("state", "dump", "--key", "fence/twice").out
    assert not pair.tanist("state", "dump", "--key", "failover/twice").out
    _make_again(pair)
    for step in ROUTE:
        again = pair.tanist("failover", "run", "twice", "--plan", plan, "--until", step.id, "--json", expected=1)
        assert "NOT_PERMITTED" in again.out, f"{step.id}: the approval was for the mirror that was deleted"
    assert '"items":[]' in pair.tanist("fence", "show", "twice", "--json").out.replace(" ", "").replace("\n", "")
    assert pair.east.writes("twice", range(10, 12)), "its source is alive and nobody fences it"
    pair.tanist("mirrors", "wait", "twice", "--for", "lag=0", "--timeout", "200s")


@pytest.mark.long  # test_frozen_commands.py has a fence that lands late
def test_a_fence_that_a_deleted_mirror_put_up_late_is_reported_and_can_be_lifted(pair: Pair) -> None:
    """Its request was late, and the mirror that has the name now had no record: `fence lift` found nothing."""
    pair.worker()
    pair.mirror("overdue", "overdue")
    before = _remembered(pair)
    assert before
    give(pair.east.cluster, AclBinding(TOPIC, "overdue", LITERAL, "User:*", "*", WRITE, DENY))
    found = pair.tanist("status", "overdue", "--json").item
    assert "SOURCE_FENCED" in {each["name"] for each in found["limitations"]["planned"]}, found
    assert found["planned"] == "ACCEPT"
    row = pair.tanist("fence", "show", "overdue", "--json").item
    assert (row["topic"], row["status"], row["stands"]) == ("overdue", "not on record", True)
    assert "--unrecorded" in pair.tanist("fence", "lift", "overdue", expected=1).err
    assert not pair.east.writes("overdue", range(20, 22))
    assert _remembered(pair) == before, "a sync takes the fence for nobody's own rule"
    pair.tanist("fence", "lift", "overdue", "--unrecorded")
    assert pair.east.writes("overdue", range(20, 22))
    after = pair.tanist("status", "overdue", "--json").item
    assert "SOURCE_FENCED" not in {each["name"] for each in after["limitations"]["planned"]}


@pytest.mark.long  # unit/usecases/failover/test_recreated.py
def test_a_failed_over_topic_that_somebody_created_again_is_named_and_gets_no_marker(pair: Pair) -> None:
    """A worker wrote the mirror's markers into the new topic, and `status` was green."""
    pair.worker()
    pair.mirror("created-again", "created-again")
    plan = pair.approved("created-again")
    pair.tanist("failover", "run", "created-again", "--plan", plan, *QUICK)
    assert _promoted(pair)["verdict"] == "PASS"
    admin = AdminClient(pair.west.client("admin"))
    admin.delete_topics(["created-again"])["created-again"].result(20)
    until(lambda: "created-again" not in admin.list_topics(timeout=10).topics, 20)
    pair.west.topic("created-again")
    pair.worker("w2")  # renews what it finds as soon as it has begun
    until(lambda: _promoted(pair)["verdict"] == "FAIL", 30)
    reason = _promoted(pair)["reason"]
    assert "created-again: the failed-over topic was deleted and re-created at the destination" in reason
    refused = pair.tanist("mirrors", "add", "created-again", "--topic", "created-again", expected=1)
    assert "TOPIC_FENCED" in refused.err, "the source fence stands until it is lifted by command"
    pair.tanist("fence", "lift", "created-again", "--promoted")
    take(pair.west.cluster, AclBinding(TOPIC, "created-again", LITERAL, "User:mirror", "*", WRITE, DENY))
    pair.tanist("mirrors", "add", "created-again", "--topic", "created-again")
    assert _promoted(pair)["verdict"] == "PASS", "the topic is empty, so it can be mirrored again: no marker is in it"
    earlier = pair.tanist("failover", "run", "created-again", "--plan", plan, *QUICK, expected=1)
    assert "of an earlier life of created-again" in earlier.out, "it said DONE in 0.0 s, all steps done"
    anew = pair.tanist("failover", "plan", "created-again", "--json", expected=None).item["plan_hash"]
    assert anew != plan


@pytest.mark.long
def test_a_topic_that_is_created_again_between_seal_and_generation_is_named_and_gets_nothing(pair: Pair) -> None:
    """The run promoted the new, empty topic, and every check was green."""
    pair.worker()
    pair.mirror("behind", "behind-a", "behind-b")
    plan = pair.approved("behind")
    pair.tanist("failover", "run", "behind", "--plan", plan, "--until", "seal", *QUICK)
    pair.dismiss()  # what a worker writes is not what this test is about
    until(lambda: not any(worker.alive for worker in pair.workers.values()), 20)
    admin = AdminClient(pair.west.client("admin"))
    admin.delete_topics(["behind-a"])["behind-a"].result(20)
    until(lambda: "behind-a" not in admin.list_topics(timeout=10).topics, 20)
    pair.west.topic("behind-a")
    ran = pair.tanist("failover", "run", "behind", "--plan", plan, *QUICK)
    assert "TOPIC_RECREATED: behind-a" in ran.err
    assert pair.west.read("behind-a") == []
    look = Consumer(pair.west.client("admin", group_id="look"))
    assert look.get_watermark_offsets(At("behind-a", 0), 20) == (0, 0), "no producer fence, no test transaction"
    look.close()
    checks = pair.tanist("status", "behind", "--json", expected=None).item["checks"]
    (promoted,) = (each for each in checks if each["name"] == "promoted")
    assert promoted["verdict"] == "FAIL"
    assert "behind-a: the failed-over topic was deleted and re-created" in promoted["reason"]
    assert pair.west.writes("behind-b", range(10, 12)), "the other topic has taken over"


def _remembered(pair: Pair) -> list[dict[str, Any]]:
    """Who may write to the topic once it has taken over, as a sync leaves it on record."""
    synced = pair.tanist("metadata", "sync", "overdue", "--json")
    assert "FAILED" not in synced.out
    dumped = pair.tanist("state", "dump", "--key", "topic/overdue").out
    (held,) = (json.loads(line)["value"]["held_rules"] for line in dumped.splitlines())
    return list(held)


def _promoted(pair: Pair) -> dict[str, str]:
    checks = pair.tanist("status", "created-again", "--json", expected=None).item["checks"]
    (found,) = (each for each in checks if each["name"] == "promoted")
    return dict(found)


def _make_again(pair: Pair) -> None:
    """The source may be written to, the destination's topic is gone, and so is what kept the mirror from writing it."""
    take(pair.east.cluster, AclBinding(TOPIC, "twice", LITERAL, "User:*", "*", WRITE, DENY))
    take(pair.west.cluster, AclBinding(TOPIC, "twice", LITERAL, "User:mirror", "*", WRITE, DENY))
    admin = AdminClient(pair.west.client("admin"))
    admin.delete_topics(["twice"])["twice"].result(20)
    until(lambda: "twice" not in admin.list_topics(timeout=10).topics, 20)
    pair.tanist("mirrors", "create", "twice", "--source", "east", "--topic", "twice", "--promoted")
    pair.tanist("mirrors", "wait", "twice", "--for", "state=MIRRORING", "--timeout", "200s")
