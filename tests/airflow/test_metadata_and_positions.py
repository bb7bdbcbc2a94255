"""The two scheduled DAGs, run whole in this process, on real clusters with access rules and a worker.

Each run goes through every mirror that there is: this file's name lets it run before the failovers, which leave many.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tanist_testkit.sandbox.airflow.rest import AirflowConnection
from tests.airflow.conftest import environment

if TYPE_CHECKING:
    from tests.airflow.conftest import House, Ran
    from tests.kafka.failover.conftest import KafkaSide, Pair

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True)
def connections(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """East and west as the mirror's user; north, where nobody listens."""
    north = AirflowConnection(id="north", type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
    for name, value in environment(*pair.connections(), north).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TANIST_DESTINATIONS", "west")


@pytest.fixture
def mirror(pair: Pair, topic_name: str) -> str:
    """A mirror of one topic of the same name, all of it copied."""
    pair.worker()
    pair.mirror(topic_name, topic_name)
    return topic_name


def grow(side: KafkaSide, topic: str, partitions: int) -> None:
    client = AdminClient(side.client("admin"))
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(20)


def came_of(ran: Ran) -> dict[str, dict[str, Any]]:
    """What the report says of each mirror, and the state of its task."""
    found = ran.left("report", "return_value")
    return {each["mirror"]: each | {"state": ran.tasks[f"sync[{n}]"]} for n, each in enumerate(found)}


def committed(side: KafkaSide, group: str, topic: str) -> list[int]:
    consumer = Consumer(side.client(group_id=group))
    found = consumer.committed([TopicPartition(topic, n) for n in range(2)], timeout=20)
    consumer.close()
    return [each.offset for each in found]


def test_metadata_follows_and_a_second_run_has_nothing_to_do(house: House, pair: Pair, mirror: str) -> None:
    """Into the record, so that the worker copies the new partitions."""
    grow(pair.east, mirror, 3)
    dag = house.dag("mirror_metadata_sync")
    first = came_of(house.run(dag, {}))[f"west/{mirror}"]
    assert (first["done"], first["wrong"], first["state"]) == ("1 changed", "", "success")
    pair.tanist("mirrors", "wait", mirror, "--for", "state=MIRRORING", "--timeout", "200s")
    rows = json.loads(pair.tanist("mirrors", "describe", mirror, "--json").out)["items"]
    assert len(rows) == 3
    second = came_of(house.run(dag, {}))[f"west/{mirror}"]
    assert (second["done"], second["state"]) == ("nothing to do", "success")
    pair.tanist("mirrors", "alter", mirror, "--sync-metadata", "1h")  # which a worker does at once: harmless, and said
    third = came_of(house.run(dag, {}))[f"west/{mirror}"]
    assert third["state"] in {"success", "skipped"}
    assert "workers do the same every 3600 s" in third["done"] or "skipped" in third["done"]


def test_what_is_broken_fails_alone_and_says_so(
    house: House, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A destination that is dead, a mirror that needs a person: the others are done, and the run is red."""
    other = f"{mirror}-other"
    pair.mirror(other, other)
    grow(pair.east, mirror, 3)
    grow(pair.west, other, 3)
    monkeypatch.setenv("TANIST_DESTINATIONS", "north, west")
    ran = house.run(house.dag("mirror_metadata_sync"), {})
    found = came_of(ran)
    assert ran.state == "failed"
    assert (found[f"west/{mirror}"]["done"], found[f"west/{mirror}"]["state"]) == ("1 changed", "success")
    assert found[f"west/{other}"]["state"] == "failed"
    assert "partitions cannot be removed" in found[f"west/{other}"]["wrong"]
    assert found["north/?"]["state"] == "failed"
    assert "UNREACHABLE" in found["north/?"]["wrong"]
    grow(pair.east, other, 3)  # the person has decided


def test_positions_of_groups_are_committed_at_the_destination(house: House, pair: Pair, mirror: str) -> None:
    consumer = Consumer(pair.east.client(group_id=mirror))
    consumer.commit(offsets=[TopicPartition(mirror, n, 3 + n) for n in range(2)], asynchronous=False)
    consumer.close()
    found = came_of(house.run(house.dag("mirror_group_offsets"), {}))[f"west/{mirror}"]
    assert (found["state"], found["wrong"]) == ("success", "")
    assert "committed 2 of" in found["done"]
    assert committed(pair.west, mirror, mirror) == [3, 4]


@pytest.mark.long
def test_while_a_failover_holds_a_mirror_both_stand_back(house: House, pair: Pair, mirror: str) -> None:
    """It is skipped with the reason, not red; nothing of it is touched, and the failover goes on undisturbed."""
    plan = pair.approved(mirror)
    assert pair.killed("nowhere", mirror, plan, "fence") == 0
    grow(pair.east, mirror, 3)
    for name in ("mirror_metadata_sync", "mirror_group_offsets"):
        found = came_of(house.run(house.dag(name), {}))[f"west/{mirror}"]
        assert found["state"] == "skipped"
        assert f"skipped: failover {plan}" in found["done"]
    assert f"MIRROR_LOCKED: failover {plan}" in pair.tanist("groups", "sync", mirror, "--yes", expected=1).err
    pair.tanist("failover", "abort", mirror)
    assert "1 differs" in pair.tanist("metadata", "diff", mirror, expected=1).err


def test_which_clusters_hold_mirrors_must_be_said(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TANIST_DESTINATIONS")
    ran = house.run(house.dag("mirror_group_offsets"), {})
    assert (ran.state, ran.tasks["mirrors"]) == ("failed", "failed")
    assert "TANIST_DESTINATIONS" in ran.why("mirrors")


@pytest.mark.parametrize("name", ["mirror_metadata_sync", "mirror_group_offsets"])
def test_a_scheduled_run_never_overlaps_and_never_catches_up(house: House, name: str) -> None:
    dag = house.dag(name)
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert {"tanist", "kafka"} <= set(dag.tags)
