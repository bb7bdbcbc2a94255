"""A failover to a copy that may hold keys which were deleted at the source."""

from __future__ import annotations

import pytest

from tanist.domain.checks import Mode, Readiness
from tanist.domain.failover.limitations import word
from tanist.domain.losses import TombstonesMissed
from tanist.domain.names import EpochMs, SourceOffset
from tanist.domain.records import OFFSETS_TOPIC
from tanist.usecases.items import row_item
from tanist.usecases.mirrors.describe import Describer
from tests.builders import AT, DR
from tests.unit.usecases.failover.in_memory import FailoverWorld

NAME = "TOMBSTONES_MAY_BE_MISSING"


@pytest.fixture
def world() -> FailoverWorld:
    world = FailoverWorld()
    missed = TombstonesMissed(
        mirror=DR, partition=AT, start=SourceOffset(7), caught_up_at=EpochMs(0), read_at=EpochMs(90_000), kept_ms=60_000
    )
    world.west.write(OFFSETS_TOPIC, missed)
    return world


@pytest.mark.parametrize("mode", list(Mode))
def test_it_must_be_accepted_by_name(world: FailoverWorld, mode: Mode) -> None:
    limitations = world.plan(mode).plan.limitations
    [named] = [each for each in limitations if each.name == NAME]
    assert str(AT) in named.detail
    assert not named.blocks
    assert word(limitations) is Readiness.ACCEPT


def test_describe_says_why_and_from_which_offset_on(world: FailoverWorld) -> None:
    describer = Describer(world.west.side(), lambda _: world.east.side())
    [described] = describer.describe(DR, world.command())
    rows = {row.partition: row_item(row) for row in described.rows}
    assert rows[AT]["warnings"] == [NAME]
    for part in (NAME, "from offset 7 on", "90 s after", "for 60 s", "tanist validate"):
        assert part in rows[AT]["reason"]
    assert all(NAME not in row["reason"] and not row["warnings"] for at, row in rows.items() if at != AT)


def test_describe_says_that_the_time_of_the_source_brokers_is_not_copied() -> None:
    world = FailoverWorld(held=(("message.timestamp.type", "LogAppendTime"),))
    [described] = Describer(world.west.side(), lambda _: world.east.side()).describe(DR, world.command())
    assert {tuple(row.warnings) for row in described.rows} == {("LOG_APPEND_TIME_NOT_COPIED",)}
