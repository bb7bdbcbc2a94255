"""Rescued records are classified, and what an approver has chosen is appended to its topics, each record once."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist.domain.failback.decision import MINUTE_MS
from tanist.kafka.adapters.cluster import KafkaCluster
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import KafkaSide, Pair, running
from tests.kafka.failover.own.returning import configs, killed, messages
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
MIRROR: Final = "decided"
NOW: Final = SystemClock().now()
HOUR_MS: Final = 3_600_000
KINDS: Final = ("unordered", "conflict", "safe")
LOGS: Final = [
    (KINDS[n % 3], None if n % 3 == 0 else b"%s-%d" % (KINDS[n % 3].encode(), n), b"%d" % n) for n in range(60)
]
"""Class, key and value of the records of the tail of `logs`, which is not compacted."""


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("replay")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        pair.worker()
        yield pair


def write(side: KafkaSide, topic: str, records: Sequence[tuple[bytes | None, bytes | None, int]]) -> None:
    """Records of partition 0: key, value, time."""
    producer = Producer(side.client())
    for key, value, time in records:
        producer.produce(topic, value, key, partition=0, timestamp=time, headers=[("h", value)])
    assert producer.flush(30) == 0


def dies_with_tails(pair: Pair) -> None:
    """`logs` has 60 records that nobody copied, and two old ones; `table` has values of five keys."""
    pair.east.topic("logs", 1, retention_ms=str(HOUR_MS), cleanup_policy="delete")
    pair.east.topic("table", 1, cleanup_policy="compact")
    write(pair.east, "logs", [(b"safe-2", b"before", NOW)])
    write(pair.east, "table", [(b"k%d" % n, b"copied", NOW) for n in range(3)])
    pair.tanist("mirrors", "create", MIRROR, "--source", "east", "--topic", "logs|table")
    pair.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    pair.worker().send(signal.SIGKILL)
    write(pair.east, "logs", [(b"expired", b"expired", NOW - 2 * HOUR_MS)] * 2)
    write(pair.east, "logs", [(key, value + bytes(300), NOW) for _, key, value in LOGS])
    write(
        pair.east,
        "table",
        [(b"k0", b"tail", NOW), (b"k1", b"tail", NOW), (b"k0", b"last", NOW), (b"new", b"tail", NOW)],
    )
    pair.east.cluster.kill()
    pair.tanist("failover", "run", MIRROR, "--plan", pair.approved(MIRROR, mode="unplanned"), *QUICK, expected=None)
    assert pair.tanist("failover", "status", MIRROR, "--json").item["status"] == "DONE"
    write(pair.west, "logs", [(key, b"west", NOW) for kind, key, _ in LOGS if kind == "conflict"])
    write(pair.west, "table", [(b"k1", b"west", NOW)])
    pair.east.cluster.start()
    pair.worker("w2")


def tails_check(pair: Pair) -> dict[str, Any]:
    (check,) = [
        each
        for each in pair.tanist("status", MIRROR, "--json", expected=None).item["checks"]
        if each["name"] == "tails"
    ]
    return dict(check)


def approved(pair: Pair, *options: str) -> str:
    plan = str(pair.tanist("failback", "decide", MIRROR, *options, "--json").item["plan_hash"])
    pair.tanist("failback", "approve", MIRROR, plan, *options, "--reason", "drill", user="approver")
    return plan


def values(pair: Pair, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    found = messages(pair.west.client(group_id="q", enable_partition_eof="true"), topic, 0)
    return [(each.key(), each.value()) for each in found]


def test_only_what_was_chosen_is_replayed_and_once_whatever_is_killed(own: Pair) -> None:
    dies_with_tails(own)
    assert "2 not surveyed" in tails_check(own)["observed"]
    until(lambda: configs(own, "logs")["retention.ms"] == "-1", 60)
    until(lambda: own.tanist("failback", "survey", "--no-rescue", MIRROR, expected=None).code != 3, 60)
    assert "2 not rescued" in tails_check(own)["observed"]
    assert "NOTHING_TO_DECIDE" in own.tanist("failback", "decide", MIRROR, expected=1).err
    own.tanist("failback", "rescue", MIRROR)
    assert "2 not decided" in tails_check(own)["observed"]

    missing = own.tanist("failback", "decide", MIRROR, "--replay", "safe", expected=1)
    assert "CLASSES_NOT_DECIDED" in missing.err
    assert "conflict (21 records), unordered (20 records), expired (2 records)" in missing.err
    chosen = ("--topic", "logs", "--replay", "safe", "--replay", "unordered", "--drop", "conflict", "--drop", "expired")
    (row,) = own.tanist("failback", "decide", MIRROR, *chosen, "--json").item["tails"]
    counted = [row[each] for each in (*KINDS, "expired")]
    assert counted == [20, 20, 20, 2]
    assert "NOT_APPROVED" in own.tanist("failback", "replay", MIRROR, "--plan", "0" * 16, expected=1).err
    plan = approved(own, *chosen)
    before = values(own, "logs")
    points = [("decided", 1), ("stored", 1), ("appended", 1), ("appended", 2), ("stored", 2), ("done", 1)]
    for point, number in points:
        assert killed(own, point, number, MIRROR, plan) == -9, (point, number)
    (seen,) = own.tanist("failback", "replay", MIRROR, "--plan", plan, "--json").item["tails"]
    assert (seen["records"], seen["replayed"], seen["dropped"], seen["restated"]) == (62, 40, 22, 0)
    wanted = [(key, value + bytes(300)) for kind, key, value in LOGS if kind != "conflict"]
    assert values(own, "logs") == before + wanted
    last = messages(own.west.client(group_id="q", enable_partition_eof="true"), "logs", 0)[-1]
    assert last.timestamp()[1] == NOW
    assert last.headers()[:2] == [("h", LOGS[-1][2] + bytes(300)), ("tanist.origin.cluster", last.headers()[1][1])]
    assert "1 not decided" in tails_check(own)["observed"]

    dropped = approved(own, "--drop", "safe", "--drop", "conflict")
    assert killed(own, "appended", 1, MIRROR, dropped) == -9
    (seen,) = own.tanist("failback", "replay", MIRROR, "--plan", dropped, "--json").item["tails"]
    assert (seen["topic"], seen["dropped"], seen["restated"]) == ("table", 4, 2)
    assert values(own, "table")[-2:] == [(b"k0", b"copied"), (b"new", None)]
    assert tails_check(own)["verdict"] == "PASS"
    survey = json.loads(own.tanist("failback", "survey", "--no-rescue", MIRROR, "--json", expected=None).out)["items"]
    assert {each["decided"] for each in survey} == {True}
    until(lambda: configs(own, "logs")["retention.ms"] == str(HOUR_MS), 20)
    assert configs(own, "table")["cleanup.policy"] == "compact"
    again = own.tanist("failback", "replay", MIRROR, "--plan", plan, "--json").item
    assert (again["status"], len(values(own, "logs"))) == ("DONE", len(before) + len(wanted))


def test_a_tail_that_grows_while_its_decision_is_carried_out_is_decided_about_again(own: Pair) -> None:
    """Records of a few bytes pass the source fence. They were taken for decided, or for records of the new primary."""
    own.east.topic("logs", 1)
    write(own.east, "logs", [(b"k0", b"copied", NOW)])
    own.tanist("mirrors", "create", MIRROR, "--source", "east", "--topic", "logs")
    own.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    own.worker().send(signal.SIGKILL)
    write(own.east, "logs", [(b"k%d" % n, b"tail", NOW) for n in range(4)])
    own.east.cluster.kill()
    own.tanist("failover", "run", MIRROR, "--plan", own.approved(MIRROR, mode="unplanned"), *QUICK, expected=None)
    own.east.cluster.start()
    own.worker("w2")
    until(lambda: own.tanist("failback", "survey", "--no-rescue", MIRROR, expected=None).code != 3, 60)
    own.tanist("failback", "rescue", MIRROR)
    safe = ("--replay", "safe", "--drop", "conflict")
    plan = approved(own, *safe)
    assert killed(own, "decided", 1, MIRROR, plan) == -9
    late = [(b"k1", b"x"), (b"k9", b"x")]
    for key, value in late:
        producer = Producer(own.east.client())
        producer.produce("logs", value, key, partition=0)
        assert producer.flush(30) == 0

    def surveyed() -> dict[str, Any]:
        (row,) = json.loads(own.tanist("failback", "survey", "--no-rescue", MIRROR, "--json", expected=None).out)[
            "items"
        ]
        return dict(row)

    assert (surveyed()["records"], surveyed()["decided"]) == (6, False)
    before = values(own, "logs")
    (row,) = own.tanist("failback", "replay", MIRROR, "--plan", plan, "--json").item["tails"]
    assert (row["records"], row["replayed"]) == (4, 4)
    assert values(own, "logs") == [*before, *((b"k%d" % n, b"tail") for n in range(4))]
    assert surveyed()["decided"] is False
    assert "1 not rescued" in tails_check(own)["observed"]
    own.tanist("failback", "rescue", MIRROR)
    (row,) = own.tanist("failback", "decide", MIRROR, *safe, "--json").item["tails"]
    assert (row["safe"], row["conflict"], row["records"]) == (2, 0, 2)
    own.tanist("failback", "replay", MIRROR, "--plan", approved(own, *safe))
    assert values(own, "logs")[-2:] == late
    assert surveyed()["decided"] is True
    assert tails_check(own)["verdict"] == "PASS"
    checks = own.tanist("status", MIRROR, "--json", expected=None).item["checks"]
    assert [each["observed"] for each in checks if each["name"] == "left_behind" and each["verdict"] != "PASS"] == []


def test_a_record_that_expires_after_the_decision_is_replayed_as_it_was_approved(own: Pair) -> None:
    """It was dropped unseen: the replay judged by its own clock what retention would delete."""
    clock = SystemClock()
    own.east.topic("logs", 1, retention_ms="-1", cleanup_policy="delete")
    write(own.east, "logs", [(b"k0", b"copied", NOW)])
    own.tanist("mirrors", "create", MIRROR, "--source", "east", "--topic", "logs")
    own.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    own.worker().send(signal.SIGKILL)
    old = [(b"gone", b"expired", NOW - 2 * HOUR_MS), (b"soon", b"expires", NOW - HOUR_MS), (b"new", b"stays", NOW)]
    write(own.east, "logs", old)
    own.east.cluster.kill()
    own.tanist("failover", "run", MIRROR, "--plan", own.approved(MIRROR, mode="unplanned"), *QUICK, expected=None)
    own.east.cluster.start()
    own.worker("w2")
    until(lambda: own.tanist("failback", "survey", "--no-rescue", MIRROR, expected=None).code != 3, 60)
    own.tanist("failback", "rescue", MIRROR)
    minute = (clock.now() + 20_000) // MINUTE_MS * MINUTE_MS + MINUTE_MS
    west = KafkaCluster(own.west.cluster.endpoint())
    retention = {"retention.ms": str(minute - 1 - (NOW - HOUR_MS))}
    assert west.topics.alter_configs({"logs": retention}, clock.deadline(20)) == {"logs": None}
    west.close()

    chosen = ("--replay", "safe", "--drop", "expired")
    shown = own.tanist("failback", "decide", MIRROR, *chosen, "--json").item
    (row,) = shown["tails"]
    assert (row["safe"], row["expired"]) == (2, 1)
    assert shown["expired_at_ms"] < clock.now() < minute, "too slow: the record expired before the decision"
    assert own.tanist("failback", "decide", MIRROR, *chosen, "--json").item["plan_hash"] == shown["plan_hash"]
    until(lambda: clock.now() > minute, 90)
    (row,) = own.tanist("failback", "decide", MIRROR, *chosen, "--json").item["tails"]
    assert (row["safe"], row["expired"]) == (1, 2)
    plan = shown["plan_hash"]
    own.tanist("failback", "approve", MIRROR, plan, *chosen, "--reason", "drill", user="approver")
    (row,) = own.tanist("failback", "replay", MIRROR, "--plan", plan, "--json").item["tails"]
    assert (row["replayed"], row["dropped"]) == (2, 1)
    assert values(own, "logs")[-2:] == [(b"soon", b"expires"), (b"new", b"stays")]


def test_one_command_rescues_what_it_surveys_and_another_one_replays_what_is_safe(own: Pair) -> None:
    """Nobody chooses anything: what is not safe stays in quarantine, and the reversal no longer asks."""
    dies_with_tails(own)
    until(lambda: own.tanist("failback", "survey", MIRROR, expected=None).code != 3, 60)
    assert "2 not decided" in tails_check(own)["observed"]
    done = own.tanist("failback", "replay", MIRROR, "--reason", "drill", "--json").item
    (logs,) = (row for row in done["tails"] if row["topic"] == "logs")
    assert (done["status"], logs["replayed"], logs["dropped"]) == ("DONE", 20, 42)
    assert done["quarantine"] == ["__mirror_quarantine.logs", "__mirror_quarantine.table"]
    assert tails_check(own)["verdict"] == "PASS"
