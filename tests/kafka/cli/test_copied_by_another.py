"""A mirror whose records somebody else copies, on real brokers: a plain producer is that somebody."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tanist.domain.copier import Copier
from tanist.domain.names import MirrorName, MirrorPartition, ProducerId, SourcePartition, TopicPartition
from tanist.domain.validation.bounds import ComparisonBounds
from tanist.domain.validation.job import Level, PartitionRequest, ValidationJob
from tanist.spark.ends import fix
from tanist.spark.validation import spans
from tests.builders import a_mirror
from tests.conftest import librdkafka
from tests.kafka.fetcher.rig import until
from tests.kafka.groups.readers import Followed, commit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.kafka.cli.conftest import Broker, Tanist

WEST = ("--destination", "west")


def produce(cluster: SandboxCluster, topic: str, partitions: int, count: int) -> None:
    producer = Producer(librdkafka(cluster.endpoint()))
    for partition in range(partitions):
        for n in range(count):
            producer.produce(topic, b"%d" % n, partition=partition)
    assert producer.flush(20) == 0


@pytest.fixture
def copied(clusters: Mapping[str, SandboxCluster], east: Broker, west: Broker, topic_name: str) -> str:
    """A topic of two partitions, and its copy under MirrorMaker 2's name for it."""
    for broker, cluster, name in ((east, "east", topic_name), (west, "west", f"east.{topic_name}")):
        broker.topic(name, 2)
        produce(clusters[cluster], name, 2, 5)
    return topic_name


def test_it_is_registered_shown_refused_and_removed_and_no_topic_is_touched(
    tanist: Tanist, configured: Path, clusters: Mapping[str, SandboxCluster], copied: str, west: Broker
) -> None:
    name, group = f"mm-{copied}"[:60].rstrip(".-_"), f"app {copied}"
    made = tanist(
        "mirrors", "create", name, "-s", "east", *WEST, "--copied-by", "mm2", "--topic", copied,
        "--rename", "mm2-default", "--group-include", "app .*", "--json",
    )  # fmt: skip
    assert made.code == 0, made.err
    (item,) = made.items
    assert (item["changed"], item["copied_by"], item["rename"], item["data_id"]) == (True, "mm2", ["mm2-default"], -1)
    (topic,) = item["followed"]
    assert (topic["topic"], topic["copy"], topic["trouble"]) == (copied, f"east.{copied}", None)
    before = west.topics()

    listed = tanist("mirrors", "list", *WEST, "--json")
    (shown,) = [each for each in listed.items if each["mirror"] == name]
    assert (shown["topics"], shown["copied_by"]) == (1, "mm2")
    described = tanist("mirrors", "describe", name, "--json")
    assert [
        (row["topic"], row["source_topic"], row["partition"], row["source_end_offset"], row["lag"], row["state"])
        for row in described.items
    ] == [(f"east.{copied}", copied, n, 5, None, "FOLLOWED") for n in range(2)]

    for refused in (
        ("failover", "plan", name, *WEST),
        ("mirrors", "pause", name, *WEST, "--topic", copied),
        ("mirrors", "reverse", name, *WEST, "--dry-run"),
        ("fence", "set", name, *WEST, "--topic", copied),
        ("failback", "survey", name, *WEST),
        ("metadata", "sync", name, *WEST),
    ):
        answer = tanist(*refused)
        assert (answer.code, answer.errors) == (2, ["COPIED_BY_ANOTHER"]), (refused, answer.err)
    status = tanist("status", name, *WEST, "--json")
    assert status.code == 1
    assert {check["name"]: check["verdict"] for check in status.items[0]["checks"]}["topics"] == "PASS"
    (advice,) = json.loads(tanist("next", name, *WEST, "--json").out)["items"]
    assert advice["stage"] == "FOLLOWED"
    assert advice["next"][-1]["command"] == f"tanist groups sync {name} --destination west"

    commit(clusters["east"].bootstrap_servers, group, {MirrorPartition(copied, 1): 3})
    groups = tanist("groups", "list", name, *WEST, "--group", "app .*", "--json")
    assert [(each["group"], each["topics"]) for each in groups.items] == [(group, [f"east.{copied}"])], groups.err

    removed = tanist("mirrors", "remove", name, *WEST, "--json")
    assert removed.code == 0, removed.err
    assert tanist("status", name, *WEST).errors == ["UNKNOWN_MIRROR"]
    assert west.topics() - {"__mirror_groups"} == before - {"__mirror_groups"}


def test_options_of_the_other_kind_of_mirror_are_refused_by_name(tanist: Tanist, configured: Path) -> None:
    common = ("mirrors", "create", "m", "--source", "east", *WEST)
    answer = tanist(*common, "--copied-by", "other", "--holes", "copies", "--no-deny-writers", "--adopt", "--json")
    assert answer.code == 2
    assert {each["reason"].split(" ")[0] for each in json.loads(answer.out)["errors"]} == {
        "--holes", "--deny-writers", "--adopt",
    }  # fmt: skip
    assert tanist(*common, "--rename", "identity").errors == ["INVALID_CONFIG"]


def test_positions_of_its_groups_are_kept_by_the_names_of_the_source(
    clusters: Mapping[str, SandboxCluster], copied: str
) -> None:
    """Of the topics that its filters match, and of groups that it follows."""
    east = clusters["east"]
    spec = a_mirror(
        copied_by=Copier.MM2, include=(copied.replace(".", r"\."),), rename=("mm2-default",),
        source_cluster_id=east.cluster_id, group_exclude=("other .*",),
    )  # fmt: skip
    at, groups = MirrorPartition(copied, 0), (f"app {copied}", f"other {copied}")
    for group in groups:
        commit(east.bootstrap_servers, group, {at: 4})
    with ExitStack() as stack:
        followed = stack.enter_context(Followed(spec, east.endpoint(), []))
        until(lambda: followed.position(groups[0], at) == 4, 20, followed.positions)
        commit(east.bootstrap_servers, groups[0], {at: 5})
        until(lambda: followed.position(groups[0], at) == 5, 20, followed.positions)
        assert {(each.group, each.partition) for each in followed.positions()} == {(groups[0], SourcePartition(*at))}


def test_bounds_of_a_comparison_are_read_by_the_names_of_both_sides(
    clusters: Mapping[str, SandboxCluster], copied: str
) -> None:
    produce(clusters["east"], copied, 1, 2)
    asked = tuple(
        PartitionRequest(partition=TopicPartition(f"east.{copied}", n), at_source=TopicPartition(copied, n))
        for n in range(2)
    )
    job = ValidationJob(
        run="r",
        mirror=MirrorName("mm"),
        level=Level.RECORDS,
        source=clusters["east"].endpoint(),
        destination=clusters["west"].endpoint(),
        data_id=ProducerId(-1),
        partitions=asked,
        settle_seconds=0.5,
    )
    found = fix(job)
    ends = {
        at.partition: (bounds.source.high_watermark, bounds.destination.high_watermark)
        for at, bounds in found.items()
        if isinstance(bounds, ComparisonBounds)
    }
    assert ends == {0: (7, 5), 1: (5, 5)}, found
    spans_of = spans([each for each in found.values() if isinstance(each, ComparisonBounds)], job)
    assert [(str(each.partition), str(each.at)) for each in spans_of.source] == [
        (f"{copied}-{n}", f"east.{copied}-{n}") for n in range(2)
    ]
