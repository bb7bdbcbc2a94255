"""`tanist groups` on real brokers: what it shows without a fetcher, and what it does with bad input."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tanist.domain.names import MirrorPartition
from tests.kafka.fetcher.rig import until
from tests.kafka.groups.readers import commit, committed, consumer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.kafka.cli.conftest import Broker, Tanist


@pytest.fixture
def mirror(tanist: Tanist, configured: Path, east: Broker, topic_name: str) -> str:
    """A mirror of one topic that nobody copies yet."""
    name = f"m-{uuid.uuid4().hex[:8]}"
    east.topic(topic_name)
    made = tanist("mirrors", "create", name, "--source", "east", "--destination", "west", "--topic", topic_name)
    assert made.code == 0, made.err
    return name


def test_list_translate_sync_explain(
    tanist: Tanist, mirror: str, clusters: Mapping[str, SandboxCluster], topic_name: str
) -> None:
    """Nothing was copied and nobody keeps positions: the source is asked, and what it says is clamped."""
    at, group = MirrorPartition(topic_name, 0), f"team/a {topic_name}"
    commit(clusters["east"].bootstrap_servers, group, {at: 0})
    listed = tanist("groups", "list", mirror, "--json", "--destination", "west")
    assert listed.code == 0, listed.err
    assert "no fetcher keeps committed offsets" in listed.err
    (item,) = listed.items
    assert (item["group"], item["kind"], item["state"], item["topics"]) == (group, "classic", "Empty", [topic_name])
    assert (item["lag"], item["position_age_ms"]) == (0, 0)

    options = ("--destination", "west", "--group", "team/a .*")
    shown = tanist("groups", "translate", mirror, *options, "--json")
    assert shown.code == 0, shown.err
    (row,) = shown.items
    expected = {"group", "topic", "partition", "source_committed_offset", "destination_offset", "precision", "reason"}
    assert expected | {"committed", "proof"} <= row.keys()
    assert (row["destination_offset"], row["precision"], row["proof"], row["committed"]) == (0, "exact", "none", False)

    rehearsed = tanist("groups", "sync", mirror, *options, "--dry-run")
    assert "would commit 1 of 1" in rehearsed.err
    assert committed(clusters["west"].bootstrap_servers, group, at) < 0
    assert tanist("groups", "sync", mirror, *options, "--yes").code == 0
    assert committed(clusters["west"].bootstrap_servers, group, at) == 0

    reported = tanist("groups", "explain", mirror, "--destination", "west", "--group", group)
    assert reported.code == 0
    assert "reported by the source now" in reported.out
    assert "map: identical" in reported.out
    assert f"committed by Tanist (tanist {mirror} east@0)" in reported.out


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_s3_6_a_group_is_named_by_its_protocol(
    tanist: Tanist, mirror: str, clusters: Mapping[str, SandboxCluster], topic_name: str, protocol: str
) -> None:
    """Members of a KIP-848 group are counted by another request than those of a classic one."""
    member = consumer(clusters["east"].bootstrap_servers, f"{protocol} {topic_name}", protocol)
    try:
        member.subscribe([topic_name])
        until(lambda: member.poll(0.1) is None and member.assignment() != [], 30)
        (at,) = member.assignment()
        at.offset = 0
        member.commit(offsets=[at], asynchronous=False)
        listed = tanist("groups", "list", mirror, "--json", "--destination", "west")
        assert [(each["kind"], each["members"]) for each in listed.items] == [(protocol, 1)]
    finally:
        member.close()


@pytest.mark.parametrize(
    ("arguments", "name", "code"),
    [
        (("list", "nobody", "-d", "west"), "UNKNOWN_MIRROR", 1),
        (("list", "a/b", "-d", "west"), "INVALID_MIRROR_NAME", 2),
        (("translate", "MIRROR", "-d", "west", "--group", "("), "INVALID_CONFIG", 2),
        (("translate", "MIRROR", "-d", "west", "--strategy", "guess"), "INVALID_CONFIG", 2),
        (("sync", "MIRROR", "--yes"), "INVALID_CONFIG", 2),
    ],
)
def test_bad_input_is_one_line(tanist: Tanist, mirror: str, arguments: tuple[str, ...], name: str, code: int) -> None:
    answer = tanist("groups", *[mirror if each == "MIRROR" else each for each in arguments])
    assert (answer.code, answer.errors) == (code, [name]), answer.err
