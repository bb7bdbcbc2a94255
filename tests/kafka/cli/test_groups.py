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


def test_s0_6_s3_6_which_groups_follow_is_a_setting_of_a_mirror_that_tanist_copies(
    tanist: Tanist, mirror: str, clusters: Mapping[str, SandboxCluster], topic_name: str
) -> None:
    """And how often, and what becomes of one that is set back; `describe` has them all."""
    at, names = MirrorPartition(topic_name, 0), [f"{kind} {topic_name}" for kind in ("app", "test", "other")]
    for name in names:
        commit(clusters["east"].bootstrap_servers, name, {at: 0})
    wanted = ("--group-include", "app .*|test .*", "--group-exclude", "test .*")
    altered = tanist(
        "mirrors", "alter", mirror, "-d", "west", *wanted, "--group-sync-interval", "5m", "--on-rewind", "ask"
    )
    assert altered.code == 0, altered.err
    listed = tanist("groups", "list", mirror, "-d", "west", "--json")
    assert [each["group"] for each in listed.items] == names[:1]
    synced = tanist("groups", "sync", mirror, "-d", "west", "--yes")
    assert (synced.code, "committed 1 of 1" in synced.err) == (0, True), synced.err
    assert [committed(clusters["west"].bootstrap_servers, name, at) < 0 for name in names] == [False, True, True]
    (row,) = tanist("mirrors", "describe", mirror, "-d", "west", "--json").items
    assert (row["group_include"], row["group_exclude"]) == (["app .*|test .*"], ["test .*"])
    assert (row["sync_groups_seconds"], row["workers_sync_groups"], row["on_rewind"]) == (300, False, "ask")
    assert "--on-rewind ask" in tanist("mirrors", "describe", mirror, "-d", "west").err


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--sync-groups", "60s", "--group-sync-interval", "30s"), "INVALID_CONFIG"),
        (("--config-exclude", "("), "INVALID_CONFIG"),
        (("--group-exclude", "("), "INVALID_CONFIG"),
    ],
)
def test_settings_that_cannot_be_read_alter_nothing(
    tanist: Tanist, mirror: str, options: tuple[str, ...], name: str
) -> None:
    before = tanist("mirrors", "describe", mirror, "-d", "west", "--json").items
    answer = tanist("mirrors", "alter", mirror, "-d", "west", *options)
    assert (answer.code, answer.errors) == (2, [name]), answer.err
    assert tanist("mirrors", "describe", mirror, "-d", "west", "--json").items[0]["group_exclude"] == []
    assert len(before) == 1


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
