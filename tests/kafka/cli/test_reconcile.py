"""`tanist reconcile`, through a real spark-submit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tanist_testkit.verify.clients import settings
from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.kafka.cli.conftest import Broker, Tanist

pytestmark = pytest.mark.usefixtures("configured")


def write(cluster: SandboxCluster, topic: str, numbers: Sequence[int]) -> None:
    writer = LogWriter(settings(cluster.bootstrap_servers))
    writer.write(topic, (FlowRecord(0, value=b"%d" % n, timestamp_ms=1_700_000_000_000 + n) for n in numbers))
    assert writer.producer.flush(20) == 0


@pytest.mark.spark
@pytest.mark.usefixtures("hasty_java")
def test_any_two_topics_are_reconciled_and_given_positions_translated(
    tanist: Tanist, clusters: Mapping[str, SandboxCluster], east: Broker, west: Broker, topic_name: str, tmp_path: Path
) -> None:
    """The result in JSON and Parquet; a group's position behind ten lost records lies ten offsets lower."""
    copy = f"{topic_name}-copy"
    east.topic(topic_name, retention_ms="-1")
    west.topic(copy, retention_ms="-1")
    write(clusters["east"], topic_name, range(100))
    write(clusters["west"], copy, [*range(40), *range(50, 100)])
    asked, folder = tmp_path / "positions.json", tmp_path / "found"
    asked.write_text(json.dumps([{"topic": topic_name, "partition": 0, "offset": 70, "group": "billing"}]))
    topics = ("--source", "east", "--source-topic", topic_name, "-d", "west", "--destination-topic", copy)
    answer = tanist("reconcile", *topics, "--positions", str(asked), "--report", str(folder), "--json")
    assert answer.code == 0, answer.err
    (result,) = answer.items
    (partition,), (position,) = result["partitions"], result["positions"]
    assert (partition["copied"], partition["lost"], partition["others"], partition["runs"]) == (90, 10, 0, 2)
    assert (position["group"], position["destination_offset"], position["precision"]) == ("billing", 60, "exact")
    assert result == json.loads((folder / "result.json").read_text())
    assert (folder / "runs.parquet").is_file()


def test_bad_input_is_one_clear_error_and_starts_nothing(tanist: Tanist, tmp_path: Path) -> None:
    """Neither a mirror nor topics, both, half of them, no destination, positions that are none."""
    wrong = tmp_path / "positions.json"
    wrong.write_text('[{"topic": "t", "partition": 0, "offset": "7"}]')
    topics = ("--source", "east", "--source-topic", "not-there")
    there = (*topics, "-d", "west")
    for arguments, name, code in (
        ((), "INVALID_CONFIG", 2),
        (("dr", *topics), "INVALID_CONFIG", 2),
        (("--source-topic", "t", "-d", "west"), "INVALID_CONFIG", 2),
        ((*there, "--topic", "t"), "INVALID_CONFIG", 2),
        (topics, "INVALID_CONFIG", 2),
        (("--source", "north", "--source-topic", "t", "-d", "west"), "INVALID_CONFIG", 2),
        ((*there, "--positions", str(wrong)), "INVALID_CONFIG", 2),
        ((*there, "--positions", str(tmp_path / "none.json")), "INVALID_CONFIG", 2),
        (("bad name", "-d", "west"), "INVALID_MIRROR_NAME", 2),
        (("nosuch", "-d", "west"), "UNKNOWN_MIRROR", 2),
    ):
        answer = tanist("reconcile", *arguments, "--report", str(tmp_path / "found"))
        assert (answer.code, answer.errors) == (code, [name]), (arguments, answer.err)
        assert "Spark starts" not in answer.err
    missing = tanist("reconcile", *there, "--report", str(tmp_path / "found"))
    assert (missing.code, missing.errors) == (3, ["UNKNOWN_TOPIC_OR_PARTITION"] * 2), missing.err
    assert not (tmp_path / "found").exists()


def test_a_dead_source_is_told_before_a_jvm_is_started(
    tanist: Tanist, configured: Path, west: Broker, topic_name: str
) -> None:
    """In seconds: nothing was changed, and it could not be told."""
    west.topic(topic_name)
    with configured.open("a") as file:
        file.write('[clusters.north]\nbootstrap_servers = "127.0.0.1:1"\n')
    answer = tanist("reconcile", "--source", "north", "--source-topic", topic_name, "-d", "west", "--json")
    assert answer.code == 3
    assert "Spark starts" not in answer.err
    assert json.loads(answer.out)["errors"]
