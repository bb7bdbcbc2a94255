"""ACLs follow the source between real clusters: who may read there may read here, and nobody else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as At

from tanist.domain.acls import AclBinding
from tests.kafka.failover.conftest import ALLOW, DENY, GROUP, LITERAL, READ, TOPIC, TRANSACTION, WRITE, give, take
from tests.kafka.failover.test_real import rules_of
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Answer, KafkaSide, Pair

PREFIXED = 4
REFUSED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
NAME, USER = "follows", "operator"


def items(answer: Answer) -> list[dict[str, Any]]:
    return list(json.loads(answer.out)["items"])


def changes(answer: Answer) -> set[tuple[str, str, str]]:
    """Change, verdict and name of each row about ACLs that follow."""
    return {(row["change"], row["verdict"], row["name"]) for row in items(answer) if row["kind"] == "access"}


def reads(cluster: KafkaSide, topic: str) -> bool:
    """Whether the user reads a record, and commits where it is, in a group of its own."""
    config = cluster.client(USER, group_id=f"{NAME}-readers", auto_offset_reset="earliest")
    consumer = Consumer(config)
    try:
        consumer.assign([At(topic, 0, 0)])
        message = consumer.poll(20)
        error = message.error() if message is not None else None
        if message is None or error is not None:
            assert error is None or error.code() in REFUSED
            return False
        consumer.commit(offsets=[At(topic, 0, 1)], asynchronous=False)
    finally:
        consumer.close()
    return True


def access(pair: Pair) -> str:
    """What `status` says of who reads at the source and may not at the destination."""
    answer = items(pair.tanist("status", NAME, "--json", expected=None))[0]
    (found,) = (each for each in answer["checks"] if each["check"] == "access")
    assert found["verdict"] in {"PASS", "FAIL"}
    return str(found["reason"])


def acl(kind: int, name: str, operation: int, pattern: int = LITERAL, permission: int = ALLOW) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, permission)


TOPICS = (f"{NAME}-orders", f"{NAME}-secret")
PREFIX, GROUPS = acl(TOPIC, f"{NAME}-", READ, PREFIXED), acl(GROUP, f"{NAME}-readers", READ)
NARROWS, IDS = acl(TOPIC, TOPICS[1], READ, permission=DENY), acl(TRANSACTION, f"{NAME}-tx", WRITE, PREFIXED)
GIVEN = {PREFIX, GROUPS, NARROWS, IDS}


def test_who_may_read_at_the_source_may_read_here_until_that_is_gone_and_its_deletion_approved(pair: Pair) -> None:
    """S3.7. Literal and prefixed, with a DENY that narrows; writing is withheld; nothing else changes."""
    pair.worker()
    for topic in TOPICS:
        pair.east.topic(topic)
        assert pair.east.writes(topic, range(10))
    give(pair.east.cluster, *GIVEN, acl(TOPIC, TOPICS[0], WRITE))
    asked = ("mirrors", "create", NAME, "--source", "east", "--topic", f"{NAME}-.*", "--acl")
    assert "'TOPICS' is not a resource type" in pair.tanist(*asked, "TOPICS", expected=2).err
    pair.tanist(*asked, f"*;*;*;ALLOW;User:{USER}")
    pair.tanist("mirrors", "wait", NAME, "--for", "lag=0", "--timeout", "200s")
    before = rules_of(pair.west)
    assert not reads(pair.west, TOPICS[0])
    pair.tanist("mirrors", "pause", NAME, "--topic", TOPICS[1])
    pair.east.commit(f"{NAME}-readers", TOPICS[0], 3)
    until(lambda: f"User:{USER} (group {NAME}-readers)" in access(pair), 60)

    shown = changes(pair.tanist("metadata", "diff", NAME, "--json", expected=1))
    assert {each[:2] for each in shown} == {("create", "DIFFERS")}
    assert len(shown) == len(GIVEN)
    assert rules_of(pair.west) == before
    synced = pair.tanist("metadata", "sync", NAME, "--yes", "--json")
    assert synced.err.splitlines()[0] == "create ACLs"
    assert changes(synced) == {(change, "CHANGED", name) for change, _, name in shown}
    until(lambda: rules_of(pair.west) - before == GIVEN, 20)
    until(lambda: reads(pair.west, TOPICS[0]), 20)
    assert f"User:{USER} (group {NAME}-readers)" not in access(pair)
    assert not reads(pair.west, TOPICS[1]), "the prefix reaches the paused topic, whose DENY had stayed away"
    pair.tanist("mirrors", "resume", NAME, "--topic", TOPICS[1])
    assert not pair.west.writes(TOPICS[0], range(1), user=USER)
    assert not changes(pair.tanist("metadata", "sync", NAME, "--yes", "--json"))
    _deleted_by_an_approved_plan(pair, before)


def _deleted_by_an_approved_plan(pair: Pair, before: set[object]) -> None:
    """The DENY goes with the ALLOW that it narrowed."""
    take(pair.east.cluster, PREFIX)
    until(lambda: PREFIX not in rules_of(pair.east), 20)
    left = changes(pair.tanist("metadata", "sync", NAME, "--yes", "--json", expected=1))
    assert {each[:2] for each in left} == {("delete", "CONFLICT"), ("delete", "SKIPPED")}, "the source has the DENY"
    assert reads(pair.west, TOPICS[0]), "nothing is deleted that nobody has approved"
    shown = pair.tanist("metadata", "diff", NAME, expected=1).err
    plan = shown[shown.index("plan ") + 5 :].partition(":")[0]
    delete = ("metadata", "sync", NAME, "--delete-acls", plan, "--yes", "--json")
    assert "NOT_APPROVED" in pair.tanist(*delete, expected=None).err
    pair.tanist("metadata", "sync", NAME, "--approve", plan, "--reason", "it has left", user="approver")
    deleted = changes(pair.tanist(*delete))
    assert deleted == {(change, "CHANGED", name) for change, _, name in left}
    until(lambda: rules_of(pair.west) - before == {GROUPS, IDS}, 20)
    until(lambda: not reads(pair.west, TOPICS[0]), 20)
