"""Mirrors through the command line: the whole life without a worker, and every bad input."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.kafka.cli.conftest import Broker, Tanist


@pytest.fixture
def name(topic_name: str) -> str:
    """Of a mirror and of its topic: nobody else uses it."""
    return topic_name


@pytest.fixture
def mirror(name: str, configured: Path, east: Broker, tanist: Tanist) -> str:
    """A mirror of one topic of two partitions."""
    east.topic(name, 2, retention_ms="12345")
    answer = tanist("mirrors", "create", name, "--source", "east", "--destination", "west", "--topic", name)
    assert answer.code == 0, answer.err
    assert f"mirror 1 topic(s): {name}" in answer.err
    return name


def described(tanist: Tanist, name: str) -> list[dict[str, object]]:
    answer = tanist("mirrors", "describe", name, "--destination", "west", "--json")
    assert answer.code == 0, answer.err
    return answer.items


def test_create_describe_pause_resume_alter(tanist: Tanist, mirror: str, west: Broker) -> None:
    """The life of a mirror as far as no worker is needed."""
    assert {mirror, "__mirror_state", "__mirror_offsets"} <= west.topics()
    rows = described(tanist, mirror)
    assert [(row["partition"], row["lag"], row["state"], row["mode"]) for row in rows] == [
        (0, 0, "UNKNOWN", "identical"),
        (1, 0, "UNKNOWN", "identical"),
    ]
    there = ("--destination", "west", "--topic", mirror)
    assert tanist("mirrors", "pause", mirror, *there, "--json").items == [
        {"mirror": mirror, "topic": mirror, "state": "PAUSED"}
    ]
    assert tanist("mirrors", "pause", mirror, *there).errors == ["MIRROR_TOPIC_ALREADY_PAUSED"]
    assert tanist("mirrors", "resume", mirror, *there).code == 0
    assert tanist("mirrors", "resume", mirror, *there).errors == ["MIRROR_TOPIC_NOT_PAUSED"]
    altered = tanist("mirrors", "alter", mirror, "-d", "west", "--max-start-fill", "7", "--json")
    assert altered.items[0]["max_start_fill"] == 7
    assert tanist("mirrors", "delete", mirror, "-d", "west").errors == ["MIRROR_NOT_EMPTY"]
    (listed,) = [item for item in tanist("mirrors", "list", "--json").items if item["mirror"] == mirror]
    assert listed["topics"] == 1
    assert listed["bootstrap_server"]


def test_the_destination_is_found_for_reading_and_never_for_changes(tanist: Tanist, mirror: str) -> None:
    assert tanist("mirrors", "describe", mirror).code == 0
    guessed = tanist("mirrors", "pause", mirror, "--topic", mirror)
    assert (guessed.code, guessed.errors) == (2, ["INVALID_CONFIG"])
    assert "--destination" in guessed.err


def test_bootstrap_server_stands_in_for_a_configured_name(
    tanist: Tanist, mirror: str, clusters: Mapping[str, SandboxCluster], configured: Path
) -> None:
    """Under the address of a configured cluster it is that cluster; else nothing but the address is known of it."""
    there = ("--bootstrap-server", clusters["west"].bootstrap_servers)
    assert tanist("mirrors", "pause", mirror, *there, "--topic", mirror).code == 0
    configured.write_text("")
    assert tanist("mirrors", "describe", mirror, *there).errors == ["UNSAFE_STATE_TOPIC"], "allowed by name only"


def test_an_empty_mirror_can_be_deleted(tanist: Tanist, name: str, configured: Path) -> None:
    assert tanist("mirrors", "create", name, "-s", "east", "-d", "west").code == 0
    assert tanist("mirrors", "delete", name, "-d", "west").code == 0
    assert tanist("mirrors", "delete", name, "-d", "west").errors == ["UNKNOWN_MIRROR"]


def test_the_same_again_says_that_nothing_was_changed(tanist: Tanist, mirror: str) -> None:
    again = tanist("mirrors", "create", mirror, "-s", "east", "-d", "west", "--topic", mirror, "--json")
    assert again.code == 0
    assert "nothing was changed" in again.err
    assert again.items[0]["changed"] is False
    other = tanist("mirrors", "create", mirror, "-s", "east", "-d", "west", "--topic", ".*")
    assert (other.code, other.errors) == (1, ["MIRROR_ALREADY_EXISTS"])


def test_wait_tells_what_is_missing(tanist: Tanist, mirror: str) -> None:
    answer = tanist("mirrors", "wait", mirror, "-d", "west", "--for", "state=MIRRORING", "--timeout", "2s")
    assert (answer.code, answer.errors) == (1, ["WAIT_TIMED_OUT"])
    assert f"{mirror}-0 is UNKNOWN" in answer.err
    answer = tanist("mirrors", "wait", mirror, "-d", "west", "--for", "lag=0", "--timeout", "2s")
    assert (answer.code, answer.errors) == (1, ["WAIT_TIMED_OUT"])
    assert f"{mirror}-0 is UNKNOWN, lag 0" in answer.err
    assert tanist("mirrors", "wait", mirror, "-d", "west", "--for", "lag=1").code == 2
    only = ("--for", "state=MIRRORING", "--topic", "another", "--timeout", "9s")
    assert tanist("mirrors", "wait", mirror, "-d", "west", *only).errors == ["TOPIC_NOT_IN_MIRROR"]


def test_status_and_doctor_and_dump_see_the_mirror(tanist: Tanist, mirror: str) -> None:
    status = tanist("status", mirror, "--json")
    assert status.code == 3
    item = status.items[0]
    assert (item["planned"], item["unplanned"]) == ("UNKNOWN", "ACCEPT"), "no worker has reported anything"
    assert "PARTITION_UNKNOWN" in {each["name"] for each in item["limitations"]["unplanned"]}
    shown = tanist("status", mirror, "--mode", "unplanned", "--json")
    assert (shown.code, set(shown.items[0]["limitations"]), "planned" in shown.items[0]) == (0, {"unplanned"}, False)
    doctor = tanist("doctor", "--json")
    assert {item["verdict"] for item in doctor.items if item["check"].startswith("cluster")} == {"PASS"}
    lines = tanist("state", "dump", "-d", "west", "--key", f"topic/{mirror}/").out.splitlines()
    assert len(lines) == 1
    assert '"wish": "MIRRORING"' in lines[0]


def test_following_the_state_ends_with_its_timeout(tanist: Tanist, mirror: str) -> None:
    """It went on for ever whatever was said."""
    start = time.monotonic()
    answer = tanist("state", "dump", "-d", "west", "--key", f"topic/{mirror}/", "--follow", "--timeout", "3s")
    assert answer.code == 0, answer.err
    assert 2.5 < time.monotonic() - start < 15
    assert len(answer.out.splitlines()) == 1


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────────────────────

BAD = {
    "forbidden suffix": (("x.removed", "--topic", "{t}"), 2, ["INVALID_MIRROR_NAME"]),
    "another forbidden suffix": (("x.paused", "--topic", "{t}"), 2, ["INVALID_MIRROR_NAME"]),
    "not a name": (("a b", "--topic", "{t}"), 2, ["INVALID_MIRROR_NAME"]),
    "bad regex": (("{t}", "--topic", "("), 2, ["INVALID_CONFIG"]),
    "regex of death": (("{t}", "--topic", "(a+)+$"), 2, ["INVALID_CONFIG"]),
    "unknown topic": (("{t}", "--topic", "{t}-nope"), 1, ["UNKNOWN_TOPIC"]),
    "unknown source": (("{t}", "--topic", "{t}", "--source", "nowhere"), 2, ["INVALID_CONFIG"]),
    "onto itself": (("{t}", "--topic", "{t}", "--source", "west"), 1, ["SAME_CLUSTER"]),
    "at least once": (("{t}", "--topic", "{t}", "--delivery", "at-least-once"), 1, ["UNSUPPORTED_VERSION"]),
    "mapped, adopting": (("{t}", "--topic", "{t}", "--offsets", "mapped", "--adopt"), 1, ["UNSUPPORTED_VERSION"]),
    "mapped, too slow": (("{t}", "--offsets", "mapped", "--transaction-ms", "60000"), 2, ["INVALID_CONFIG"]),
    "records": (("{t}", "--topic", "{t}", "--engine", "records"), 1, ["UNSUPPORTED_VERSION"]),
    "no such engine": (("{t}", "--topic", "{t}", "--engine", "steam"), 2, ["INVALID_USAGE"]),
    "too many replicas": (("{t}", "--topic", "{t}", "--replication-factor", "5"), 2, ["INVALID_CONFIG"]),
    "two at once": (("x.paused", "--topic", "["), 2, ["INVALID_CONFIG", "INVALID_MIRROR_NAME"]),
}


def snapshot(tanist: Tanist, west: Broker) -> tuple[set[str], str]:
    state = tanist("state", "dump", "-d", "west", "--key", "mirror/").out if "__mirror_state" in west.topics() else ""
    return west.topics(), state


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_changes_nothing(
    tanist: Tanist, name: str, configured: Path, east: Broker, west: Broker, case: str
) -> None:
    arguments, code, errors = BAD[case]
    east.topic(name)
    before = snapshot(tanist, west)
    source = () if "--source" in arguments else ("--source", "east")
    answer = tanist("mirrors", "create", *(a.format(t=name) for a in arguments), *source, "--destination", "west")
    assert (answer.code, sorted(answer.errors)) == (code, errors), answer.err
    assert snapshot(tanist, west) == before


def test_a_topic_with_records_is_not_taken(
    tanist: Tanist, name: str, configured: Path, east: Broker, west: Broker, clusters: Mapping[str, SandboxCluster]
) -> None:
    east.topic(name)
    west.topic(name)
    producer = Producer({"bootstrap.servers": clusters["west"].bootstrap_servers})
    producer.produce(name, b"mine")
    producer.flush(10)
    before = snapshot(tanist, west)
    answer = tanist("mirrors", "create", name, "-s", "east", "-d", "west", "--topic", name)
    assert (answer.code, answer.errors) == (1, ["DESTINATION_TOPIC_NOT_EMPTY"])
    assert snapshot(tanist, west) == before


def test_an_empty_topic_with_another_partition_count_is_not_taken(
    tanist: Tanist, name: str, configured: Path, east: Broker, west: Broker
) -> None:
    east.topic(name, 3)
    west.topic(name, 2)
    answer = tanist("mirrors", "create", name, "-s", "east", "-d", "west", "--topic", name)
    assert (answer.code, answer.errors) == (1, ["TOPIC_MISMATCH"])


def test_a_topic_belongs_to_one_mirror(tanist: Tanist, mirror: str, west: Broker) -> None:
    before = snapshot(tanist, west)
    answer = tanist("mirrors", "create", f"{mirror}-2", "-s", "east", "-d", "west", "--topic", mirror)
    assert (answer.code, answer.errors) == (1, ["TOPIC_ALREADY_IN_MIRROR"])
    assert snapshot(tanist, west) == before


@pytest.mark.parametrize("command", ["describe", "pause", "resume", "add", "alter", "delete", "wait"])
def test_an_unknown_mirror_is_named(tanist: Tanist, mirror: str, command: str) -> None:
    more = {
        "describe": (),
        "delete": (),
        "alter": ("--max-start-fill", "1"),
        "wait": ("--for", "lag=0"),
    }.get(command, ("--topic", ".*"))
    answer = tanist("mirrors", command, "no-such-mirror", "-d", "west", *more)
    assert (answer.code, answer.errors) == (1, ["UNKNOWN_MIRROR"]), answer.err


@pytest.mark.parametrize("where", ["source", "destination"])
def test_a_dead_cluster_is_told_within_ten_seconds(
    tanist: Tanist, name: str, configured: Path, west: Broker, where: str
) -> None:
    file = configured.read_text() + '[clusters.gone]\nbootstrap_servers = "127.0.0.1:9"\n'
    configured.write_text(file)
    pair = ("gone", "west") if where == "source" else ("east", "gone")
    start = time.monotonic()
    answer = tanist("mirrors", "create", name, "-s", pair[0], "-d", pair[1], "--topic", ".*")
    assert time.monotonic() - start < 10
    assert (answer.code, answer.errors) == (3, ["UNREACHABLE"])


def test_a_name_that_lists_brokers_of_two_clusters_ends_every_command_at_once(
    tanist: Tanist, name: str, configured: Path, clusters: Mapping[str, SandboxCluster], west: Broker
) -> None:
    """Nothing is changed, nothing is shown of either, and `doctor` says which address is of which cluster."""
    both = ",".join(clusters[name].bootstrap_servers for name in ("east", "west"))
    configured.write_text(configured.read_text() + f'[clusters.mixed]\nbootstrap_servers = "{both}"\n')
    before, there = west.topics(), ("-d", "mixed")
    for typed in (
        ("mirrors", "create", name, "-s", "east", *there, "--topic", ".*"),
        ("mirrors", "create", name, "-s", "mixed", "-d", "west", "--topic", ".*"),
        ("mirrors", "pause", name, *there, "--topic", ".*"),
        ("mirrors", "list", *there),
        ("status", *there),
        ("fetcher", "run", *there),
    ):
        start = time.monotonic()
        answer = tanist(*typed)
        assert time.monotonic() - start < 10
        assert (answer.code, answer.errors, answer.out) == (2, ["TWO_CLUSTERS"], ""), typed
    assert west.topics() == before
    found = {check["check"]: check for check in tanist("doctor", "--json").items}
    assert (found["cluster mixed"]["verdict"], found["cluster mixed"]["observed"]) == ("FAIL", "TWO_CLUSTERS")
    for cluster in clusters.values():
        assert f"{cluster.bootstrap_servers} is cluster {cluster.cluster_id}" in found["cluster mixed"]["reason"]
    assert found["cluster west"]["verdict"] == "PASS"


def test_a_typing_mistake_in_the_configuration_is_told(tanist: Tanist, configured: Path) -> None:
    configured.write_text(configured.read_text().replace("bootstrap_servers", "bootstrap_server", 1))
    answer = tanist("mirrors", "list")
    assert (answer.code, answer.errors) == (2, ["INVALID_CONFIG"])
    assert "bootstrap_servers" in answer.err


def test_errors_stand_in_the_json_too(tanist: Tanist, configured: Path) -> None:
    answer = tanist("mirrors", "describe", "no-such-mirror", "-d", "west", "--json")
    assert answer.code == 1
    assert '"UNKNOWN_MIRROR"' in answer.out
    assert answer.items == []


def test_an_expression_that_matches_nothing_is_an_error_when_reading_too(tanist: Tanist, mirror: str) -> None:
    """An empty table would say that all is well."""
    for named in ((mirror,), ()):
        wrong = tanist("mirrors", "describe", *named, "-d", "west", "--topic", mirror, "--topic", "nosuch")
        assert (wrong.code, wrong.errors, wrong.out) == (1, ["TOPIC_NOT_IN_MIRROR"], "")
        assert "'nosuch' matches no topic" in wrong.err
    assert tanist("mirrors", "describe", mirror, "-d", "west", "--topic", f"{mirror[:9]}.*").code == 0
