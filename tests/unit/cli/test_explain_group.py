"""`tanist groups explain` of a group of which there is nothing to explain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.cli import groups, options
from tanist.domain.copier import Copier
from tanist.domain.names import MirrorName, TopicPartition
from tanist.domain.records import STATE_TOPIC
from tanist.domain.sync_settings import SyncSettings
from tanist.usecases.mirror import OpenMirror
from tanist.usecases.mirrors.follow import FollowRequest, follow
from tests.builders import a_command
from tests.fakes.cluster import nowhere, pair_with
from tests.fakes.failover import GuardedCluster
from tests.fakes.positions import MemoryGroups, MemoryPositions

if TYPE_CHECKING:
    from tests.kafka.cli.conftest import Tanist


@pytest.fixture
def mm(monkeypatch: pytest.MonkeyPatch) -> str:
    """A mirror that MirrorMaker 2 copies, of groups `app-*` but `app-old`, which has a position at the source."""
    east = GuardedCluster("east").with_topic("orders", 1, 10)
    west = GuardedCluster("west").with_topic("east.orders", 1, 10)
    request = FollowRequest(
        mirror=MirrorName("mm"),
        copied_by=Copier.MM2,
        include=("orders",),
        rename=("mm2-default",),
        sync=SyncSettings(group_include=("app-.*",), group_exclude=("app-old",)),
    )
    spec = follow(request, east.side(), west.side(), a_command()).spec
    assert west.view(STATE_TOPIC).mirror("mm") == spec
    here, there = MemoryGroups(east), MemoryGroups(west)
    here.commit("app-old", TopicPartition("orders", 0), 4)
    mirror = OpenMirror(
        spec=spec,
        source=replace(east.side(), positions=lambda name: MemoryPositions(here, name)),
        destination=replace(west.side(), positions=lambda name: MemoryPositions(there, name)),
        pair=pair_with(),
        from_source=nowhere,
    )
    monkeypatch.setattr(groups, "_mirror", lambda _now, name: {"mm": mirror}[name])
    monkeypatch.setattr(options, "SystemClock", lambda *_: west.clock)
    return "mm"


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
