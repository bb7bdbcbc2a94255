"""The whole route on real clusters, once per step killed, and what comes back from the past."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from tanist.domain.acls import AclBinding
from tanist.domain.broker_errors import InvalidProducerEpoch, UnknownTopicOrPartition
from tanist.domain.errors import SourceReplaced
from tanist.domain.failover.evidence import from_json
from tanist.domain.names import MirrorName, MirrorPartition
from tanist.domain.records import STATE_TOPIC, TopicDesired
from tanist.domain.state_record import Tombstone
from tanist.domain.state_view import NOTHING_YET
from tanist.domain.states import DesiredState
from tanist.kafka.adapters.compacted_topic import CompactedTopic, TopicLayout, operator_of
from tanist.kafka.wire import requests
from tanist.kafka.wire.admin import AccessFilter, describe_acls
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import Markers
from tanist.kafka.wire.router import Router
from tanist.usecases.failover.route import ROUTE
from tests.kafka.failover.conftest import ALL, ALLOW, LITERAL, TOPIC, WRITE, give
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tanist.domain.state_view import StateView
    from tests.kafka.failover.conftest import KafkaSide, Pair

SOON = SystemClock().deadline
SMALL = TopicLayout(allow_small=True)
REPLACED = SourceReplaced.name
QUICK = ("--fence-proof", "1s", "--drain", "30s", "--budget", "2s", "--json", "--although-it-answers")


REPEATS = 2
"""Of a topic of two partitions: the source's policy is compact."""


def without_repeats(rows: list[tuple[int, int, bytes | None]]) -> list[tuple[int, int, bytes | None]]:
    """Behind a barrier the last record of a compacted partition stands once more."""
    found = []
    for partition in range(REPEATS):
        own = [row for row in rows if row[0] == partition]
        assert own[-1][2] == own[-2][2]
        found += own[:-1]
    return found


def policy_of(side: KafkaSide, topic: str) -> str:
    """The `cleanup.policy` in effect."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = AdminClient(side.client("admin"))  # what it was asked ends with it
    [found] = client.describe_configs([resource]).values()
    return str(found.result(20)["cleanup.policy"].value)


def promoted(pair: Pair, mirror: str, topic: str) -> None:
    """Everybody may write here but the mirror, and nobody there."""
    assert pair.west.writes(topic, range(100, 104))
    assert not pair.west.writes(topic, range(1), user="mirror")
    assert not pair.east.writes(topic, range(1))
    assert pair.tanist("failover", "status", mirror, "--json").item["status"] == "DONE"


def test_planned_then_an_old_worker_wakes_up(pair: Pair) -> None:
    """Everything is here, at its offset; who wrote at the source may write, a worker that slept cannot."""
    worker = pair.worker()
    give(pair.east.cluster, AclBinding(TOPIC, "*", LITERAL, "User:operator", "*", WRITE, ALLOW))
    pair.mirror("one", "orders", "kept")
    pair.east.commit("billing", "orders", 3)
    until(lambda: "billing" in pair.tanist("state", "dump", "--key", "group/one").out, 40)
    denied = pair.tanist("failover", "approve", "one", "x", "--reason", "me", expected=None)
    assert "PLAN_NOT_KEPT" in denied.err
    plan = pair.approved("one", "--topic", "orders")
    mine = pair.tanist("failover", "approve", "one", plan, "--reason", "me", "--topic", "orders", expected=1)
    assert "MIRROR_AUTHORIZATION_FAILED" in mine.err
    pair.tanist("mirrors", "wait", "one", "--for", "lag=0")
    assert not pair.west.writes("orders", range(1), user="operator")
    assert policy_of(pair.west, "orders") == "compact,delete"
    done = pair.tanist("failover", "run", "one", "--plan", plan, *QUICK).item
    assert done["approver"] == "approver"
    assert policy_of(pair.west, "orders") == "compact"
    worker.send(signal.SIGSTOP)
    before = pair.east.read("orders")
    assert without_repeats([row for row in pair.west.read("orders") if int(row[2] or 0) < 100]) == before
    promoted(pair, "one", "orders")
    assert len(pair.west.read("orders")) == len(before) + REPEATS + 4
    assert pair.west.writes("orders", range(200, 202), user="operator")
    assert not pair.west.writes("kept", range(1), user="operator")
    pair.west.commit("billing", "orders", 5)
    reported = pair.tanist("groups", "explain", "one", "--group", "billing").out
    assert "orders-0 was failed over: the offsets that group billing commits at west are its own" in reported
    assert "has 5, committed by a consumer at the destination" in reported
    listed = pair.tanist("groups", "list", "one", "--json").item
    assert (listed["group"], listed["topics"], listed["at_home"]) == ("billing", [], ["orders"])
    assert (listed["lag"], listed["position_age_ms"]) == (None, None)
    worker.send(signal.SIGCONT)
    assert pair.east.writes("kept", range(10, 20))
    pair.tanist("mirrors", "wait", "one", "--for", "lag=0", "--timeout", "200s")
    assert len(pair.west.read("orders")) == len(before) + REPEATS + 6
    evidence = pair.home / "evidence" / plan
    assert from_json((evidence / "evidence.json").read_text()).broken_at() is None
    assert "<table>" in (evidence / "evidence.html").read_text()


@pytest.mark.long  # a frozen worker wakes up in the test above
def test_frozen_before_the_barrier_and_woken_after_it(pair: Pair) -> None:
    """With records to copy in its hands it finds every door shut."""
    worker = pair.worker()
    pair.mirror("frozen", "frozen")
    worker.send(signal.SIGSTOP)
    assert pair.east.writes("frozen", range(10, 30))
    pair.worker("w2")
    pair.tanist("mirrors", "wait", "frozen", "--for", "lag=0", "--timeout", "200s")
    plan = pair.approved("frozen")
    pair.tanist("failover", "run", "frozen", "--plan", plan, *QUICK)
    promoted(pair, "frozen", "frozen")
    seen = pair.west.read("frozen")
    worker.send(signal.SIGCONT)
    SystemClock().wait(3)
    assert pair.west.read("frozen") == seen
    pair.workers["w2"].send(signal.SIGTERM)


def rules_of(side: KafkaSide) -> set[object]:
    router = Router(side.cluster.endpoint(), "tanist-test")
    found = describe_acls(router, AccessFilter(), SystemClock().deadline(10))
    router.close()
    return set(found)


def test_abort_restores_exactly(pair: Pair) -> None:
    pair.worker()
    pair.mirror("back", "back")
    before = rules_of(pair.east), rules_of(pair.west)
    plan = pair.approved("back")
    assert pair.killed("before:seal", "back", plan) == -9
    assert not pair.east.writes("back", range(1))
    where = ("--evidence", str(pair.home / plan))
    pair.tanist("failover", "abort", "back", "--reason", "only a drill", *where)
    reported = pair.tanist("failover", "status", "back", "--json").item
    assert reported["status"] == "ABORTED"
    assert ": only a drill; before that: " in reported["reason"]
    assert reported["reason"].endswith("was running it in step seal")
    assert (rules_of(pair.east), rules_of(pair.west)) == before
    assert pair.east.writes("back", range(10, 20))
    pair.tanist("mirrors", "wait", "back", "--for", "lag=0", "--timeout", "200s")
    assert pair.west.read("back") == pair.east.read("back")
    used = pair.tanist("failover", "run", "back", "--plan", plan, *QUICK, expected=1)
    assert "APPROVAL_USED" in used.err


INSIDE = {"fence": "fence:applied", "groups": "groups:moved", "seal": "seal:half", "configs": "configs:some"}
INSIDE |= {"canary": "canary:sung", "movers": "movers:told"}
KILLS = {
    "after": [f"after:{step.id}" for step in ROUTE if step.id != "drain"],
    "inside": [INSIDE.get(step.id, f"before:{step.id}") for step in ROUTE if step.id != "drain"],
    "sealing": ["seal:no-return", "seal:data-half", "seal:data-fenced", "seal:lineage", "seal:sealed", "before:movers"],
}


def chain(pair: Pair, mirror: str, plan: str, points: list[str]) -> int:
    """The same run, killed at one point after the other; how often it died."""
    return sum(pair.killed(point, mirror, plan) == -9 for point in points)


def test_killed_after_and_inside_each_step(pair: Pair) -> None:
    """The same failover, cut many times, and each on one approval."""
    pair.worker()
    plans = {}
    for name in KILLS:
        pair.mirror(f"cut-{name}", f"cut-{name}")
        plans[name] = pair.approved(f"cut-{name}")
    with ThreadPoolExecutor(2) as pool:
        died = list(pool.map(lambda n: chain(pair, f"cut-{n}", plans[n], KILLS[n]), KILLS))
    assert died == [len(points) for points in KILLS.values()]
    for name, plan in plans.items():
        pair.tanist("failover", "run", f"cut-{name}", "--plan", plan, *QUICK, "--evidence", str(pair.home / plan))
        promoted(pair, f"cut-{name}", f"cut-{name}")
        evidence = from_json((pair.home / plan / "evidence.json").read_text())
        assert evidence.broken_at() is None
        assert evidence.events[-1].step == "end"
        assert json.loads(evidence.head)["approval"]["by"] == "approver"
        (entry,) = state(pair.west).lineage(MirrorName(f"cut-{name}"))
        assert entry.old_ends == entry.reserve_ends == (5, 5)
        assert state(pair.east).lineage(MirrorName(f"cut-{name}")) == (entry,)


@pytest.mark.long
def test_one_step_at_a_time_killed_between(pair: Pair) -> None:
    """As tasks of an orchestrator: each step a process of its own; those that die have another go.

    In `make test` a run goes step by step in each DAG run of tests/airflow, and is killed in the test above.
    """
    pair.worker()
    pair.mirror("steps", "steps")
    plan = pair.approved("steps")
    steps = [step.id for step in ROUTE]
    where = ("--evidence", str(pair.home / plan))
    for n, step in enumerate(steps):
        assert pair.killed(f"after:{step}" if n % 2 else f"before:{step}", "steps", plan, step) in {-9, 0}
        item = pair.tanist("failover", "run", "steps", "--plan", plan, *QUICK, *where, "--until", step).item
        left = [each["id"] for each in item["steps"] if not each["done"]]
        assert left == [each for each in steps[n + 1 :] if each != "drain" or each in left], (
            "only a drain ends by itself"
        )
        assert item["status"] == ("RUNNING" if steps[n + 1 :] else "DONE")
        assert (item["runner"] is None) == (item["status"] == "RUNNING")
    promoted(pair, "steps", "steps")
    assert from_json((pair.home / plan / "evidence.json").read_text()).broken_at() is None


@pytest.mark.long  # test_dead_source.py and tests/kafka/failback
def test_unplanned_then_the_source_returns(pair: Pair) -> None:
    """It does not resume its old life: fenced and told as soon as it answers, and no worker believes an old state."""
    worker = pair.worker()
    pair.mirror("fire", "fire")
    worker.send(signal.SIGSTOP)
    assert pair.east.writes("fire", range(10, 16))
    worker.send(signal.SIGCONT)
    pair.tanist("mirrors", "wait", "fire", "--for", "lag=0", "--timeout", "200s")
    give(pair.east.cluster, AclBinding(TOPIC, "fire", LITERAL, "User:operator", "10.1.2.3", ALL, ALLOW))
    pair.tanist("metadata", "sync", "fire")
    pair.east.cluster.kill()
    blocked = pair.tanist("failover", "plan", "fire", expected=1)
    assert "SOURCE_DOWN" in blocked.err
    plan = pair.approved("fire", mode="unplanned")
    done = pair.tanist("failover", "run", "fire", "--plan", plan, *QUICK).item
    assert done["seconds"] < 15
    assert pair.west.writes("fire", range(100, 104))
    given = AclBinding(TOPIC, "fire", LITERAL, "User:operator", "10.1.2.3", WRITE, ALLOW)
    assert given in rules_of(pair.west), "as it was at the source that is dead, and no wider"
    fences = pair.tanist("fence", "show", "fire", "--json", expected=None)
    assert fences.item["status"] == "owed"
    pair.east.cluster.start()
    until(lambda: pair.tanist("fence", "show", "fire", "--json", expected=None).item["status"] == "standing", 40)
    assert not pair.east.writes("fire", range(1))
    values = [int(value or 0) for _, _, value in pair.west.read("fire")]  # the reserve repeats the last ones
    assert set(values) == {*range(16), *range(100, 104)}
    assert [value for value in values if value >= 100] == [100, 102, 101, 103]
    assert all(values.count(value) == 1 for value in range(14))
    until(lambda: state(pair.east).promotions(MirrorName("fire"), "fire") == 1, 40)
    until(lambda: state(pair.east).lineage(MirrorName("fire")) == state(pair.west).lineage(MirrorName("fire")), 40)
    (entry,) = state(pair.east).lineage(MirrorName("fire"))
    assert entry.old_ends == (8, 8)
    checks = json.loads(pair.tanist("doctor", "--json", expected=None).out)["items"]
    sources = [check for check in checks if check["observed"].startswith("a source: ")]
    (reported,) = (
        each for each in sources if each["check"].endswith(" of east")
    )  # other tests promote its topics, too
    assert reported["verdict"] == "PASS"
    assert reported["observed"].endswith("were failed over to another cluster")
    _from_an_old_state(pair)


def state(side: KafkaSide) -> StateView:
    """The side's own state topic; empty where there is none."""
    try:
        with CompactedTopic.open(side.cluster.endpoint_for("mirror"), STATE_TOPIC, SOON(20), layout=SMALL) as store:
            return store.view()
    except UnknownTopicOrPartition:
        return NOTHING_YET


def _from_an_old_state(pair: Pair) -> None:
    """The destination's state topic is put back to what it was before the failover; only the source knows better."""
    fire, at = MirrorName("fire"), [MirrorPartition("fire", n) for n in range(2)]
    pair.tanist("fence", "lift", "fire", "--promoted")
    now = state(pair.west)
    topic = now["topic/fire/fire"]
    assert isinstance(topic, TopicDesired)
    before = replace(topic, desired=DesiredState.MIRRORING)
    forgotten = [Tombstone(f"partition/fire/fire/{n}") for n in range(2)] + [Tombstone("generation/fire/fire")]
    endpoint = pair.west.cluster.endpoint_for("mirror")
    with CompactedTopic.open(endpoint, STATE_TOPIC, SOON(20), layout=SMALL, writer=operator_of(fire)) as store:
        store.append([before, *forgotten], SOON(20))
    seen = pair.west.read("fire")
    assert pair.east.writes("fire", range(16, 20))
    until(lambda: {getattr(state(pair.west).observed(fire, each), "error", None) for each in at} == {REPLACED}, 60)
    assert pair.west.read("fire") == seen
    reported = pair.tanist("mirrors", "describe", "fire", "--json")
    assert {row["state"] for row in json.loads(reported.out)["items"]} == {"FAILED"}


def test_a_deleted_state_topic_after_a_promotion_overwrites_nothing(pair: Pair) -> None:
    """Without its memory no worker touches what was promoted, nor with an older one; neither may a new mirror.

    The worker that was there ends itself: it would hold its slices, and never hear of a mirror again.
    """
    worker = pair.worker()
    pair.mirror("forgotten", "forgotten")
    file = str(pair.home / "before.jsonl")
    pair.tanist("state", "export", "--file", file)
    pair.tanist("failover", "run", "forgotten", "--plan", pair.approved("forgotten"), *QUICK)
    assert pair.west.writes("forgotten", range(100, 110))
    refused = pair.tanist("state", "restore", file, "--mirror", "forgotten", expected=1)
    assert "STATE_IS_NEWER" in refused.err
    seen = pair.west.read("forgotten")
    client = AdminClient(pair.west.client("admin"))  # kept alive: it must outlive its futures
    client.delete_topics(["__mirror_state"])["__mirror_state"].result(20)
    SystemClock().wait(2)
    pair.worker("w9")
    until(lambda: not worker.alive, 40)
    assert "STATE_LOG_LOST" in (pair.home / "w1.log").read_text()
    again = pair.tanist("mirrors", "create", "forgotten", "--source", "east", "--topic", "forgotten", expected=1)
    assert "DESTINATION_TOPIC_NOT_EMPTY" in again.err
    assert REPLACED in again.err
    for asked in (("--without-source", "--dry-run"), ()):
        restored = pair.tanist("state", "restore", file, "--mirror", "forgotten", *asked, "--json")
        assert (restored.item["promoted"], restored.item["topics"]) == (["forgotten"], [])
        assert "forgotten was failed over since the export" in restored.err
    SystemClock().wait(2)
    assert pair.west.read("forgotten") == seen
    _old_epoch_is_refused(pair)


def _old_epoch_is_refused(pair: Pair) -> None:
    """Even a writer that knows the ids gets 47: they are low numbers here, so all of them are tried."""
    router = Router(pair.west.cluster.endpoint(), "tanist-test")
    at = MirrorPartition("forgotten", 0)
    producers = requests.describe_producers(router, [at], SystemClock().deadline(10))[at]
    assert not isinstance(producers, Exception)
    epochs = {each.producer_epoch for each in producers}
    assert {1, 32_767} <= epochs
    for each in producers:
        if each.producer_epoch in {1, 32_767}:
            probe = {at: Markers(each.producer_id, each.producer_epoch - 1, (0,))}
            answer = requests.write_markers(router, probe, SystemClock().deadline(10))[at]
            assert isinstance(answer, InvalidProducerEpoch)
    router.close()
