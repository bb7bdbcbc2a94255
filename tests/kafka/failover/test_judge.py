"""Damage, loss and age on real clusters: what status and plan must not be silent about."""

from __future__ import annotations

import json
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from tanist.domain.names import MirrorPartition
from tanist_testkit.sandbox import forks
from tests.kafka.failover.conftest import COMMAND_SECONDS
from tests.kafka.failover.test_metadata import delete_before, grow, write
from tests.kafka.failover.test_reserve import steadily
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kafka.failover.conftest import KafkaSide, Pair

QUICK = ("--fence-proof", "1s", "--drain", "30s", "--budget", "2s", "--json")


def limitations(pair: Pair, mirror: str, topic: str, *options: str) -> dict[str, bool]:
    """What the plan of a planned failover of `topic` says, and whether it blocks."""
    plan = pair.tanist("failover", "plan", mirror, "--topic", topic, *options, "--json", expected=None).item
    return {each["name"]: each["blocks"] for each in plan["limitations"]}


def status(pair: Pair, mirror: str, expected: int) -> dict[str, Any]:
    return pair.tanist("status", mirror, "--json", expected=expected).item


def configure(side: KafkaSide, topic: str, name: str, value: str) -> None:
    """As somebody with a console would."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient(side.client("admin"))
    for done in client.incremental_alter_configs([resource]).values():
        done.result(20)


def again(side: KafkaSide, topic: str) -> None:
    """Deleted and created again, with the partitions that it had."""
    client = AdminClient(side.client("admin"))
    client.delete_topics([topic])[topic].result(20)
    until(lambda: topic not in client.list_topics(timeout=10).topics, 20)
    side.topic(topic)


def test_a_damaged_copy_is_named_and_blocks_in_status_and_plan(pair: Pair) -> None:
    """It was GO, with lag 0, 0 at risk, and a plan without a limitation; a group moved from 10 to 30."""
    worker = pair.worker()
    pair.mirror("judged", "cut", "kept-short", "compacted", "stamped", "wide", "reborn")
    found = status(pair, "judged", 0)
    for mode in ("planned", "unplanned"):
        assert {each["name"] for each in found["limitations"][mode] if not each["usual"]} == set()
    worker.send(signal.SIGSTOP)
    try:
        delete_before(pair.west, MirrorPartition("cut", 0), 3)
        configure(pair.west, "kept-short", "retention.ms", "1000")
        configure(pair.west, "compacted", "cleanup.policy", "compact")
        configure(pair.west, "stamped", "message.timestamp.type", "LogAppendTime")
        grow(pair.west, "wide", 4)
        write(pair.west, "wide", range(2, 4), range(5))
        again(pair.west, "reborn")
        write(pair.west, "reborn", range(2), range(5))
        found = status(pair, "judged", 1)
        assert (found["planned"], found["unplanned"]) == ("NO-GO", "ACCEPT")
        named = {each["name"]: each["detail"] for each in found["limitations"]["planned"]}
        assert "cut-0 begins at 3: 3 offsets are missing" in named["COPY_TRUNCATED"]
        assert "wide has 4 instead of 2" in named["COPY_HAS_MORE_PARTITIONS"]
        assert "kept-short: retention.ms=1000" in named["COPY_CONFIGS_ALTERED"]
        assert "compacted: cleanup.policy=compact" in named["COPY_CONFIGS_ALTERED"]
        assert "stamped: message.timestamp.type=LogAppendTime" in named["COPY_CONFIGS_ALTERED"]
        assert "reborn was deleted and re-created at the destination" in named["TOPIC_RECREATED"]
        assert limitations(pair, "judged", "cut", "--max-loss", "2")["BEYOND_TOLERANCE"]
        assert "BEYOND_TOLERANCE" not in limitations(pair, "judged", "cut", "--max-loss", "3")
        for topic, name in (
            ("cut", "COPY_TRUNCATED"),
            ("wide", "COPY_HAS_MORE_PARTITIONS"),
            ("kept-short", "COPY_CONFIGS_ALTERED"),
            ("reborn", "TOPIC_RECREATED"),
        ):
            assert limitations(pair, "judged", topic)[name], f"{topic} can be approved"
    finally:
        worker.send(signal.SIGCONT)
    pair.tanist("metadata", "sync", "judged", "--yes", expected=None)
    assert "COPY_CONFIGS_ALTERED" not in limitations(pair, "judged", "kept-short|compacted|stamped")


def test_a_source_that_deleted_records_leaves_its_copy_as_it_is(pair: Pair) -> None:
    """A copy may hold more at the start than its source, never less."""
    worker = pair.worker()
    pair.east.topic("older")
    assert pair.east.writes("older", range(10))
    pair.tanist("mirrors", "create", "older", "--source", "east", "--topic", "older")
    pair.tanist("mirrors", "wait", "older", "--for", "lag=0", "--timeout", "200s")
    worker.send(signal.SIGSTOP)
    try:
        delete_before(pair.east, MirrorPartition("older", 0), 4)
        assert not any(limitations(pair, "older", "older").values())
    finally:
        worker.send(signal.SIGCONT)
    until(lambda: pair.west.read("older") == pair.east.read("older"), 20)
    assert not any(limitations(pair, "older", "older").values())


def test_records_that_are_deleted_from_the_copy_while_a_run_waits_stop_it_before_the_point_of_no_return(
    pair: Pair,
) -> None:
    """What is looked at again last is looked at anew."""
    pair.worker()
    pair.mirror("late", "late")
    plan = pair.approved("late")
    pair.tanist("failover", "run", "late", "--plan", plan, *QUICK, "--until", "groups")
    delete_before(pair.west, MirrorPartition("late", 1), 2)
    stopped = pair.tanist("failover", "run", "late", "--plan", plan, *QUICK, expected=1)
    assert "COPY_TRUNCATED" in stopped.out + stopped.err
    assert not pair.tanist("failover", "status", "late", "--json", expected=4).item["past_no_return"]
    pair.tanist("failover", "abort", "late", "--evidence", str(pair.home / plan))
    assert pair.east.writes("late", range(100, 104))


def paused(pair: Pair, topic: str) -> None:
    pair.tanist("mirrors", "pause", topic, "--topic", topic, "--destination", "west")
    pair.tanist("mirrors", "wait", topic, "--for", "state=PAUSED", "--timeout", "200s")


def failed(pair: Pair, topic: str) -> None:
    """The destination does not take what the source took: a record that comes next fails each partition."""
    configure(pair.west, topic, "max.message.bytes", "66")
    assert pair.east.writes(topic, range(90, 92))

    def states() -> set[str]:
        return {row["state"] for row in json.loads(pair.tanist("mirrors", "describe", topic, "--json").out)["items"]}

    until(lambda: states() == {"FAILED"}, 30)


@pytest.mark.parametrize(("halted", "left"), [(paused, 0), pytest.param(failed, 2, marks=pytest.mark.long)])
def test_what_a_topic_that_is_not_copied_takes_after_the_plan_is_lost_by_nobodys_leave(
    pair: Pair, halted: Callable[[Pair, str], None], left: int
) -> None:
    """Forty records acknowledged at the source: DONE, all forty missing, not a word, the same hash."""
    pair.worker()
    topic = f"halted-{left}"
    pair.mirror(topic, topic)
    halted(pair, topic)
    assert status(pair, topic, 0)["planned"] == "ACCEPT"
    plan = pair.approved(topic)
    assert pair.east.writes(topic, range(100, 140))
    stopped = pair.tanist("failover", "run", topic, "--plan", plan, *QUICK, expected=1)
    assert f"BEYOND_TOLERANCE: {left + 40} offsets at risk; {left} tolerated" in stopped.out + stopped.err
    assert pair.east.writes(topic, range(140, 142)), "nothing was changed"
    shown = pair.tanist("failover", "plan", topic, "--json").item
    assert (shown["forecast"]["offsets_at_risk"], shown["forecast"]["loss_tolerance"]) == (left + 42, left + 42)
    assert shown["plan_hash"] != plan


@pytest.mark.long
def test_when_nobody_looks_at_a_source_what_it_takes_is_unknown(pair: Pair) -> None:
    """The worker died before the source did: "0 offsets are lost at most", and 50 records were."""
    worker = pair.worker("mortal")
    pair.mirror("unseen", "unseen")
    gone = pair.environment()
    file = pair.home / "gone.toml"
    text = (pair.home / "mirror.toml").read_text()
    file.write_text(re.sub(r'(\[clusters\.east\][^[]*?bootstrap_servers = )"[^"]*"', r'\1"127.0.0.1:9"', text))

    def without_source(*options: str) -> dict[str, Any]:
        asked = ("failover", "plan", "unseen", "--mode", "unplanned", *options, "--json", "--destination", "west")
        done = forks.Command(forks.COMMANDS, asked, {**gone, "TANIST_CONFIG": str(file)}, pair.home).wait(
            COMMAND_SECONDS
        )
        return dict(json.loads(done.out))

    def plan(*options: str) -> dict[str, Any]:
        return dict(without_source(*options)["items"][0])

    until(lambda: plan("--max-loss", "99")["forecast"]["estimate"] == 0, 20)
    busy = threading.Thread(target=steadily, args=(pair.east, "unseen", 20.0, 1_000))
    busy.start()
    until(lambda: [each["name"] for each in without_source()["errors"]] == ["SOURCE_SEEN_BY_WORKERS"], 20)
    busy.join()
    pair.dismiss()
    until(lambda: not worker.alive, 10)
    assert pair.east.writes("unseen", range(100, 150))
    before = plan()
    pair.clock.wait(31)
    found = plan()
    assert (found["verdict"], found["plan_hash"]) == ("ACCEPT", before["plan_hash"]), "the clock changes no plan"
    said = {each["name"]: each["detail"] for each in found["limitations"]}["RECORDS_UNSEEN"]
    assert "not seen for more than 30 s when it fell silent: unseen-0" in said
    assert not found["forecast"]["final"]
    assert "at most" not in json.dumps(found)
