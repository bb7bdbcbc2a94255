"""`tanist groups explain`: all that is answered side by side, and a group of which there is nothing to explain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.cli import groups, options
from tanist.domain.copier import Copier
from tanist.domain.names import MirrorName, MirrorPartition, SourcePartition, TopicPartition
from tanist.domain.records import STATE_TOPIC
from tanist.domain.sync_settings import SyncSettings
from tanist.usecases.mirror import OpenMirror
from tanist.usecases.mirrors.follow import FollowRequest, follow
from tests.builders import a_command
from tests.fakes.cluster import nowhere, pair_with
from tests.fakes.failover import GuardedCluster
from tests.fakes.positions import MemoryGroups, MemoryPositions
from tests.fakes.times import MemoryLog, MemoryTimes
from tests.unit.usecases.test_followed import Asked
from tests.unit.usecases.test_mm2 import a_checkpoint, a_sync

if TYPE_CHECKING:
    from tests.kafka.cli.conftest import Tanist


def ten_records() -> MemoryLog:
    log = MemoryLog()
    for n in range(10):
        log.add(100 * n, f"record {n}")
    return log


@pytest.fixture
def east() -> GuardedCluster:
    times = MemoryTimes({SourcePartition("orders", 0): ten_records()})
    return GuardedCluster("east", times=times).with_topic("orders", 1, 10)


@pytest.fixture
def west() -> GuardedCluster:
    times = MemoryTimes({MirrorPartition("east.orders", 0): ten_records()})
    return GuardedCluster("west", times=times).with_topic("east.orders", 1, 10)


@pytest.fixture
def here(east: GuardedCluster) -> MemoryGroups:
    """The groups of the source."""
    return MemoryGroups(east)


@pytest.fixture
def mm(east: GuardedCluster, west: GuardedCluster, here: MemoryGroups, monkeypatch: pytest.MonkeyPatch) -> str:
    """A mirror that MirrorMaker 2 copies, of groups `app-*` but `app-old`, which has a position at the source."""
    request = FollowRequest(
        mirror=MirrorName("mm"),
        copied_by=Copier.MM2,
        include=("orders",),
        rename=("mm2-default",),
        sync=SyncSettings(group_include=("app-.*",), group_exclude=("app-old",)),
    )
    spec = follow(request, east.side(), west.side(), a_command()).spec
    assert west.view(STATE_TOPIC).mirror("mm") == spec
    there = MemoryGroups(west)
    here.commit("app-old", TopicPartition("orders", 0), 4)
    mirror = OpenMirror(
        spec=spec,
        source=replace(east.side(), positions=lambda name: MemoryPositions(here, name)),
        destination=replace(west.side(), positions=lambda name: MemoryPositions(there, name)),
        pair=pair_with(proofs=Asked()),
        from_source=nowhere,
    )
    monkeypatch.setattr(groups, "_mirror", lambda _now, name: {"mm": mirror}[name])
    monkeypatch.setattr(options, "SystemClock", lambda *_: west.clock)
    return "mm"


def test_what_mirrormaker_the_connector_and_each_strategy_answer_stands_side_by_side(
    tanist: Tanist, mm: str, east: GuardedCluster, west: GuardedCluster, here: MemoryGroups
) -> None:
    """All are asked, though an offset-sync whose records are the same is exact."""
    for cluster, topic, *records in (
        (east, "mm2-offset-syncs.west.internal", a_sync("orders", 0, 0), a_sync("orders", 4, 4)),
        (west, "east.checkpoints.internal", a_checkpoint("app-1", "east.orders", 3, 1)),
    ):
        cluster.with_topic(topic, cleanup_policy="compact").raw_records[topic] = [*records]
    here.commit("app-1", TopicPartition("orders", 0), 4)
    answer = tanist("groups", "explain", mm, "--group", "app-1")
    assert answer.code == 0, answer.err
    lines = [line.strip() for line in answer.out.splitlines()]
    for begin, end in (
        ("reconciled: ", "; unknown: east.orders-0 of mirror 'mm' was never reconciled"),
        ("mm2: 2 of 2 offset-syncs hold; source 4 was copied to destination 4", "; exactly 4"),
        ("MirrorMaker 2's last checkpoint: ", "3 at the source is 1 at the destination"),
        ("a replay of its store over its topic now: ", "4"),
        ("timestamp: ", "; MirrorGroupOffsetConnector would commit 4; exactly 4"),
        ("answer: exactly 4, by mm2", ""),
    ):
        assert [line for line in lines if line.startswith(begin) and line.endswith(end)], (begin, lines)


def test_a_group_that_the_filters_leave_out_is_not_said_to_have_no_position(tanist: Tanist, mm: str) -> None:
    answer = tanist("groups", "explain", mm, "--group", "app-old")
    assert answer.code == 0, answer.err
    assert "no committed offset" not in answer.err
    assert (
        "the filters of mirror mm leave group 'app-old' out (--group-include 'app-.*', --group-exclude 'app-old'): "
        "its committed offsets are neither kept nor translated" in answer.err
    )


def test_a_group_that_the_filters_choose_has_no_position(tanist: Tanist, mm: str) -> None:
    answer = tanist("groups", "explain", mm, "--group", "app-1")
    assert "group 'app-1' has no committed offset in mirror mm" in answer.err
