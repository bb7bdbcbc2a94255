"""KIP-545's rules (seed 002), which MirrorMaker 2 has for its own group sync, held by the commits of Tanist.

Positions are translated by offset-syncs as MM2 writes them, whose records these clusters in memory do not compare.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.mirrormaker.history import kept
from tanist.domain.mirrormaker.records import OffsetSync
from tanist.domain.names import DestinationOffset, SourceOffset, SourcePartition
from tanist.domain.translation import Rules, Translator, Withheld
from tanist.domain.translators import by_mm2
from tanist.usecases.groups import strategies
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, translate_groups
from tests.unit.usecases.failover.test_group_positions import AT, GROUP, Moving, nowhere

if TYPE_CHECKING:
    from tanist.usecases.groups.sync import GroupSyncResult

SYNCS = tuple(
    OffsetSync(SourcePartition(*AT), SourceOffset(each), DestinationOffset(each)) for each in (0, 20, 40, 60, 80, 100)
)


def by_syncs() -> Translator:
    """MM2's syncs of AT, one for each 20 records; the group stands at 50 at the source."""
    known = kept(SYNCS, Span(DestinationOffset(0), DestinationOffset(120)))
    return replace(
        by_mm2.MM2,
        needs=frozenset(),
        translate=lambda position, read: by_mm2.translate(position, known, read.copy),
        explain=lambda position, read: by_mm2.explain(position, replace(read, mm2=known)),
    )


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The strategy that these positions are translated by."""
    monkeypatch.setattr(strategies, "TRANSLATORS", {"mm2": by_syncs()})


def asking(*, existing: bool = False, backwards: bool = False) -> SyncRequest:
    rules = Rules(unproved=True, existing=existing, backwards=backwards)
    return SyncRequest(chosen=Chosen(strategy="mm2"), rules=rules)


def translated(moving: Moving) -> GroupSyncResult:
    mirror = moving._mirror(moving.world.west.side(), nowhere)
    return translate_groups(mirror, asking(), moving.world.command())


def test_s2_1_nothing_is_written_until_somebody_asks_for_it_and_then_each_time() -> None:
    """Off by default: a mirror that exists, and a look at its translations, write no offset."""
    moving = Moving()
    (row,) = translated(moving).rows
    assert (row.offset, row.will_commit, row.committed, moving.stands()) == (41, True, False, None)
    moving.world.clock.wait(600)
    assert moving.stands() is None
    for _ in range(2):
        (row,) = moving.sync(request=asking()).rows
        assert (row.committed, moving.stands()) == (True, 41)
        moving.world.clock.wait(3_600)  # what has not moved is committed again once an hour
    moving.groups.commit(GROUP, AT, 41, "")
    assert not [row for row in moving.sync(request=asking()).rows if row.error]


def test_s2_2_a_group_that_is_active_at_the_target_is_left_alone() -> None:
    moving = Moving()
    moving.groups.group(GROUP).members = 1
    for rules in ({}, {"existing": True}, {"existing": True, "backwards": True}):
        (row,) = moving.sync(request=asking(**rules)).rows
        assert isinstance(row.decision, Withheld)
        assert "it has 1 member(s) at the destination" in row.reason
        assert moving.stands() is None
    moving.groups.group(GROUP).members = 0
    assert [row.committed for row in moving.sync(request=asking()).rows] == [True]


@pytest.mark.parametrize("metadata", ["", "tanist dr east@50"], ids=["committed by its consumer", "by us"])
def test_s2_2_no_offset_lower_than_the_target_has_is_written(metadata: str) -> None:
    """The group has read on at the target, beyond what the translation of its position says."""
    moving = Moving()
    moving.groups.commit(GROUP, AT, 90, metadata)
    (row,) = moving.sync(request=asking(existing=True)).rows
    assert isinstance(row.decision, Withheld)
    assert "offsets are not moved backwards" in row.reason
    assert moving.stands() == 90


def test_s2_2_a_higher_one_is_written() -> None:
    moving = Moving()
    moving.groups.commit(GROUP, AT, 30, "tanist dr east@31")
    assert [row.committed for row in moving.sync(request=asking()).rows] == [True]
    assert moving.stands() == 41


def test_mirrormakers_own_sync_of_the_same_group_at_the_same_time_is_not_overwritten() -> None:
    """It commits between our look and our commit: ours is refused, and the next one decides anew."""
    moving = Moving()
    moving.groups.commit(GROUP, AT, 21, "tanist dr east@20")

    def mirrormaker(point: str) -> None:
        if point == "groups:before-read":
            moving.groups.commit(GROUP, AT, 45)

    (row,) = moving.sync(mirrormaker, asking()).rows
    assert row.error is not None
    assert moving.stands() == 45
    (row,) = moving.sync(request=asking(existing=True)).rows
    assert isinstance(row.decision, Withheld), "45 is more than 41"
    assert moving.stands() == 45
