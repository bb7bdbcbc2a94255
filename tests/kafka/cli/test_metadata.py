"""`tanist metadata` on real clusters, without a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.cli.conftest import Broker, Tanist


@pytest.fixture
def mirror(topic_name: str, configured: Path, east: Broker, tanist: Tanist) -> str:
    """A mirror of every topic whose name begins like its own; there is one, of two partitions."""
    east.topic(topic_name, 2, retention_ms="12345", cleanup_policy="compact")
    answer = tanist("mirrors", "create", topic_name, "-s", "east", "-d", "west", "--topic", f"{topic_name}.*")
    assert answer.code == 0, answer.err
    return topic_name


def alter(broker: Broker, topic: str, **configs: str | None) -> None:
    entries = [
        ConfigEntry(
            name.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for future in broker.admin.incremental_alter_configs([resource]).values():
        future.result(10)


def grow(broker: Broker, topic: str, partitions: int) -> None:
    for future in broker.admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(10)


def rows_of(tanist: Tanist, *arguments: str, code: int) -> dict[tuple[str, str], tuple[str | None, str | None, str]]:
    """(name, change) of every row: source, destination, verdict."""
    answer = tanist("metadata", *arguments, "--json")
    assert answer.code == code, (answer.out, answer.err)
    return {(i["name"], i["change"]): (i["source"], i["destination"], i["verdict"]) for i in answer.items}


def test_everything_that_a_source_changes_follows_and_once_is_enough(
    tanist: Tanist, mirror: str, east: Broker, west: Broker
) -> None:
    """Partitions, configs set and taken away, what is held, a new topic; and a config that somebody set on the copy."""
    assert rows_of(tanist, "diff", mirror, code=0) == {}
    grow(east, mirror, 4)
    alter(east, mirror, retention_ms="54321", segment_ms="600000", min_insync_replicas="1")
    alter(west, mirror, retention_ms="999", flush_messages="7")
    east.topic(f"{mirror}-new", 3, retention_ms="777")
    wanted = {
        (mirror, "grow"): ("4", "2"),
        (f"{mirror}:retention.ms", "set"): ("54321", "999"),
        (f"{mirror}:retention.ms", "remember"): ("54321", "12345"),
        (f"{mirror}:segment.ms", "set"): ("600000", None),
        (f"{mirror}-new", "add"): ("3 partition(s)", None),
    }
    skipped = {
        (f"{mirror}:flush.messages", "none"): (None, "7", "SKIPPED"),
        (f"{mirror}:min.insync.replicas", "none"): ("1", None, "SKIPPED"),
    }
    differs = {key: (*value, "DIFFERS") for key, value in wanted.items()} | skipped
    assert rows_of(tanist, "diff", mirror, code=1) == differs
    assert rows_of(tanist, "sync", mirror, "-d", "west", "--dry-run", code=0) == differs
    assert f"{mirror}-new" not in west.topics()
    changed = {key: (*value, "CHANGED") for key, value in wanted.items()} | skipped
    assert rows_of(tanist, "sync", mirror, "-d", "west", code=0) == changed
    assert rows_of(tanist, "diff", mirror, code=0) == skipped
    again = tanist("metadata", "sync", mirror, "-d", "west")
    assert (again.code, again.err.splitlines()) == (0, ["change no topic", "nothing to do, 2 skipped"])
    described = tanist("mirrors", "describe", mirror, "-d", "west", "--json").items
    assert sorted((row["topic"], row["partition"]) for row in described) == [
        *((mirror, n) for n in range(4)),
        *((f"{mirror}-new", n) for n in range(3)),
    ]
    held = tanist("state", "dump", "-d", "west", "--key", f"topic/{mirror}/{mirror}").out
    assert '"54321"' in held


def test_a_fence_of_the_source_stays_there(tanist: Tanist, mirror: str, east: Broker) -> None:
    """Whoever fenced it; and when it is gone there is nothing to do."""
    alter(east, mirror, max_message_bytes="78")
    name = f"{mirror}:max.message.bytes"
    assert rows_of(tanist, "sync", mirror, "-d", "west", code=0) == {(name, "none"): (None, None, "SKIPPED")}
    alter(east, mirror, max_message_bytes=None)
    assert rows_of(tanist, "diff", mirror, code=0) == {}


def test_what_needs_a_person_ends_with_1_and_holds_up_nothing(
    tanist: Tanist, mirror: str, east: Broker, west: Broker
) -> None:
    """A copy with more partitions than its source, and a topic that is gone there; a third one follows."""
    for end in ("-b", "-c"):
        east.topic(f"{mirror}{end}", 1)
    assert rows_of(tanist, "sync", mirror, "-d", "west", code=0).keys() == {
        (f"{mirror}-b", "add"),
        (f"{mirror}-c", "add"),
    }
    grow(west, mirror, 3)
    east.admin.delete_topics([f"{mirror}-b"])[f"{mirror}-b"].result(10)
    grow(east, f"{mirror}-c", 2)
    assert rows_of(tanist, "sync", mirror, "-d", "west", code=1) == {
        (mirror, "none"): ("2", "3", "CONFLICT"),
        (f"{mirror}-b", "none"): (None, None, "CONFLICT"),
        (f"{mirror}-c", "grow"): ("2", "1", "CHANGED"),
    }
    assert f"{mirror}-b" in west.topics(), "nothing is ever deleted"


def test_bad_input_is_one_clear_error(tanist: Tanist, mirror: str) -> None:
    assert tanist("metadata", "diff", f"{mirror}-nope", "-d", "west").errors == ["UNKNOWN_MIRROR"]
    assert tanist("metadata", "diff", mirror, "--topic", "(").errors == ["INVALID_CONFIG"]
    assert tanist("metadata", "diff", mirror, "--topic", "nothing").errors == ["TOPIC_NOT_IN_MIRROR"]
    guessed = tanist("metadata", "sync", mirror)
    assert (guessed.code, guessed.errors) == (2, ["INVALID_CONFIG"])


def test_s3_5_drift_stays_until_a_reset_and_configs_that_are_excluded_stay_for_good(
    tanist: Tanist, mirror: str, east: Broker, west: Broker
) -> None:
    """Named in each comparison, and in `status`, which reads no config for it."""
    altered = tanist("mirrors", "alter", mirror, "-d", "west", "--config-exclude", "segment.*", "--json")
    assert altered.items[0]["config_exclude"] == ["segment.*"]
    alter(east, mirror, segment_ms="600000", min_insync_replicas="1")
    alter(west, mirror, flush_messages="7")
    synced = rows_of(tanist, "sync", mirror, "-d", "west", code=0)
    drift, excluded = (f"{mirror}:flush.messages", "none"), (f"{mirror}:segment.ms", "none")
    assert synced[drift] == (None, "7", "SKIPPED")
    assert synced[excluded] == ("600000", None, "SKIPPED")
    assert synced[f"{mirror}:min.insync.replicas", "set"] == ("1", None, "CHANGED")
    checks = {each["name"]: each for each in tanist("status", mirror, "-d", "west", "--json").items[0]["checks"]}
    assert f"{mirror}:flush.messages" in checks["drift"]["observed"]
    assert rows_of(tanist, "diff", mirror, "--reset", code=1)[f"{mirror}:flush.messages", "reset"][2] == "DIFFERS"
    reset = rows_of(tanist, "sync", mirror, "-d", "west", "--reset", code=0)
    assert reset[f"{mirror}:flush.messages", "reset"] == (None, "7", "CHANGED")
    assert set(rows_of(tanist, "diff", mirror, code=0)) == {excluded}
