"""Workers do what the DAGs do, where a mirror says so: its metadata and its groups follow, by one of them at a time."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions

from tests.kafka.failover.conftest import SOON, running
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide, Pair

EVERY: Final = ("--sync-metadata", "1s", "--sync-groups", "2s")


def grow(side: KafkaSide, topic: str, partitions: int) -> None:
    client = AdminClient(side.client("admin"))
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(20)


def configure(side: KafkaSide, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient(side.client("admin"))
    client.incremental_alter_configs([resource])[resource].result(20)


def config_of(side: KafkaSide, topic: str, name: str) -> str | None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = AdminClient(side.client("admin"))
    found = client.describe_configs([resource])[resource].result(20)
    return str(found[name].value)


def described(pair: Pair, mirror: str) -> dict[str, Any]:
    """What `describe` says of the mirror beside its partitions."""
    items = json.loads(pair.tanist("mirrors", "describe", mirror, "--json").out)["items"]
    return dict(items[0]) | {"partitions": len(items)}


def duties(pair: Pair, mirror: str) -> dict[str, dict[str, Any]]:
    return {each["duty"]: each for each in described(pair, mirror)["duties"]}


def check_of(pair: Pair, mirror: str, name: str) -> dict[str, Any] | None:
    item = json.loads(pair.tanist("status", mirror, "--json", expected=None).out)["items"][0]
    return next((check for check in item["checks"] if check["name"] == name), None)


def runs_of(pair: Pair, mirror: str, duty: str) -> list[dict[str, Any]]:
    """Every record of a duty that is still in the log of the state topic, the oldest first."""
    consumer = Consumer(pair.west.client("admin", group_id="look", enable_partition_eof="true"))
    consumer.assign([TopicPartition("__mirror_state", 0, 0)])
    found: list[dict[str, Any]] = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return found
        if message.key() == f"duty/{mirror}/{duty}".encode() and message.value() is not None:
            found.append(json.loads(message.value() or b""))


@pytest.fixture
def mirror(pair: Pair, topic_name: str) -> Iterator[str]:
    """A mirror of one topic of the same name, all of it copied, whose duties two workers share.

    Tests that come later freeze the worker of the pair: a second one would take over what it has.
    """
    pair.worker()
    second = pair.worker("w2")
    pair.mirror(topic_name, topic_name)
    yield topic_name
    pair.tanist("mirrors", "alter", topic_name, "--sync-metadata", "off", "--sync-groups", "off", expected=None)
    second.send(signal.SIGTERM)
    assert second.wait(SOON(25))


def doers(pair: Pair, mirror: str) -> set[str]:
    """The workers that did the last run of each duty."""
    return {each["worker"] for each in duties(pair, mirror).values()}


def test_s3_5_s3_6_without_airflow_metadata_and_groups_follow_by_themselves(pair: Pair, mirror: str) -> None:
    """Of two workers the owner does each once an interval; when it is killed, the other one goes on."""
    assert described(pair, mirror)["duties"] == []
    altered = pair.tanist("mirrors", "alter", mirror, *EVERY, "--json").item
    assert (altered["sync_metadata_seconds"], altered["workers_sync_groups"], altered["sync_groups_seconds"]) == (
        1,
        True,
        2,
    )
    grow(pair.east, mirror, 3)
    configure(pair.east, mirror, "segment.ms", "600000")
    pair.east.commit(mirror, mirror, 3)
    until(lambda: pair.west.committed(mirror, mirror) == 3, 60)
    until(lambda: described(pair, mirror)["partitions"] == 3, 60)
    until(lambda: config_of(pair.west, mirror, "segment.ms") == "600000", 60)
    check = check_of(pair, mirror, "duties")
    assert check is not None
    assert check["verdict"] == "PASS", check
    until(lambda: len(doers(pair, mirror)) == 1, 60)  # each duty is the other worker's until both have joined
    done = duties(pair, mirror)
    assert {(each["failures"], each["error"]) for each in done.values()} == {(0, None)}
    (owner,) = doers(pair, mirror)
    lines = pair.tanist("mirrors", "describe", mirror).err
    assert f"mirror {mirror}: workers sync metadata every 1 s; workers sync groups every 2 s" in lines
    assert f"mirror {mirror}: groups every 2 s: " in lines
    for duty, every_ms in (("metadata", 1_000), ("groups", 2_000)):
        ends = [each["at"] for each in runs_of(pair, mirror, duty)]
        assert len(ends) > 1
        assert min(after - before for before, after in pairwise(ends)) >= every_ms, "each is done once an interval"
    pair.workers[owner].send(signal.SIGKILL)
    pair.east.commit(mirror, mirror, 4)
    until(lambda: pair.west.committed(mirror, mirror) == 4, 120)
    assert {each["worker"] for each in duties(pair, mirror).values()} == {"w1", "w2"} - {owner}


def test_commands_and_workers_at_once_do_the_same_and_say_so(pair: Pair, mirror: str) -> None:
    """Whoever comes second is refused or finds nothing to do; nothing is done twice, and no worker ends."""
    pair.tanist("mirrors", "alter", mirror, *EVERY)
    pair.east.commit(mirror, mirror, 5)
    codes = set()
    for _ in range(5):
        for command in (("groups", "sync"), ("metadata", "sync")):
            answer = pair.tanist(*command, mirror, "--yes", expected=None)
            codes.add(answer.code)
            assert answer.code == 0 or "MIRROR_LOCKED" in answer.err, answer.err
    assert 0 in codes
    assert pair.west.committed(mirror, mirror) == 5
    until(lambda: set(duties(pair, mirror)) == {"metadata", "groups"}, 60)
    pair.tanist("mirrors", "alter", mirror, "--sync-metadata", "off", "--sync-groups", "off")
    assert check_of(pair, mirror, "duties") is None


def test_a_dead_source_is_counted_and_named_and_stops_nothing_else(pair: Pair, mirror: str) -> None:
    """Groups need no source: the positions that are stored are committed. Metadata does, until it is back."""
    pair.tanist("mirrors", "alter", mirror, *EVERY)
    until(lambda: set(duties(pair, mirror)) == {"metadata", "groups"}, 60)
    pair.east.cluster.kill()
    until(lambda: duties(pair, mirror)["metadata"]["failures"] > 1, 120)
    failed = duties(pair, mirror)
    assert failed["metadata"]["error"] in {"UNREACHABLE", "TIMED_OUT", "CONNECTION_LOST", "UNKNOWN"}
    assert failed["metadata"]["reason"]
    assert failed["groups"]["error"] is None
    until(lambda: (check_of(pair, mirror, "duties") or {}).get("verdict") == "FAIL", 60)
    check = check_of(pair, mirror, "duties")
    assert check is not None
    assert f"`tanist metadata sync {mirror} --destination west`" in check["reason"]
    assert pair.workers["w1"].alive
    assert pair.workers["w2"].alive
    owner = pair.workers[failed["metadata"]["worker"]]
    owner.send(signal.SIGTERM)
    assert owner.wait(SOON(25)), "it ends although it waits for the source"
    pair.east.cluster.start()
    until(lambda: duties(pair, mirror)["metadata"]["failures"] == 0, 120)


SOON_EXPIRED: Final = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}


@pytest.mark.long  # the rule of it is in tests/unit/usecases/test_rewinds.py
def test_s3_6_positions_that_brokers_have_expired_are_there_again_after_the_next_run(
    guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of a group that nobody reads with, and of one that had a member here, whose time counts from when that left."""
    home, groups = tmp_path_factory.mktemp("expired"), ("idle", "had-a-member")
    with running(guardian, client_config, home, authorizer=False, properties=SOON_EXPIRED) as pair:
        pair.worker()
        pair.mirror("kept", "kept")
        for group in groups:
            pair.east.commit(group, "kept", 3)
        pair.tanist("mirrors", "alter", "kept", "--sync-groups", "1s")
        until(lambda: all(pair.west.committed(group, "kept") == 3 for group in groups), 60)
        member = Consumer(pair.west.client(group_id=groups[1], enable_auto_commit="false"))
        member.subscribe(["kept"])
        until(lambda: member.poll(0.1) is None and member.assignment() != [], 60)
        member.close()
        pair.tanist("mirrors", "alter", "kept", "--sync-groups", "20s")
        for group in groups:
            until(lambda group=group: pair.west.committed(group, "kept") < 0, 150)  # type: ignore[misc]
            until(lambda group=group: pair.west.committed(group, "kept") == 3, 40)  # type: ignore[misc]
