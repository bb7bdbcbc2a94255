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
FIRST_MS = 1_700_000_000_000
"""The timestamp of the first record; each is a second younger than the one before."""


def produce(cluster: SandboxCluster, topic: str, partitions: int, count: int) -> None:
    producer = Producer(librdkafka(cluster.endpoint()))
    for partition in range(partitions):
        for n in range(count):
            producer.produce(topic, b"%d" % n, partition=partition, timestamp=FIRST_MS + 1000 * n)
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
    checks = {check["name"]: check for check in status.items[0]["checks"]}
    assert (checks["topics"]["verdict"], checks["lag"]["verdict"]) == ("PASS", "PASS")
    assert checks["lag"]["observed"] == "by time: 0.0 s at most (2 of 2 partition(s))"
    altered = tanist(
        "mirrors", "alter", name, *WEST, "--group-exclude", "other", "--group-sync-interval", "2m", "--json"
    )
    assert altered.code == 0, altered.err
    assert (altered.items[0]["group_exclude"], altered.items[0]["sync_groups_seconds"]) == (["other"], 120)
    emptied = tanist("mirrors", "alter", name, *WEST, "--group-exclude", "", "--json")
    assert (emptied.items[0]["group_exclude"], emptied.items[0]["sync_groups_seconds"]) == ([], 120)
    assert tanist("mirrors", "alter", name, *WEST, "--on-loss", "fail").errors == ["COPIED_BY_ANOTHER"]
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


def stamped(cluster: SandboxCluster, topic: str, values: range) -> None:
    """One record for each value, a second apart: whoever copies keeps the timestamps."""
    producer = Producer(librdkafka(cluster.endpoint()))
    for n in values:
        producer.produce(topic, b"%d" % n, partition=0, timestamp=1_700_000_000_000 + 1000 * n)
    assert producer.flush(20) == 0


def test_groups_go_on_where_they_were_beside_a_copy_at_other_offsets(
    tanist: Tanist,
    configured: Path,
    clusters: Mapping[str, SandboxCluster],
    east: Broker,
    west: Broker,
    topic_name: str,
) -> None:
    """S0.1, S0.4, S0.7: translated by timestamps, explained, looked up, committed, and never backwards."""
    copy, name, group = f"dr-{topic_name}", f"by-{topic_name}"[:60].rstrip(".-_"), f"app {topic_name}"
    for broker, cluster, topic, values in (
        (east, "east", topic_name, range(30)),
        (west, "west", copy, range(10, 28)),  # its first records are gone, and it lags by two
    ):
        broker.topic(topic, 1)
        stamped(clusters[cluster], topic, values)
    create = ("mirrors", "create", name, "-s", "east", *WEST, "--copied-by", "other", "--topic", topic_name)
    assert tanist(*create, "--rename", "dr-{topic}").code == 0
    commit(clusters["east"].bootstrap_servers, group, {MirrorPartition(topic_name, 0): 20})
    commit(clusters["east"].bootstrap_servers, f"{group} ahead", {MirrorPartition(topic_name, 0): 29})

    translated = tanist("groups", "translate", name, *WEST, "--group", f"{group}.*", "--json")
    rows = {row["group"]: row for row in translated.items}
    exact, ahead = rows[group], rows[f"{group} ahead"]
    assert (exact["topic"], exact["source_committed_offset"], exact["destination_offset"]) == (copy, 20, 10)
    assert (exact["precision"], exact["strategy"], exact["proof"]) == ("exact", "timestamp", "match")
    assert (ahead["precision"], ahead["destination_offset"]) == ("unknown", None), ahead
    assert ahead["reason"]
    assert translated.code == 3
    explained = tanist("groups", "explain", name, *WEST, "--group", group)
    assert "answer: exactly 10" in explained.out, explained.out
    looked = tanist(
        "offsets", "lookup", name, *WEST, "--topic", topic_name, "--partition", "0", "--offset", "15", "--json"
    )
    assert [(row["destination_offset"], row["precision"]) for row in looked.items] == [(5, "exact")], looked.err

    synced = tanist("groups", "sync", name, *WEST, "--group", f"{group}.*", "--yes", "--json")
    assert {row["group"]: row["committed"] for row in synced.items} == {group: True, f"{group} ahead": False}
    (again,) = tanist("groups", "translate", name, *WEST, "--group", group, "--json").items
    assert again["destination_committed_offset"] == 10
    assert not [topic for topic in east.topics() | west.topics() if "offset-syncs" in topic], "S0.7"

    everything = ("groups", "sync", name, *WEST, "--yes")
    assert "committed 1 of 2" in tanist(*everything).err  # all are committed again once an hour, so that none expires
    unmoved = tanist(*everything)
    assert "committed 0 of 2 offset(s) of 2 group(s); 1 had not moved" in unmoved.err, unmoved.err
    assert f"{group} ahead" in unmoved.out
    assert f"{group}  " not in unmoved.out, "only --json lists what has not moved"
    assert f"{group}  " in tanist("groups", "translate", name, *WEST).out
    assert "would commit 0 of 2 offset(s) of 2 group(s); 1 had not moved" in tanist(*everything, "--dry-run").err
    commit(clusters["east"].bootstrap_servers, group, {MirrorPartition(topic_name, 0): 15})
    rewound = tanist(*everything, "--json")
    (back,) = [row for row in rewound.items if row["group"] == group]
    assert (back["destination_offset"], back["committed"]) == (5, False), "S0.4"
    assert back["destination_committed_offset"] == 10
    assert "backwards" in back["reason"]
    assert tanist("mirrors", "remove", name, *WEST).code == 0
