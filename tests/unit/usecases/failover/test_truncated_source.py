"""The source is shorter than its copy: an unclean election, or a backup that was restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.approval.entries import NotPermitted
from tanist.domain.checks import Mode, Readiness
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.records import OFFSETS_TOPIC, OffsetRangeWritten, RunStatus
from tanist.domain.states import MirrorState
from tests.builders import AT, DR
from tests.fakes.logs import MemoryLogs
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import MirrorPartition
    from tanist.ports.clock import Deadline


def cut(world: FailoverWorld, end: int = 6) -> None:
    """The source loses what it has from `end` on."""
    start, _, _ = world.east.ends[AT]
    world.east.ends[AT] = (start, end, end)


@pytest.mark.parametrize("mode", Mode)
def test_a_source_that_lost_what_was_copied_is_not_go_until_a_worker_says_so(mode: Mode) -> None:
    """GO, 0 at risk, for half a minute with a worker, and for ever without one."""
    world = FailoverWorld()
    assert world.plan(mode).word is Readiness.GO
    cut(world)
    assert world.plan(mode).word is Readiness.ACCEPT
    assert f"{AT} ends at 6, copied up to 10" in world.limitations(mode)["SOURCE_TRUNCATED"]
    assert str(AT) in world.limitations(mode)["RECORDS_AT_RISK_UNKNOWN"]


def test_what_the_judge_saw_first_and_a_worker_reports_then_is_one_plan() -> None:
    world = FailoverWorld()
    cut(world)
    plan = world.approve().plan
    world.observe(MirrorState.FAILED, AT, error="SOURCE_TRUNCATED")
    assert world.plan().plan.hash == plan
    assert world.run(plan).record.status is RunStatus.DONE


@pytest.mark.parametrize("mode", Mode)
def test_a_source_that_is_cut_after_the_approval_stops_the_run(mode: Mode) -> None:
    world = FailoverWorld()
    plan = world.approve(mode).plan

    def lose(point: str) -> None:
        if "groups" in point:
            cut(world)

    with pytest.raises(NotPermitted, match=f"SOURCE_TRUNCATED: .*{AT} ends at 6"):
        world.run(plan, lose)
    assert not any(world.west.epochs.get((at, world.spec.data_id), 0) for at in PARTITIONS), "nothing is sealed"


def test_a_shifted_copy_is_compared_in_the_offsets_of_its_source() -> None:
    """Its end is 13 where the source's is 10; then the source loses one record."""
    world = FailoverWorld()
    for _ in range(3):
        world.west.mark(AT, world.spec.marker_id)
    run = OffsetRangeWritten(mirror=DR, partition=AT, source=SourceOffset(10), destination=DestinationOffset(13))
    world.west.write(OFFSETS_TOPIC, run)
    assert world.plan().word is Readiness.GO
    world.east.grow(AT)
    world.west.append(AT, world.spec.data_id, 0)
    assert (world.plan().word, world.plan(Mode.UNPLANNED).word) == (Readiness.GO, Readiness.GO)
    cut(world, 10)
    assert f"{AT} ends at 10, copied up to 11" in world.limitations()["SOURCE_TRUNCATED"]


def test_a_copy_that_begins_later_may_end_before_a_source_that_was_cut() -> None:
    """It holds offsets 5 to 10 of the source at 2 to 7, and the source ends at 8."""
    world = FailoverWorld()
    world.west.ends[AT] = (0, 7, 7)
    run = OffsetRangeWritten(mirror=DR, partition=AT, source=SourceOffset(5), destination=DestinationOffset(2))
    world.west.write(OFFSETS_TOPIC, run)
    assert "SOURCE_TRUNCATED" not in world.limitations()
    cut(world, 8)
    assert f"{AT} ends at 8, copied up to 10" in world.limitations()["SOURCE_TRUNCATED"]


def test_a_marker_too_many_at_the_end_of_a_copy_does_not_cut_its_source() -> None:
    """A worker that died left it; no map tells of it before the next record."""
    world = FailoverWorld()
    world.west.mark(AT, world.spec.marker_id)
    assert world.plan().word is Readiness.GO
    assert world.plan(Mode.UNPLANNED).word is Readiness.GO


def test_records_that_are_copied_while_the_clusters_are_looked_at_cut_no_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The source is asked after the copy, so it is never the older answer."""
    world = FailoverWorld()
    known = MemoryLogs.true_ends

    def and_more(
        self: MemoryLogs, partitions: Sequence[MirrorPartition], by: Deadline
    ) -> Mapping[MirrorPartition, int | TanistError]:
        answer = known(self, partitions, by)
        world.east.grow(AT, 5)
        world.tick()
        return answer

    monkeypatch.setattr(MemoryLogs, "true_ends", and_more)
    assert "SOURCE_TRUNCATED" not in world.limitations()


def test_a_source_whose_watermark_stands_still_is_not_cut() -> None:
    """A new leader has every record that was committed before its own watermark has caught up."""
    world = FailoverWorld()
    cut(world, 8)
    world.east.ahead[AT] = 2
    assert "SOURCE_TRUNCATED" not in world.limitations()


def test_an_end_of_a_copy_that_cannot_be_read_is_unknown_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FailoverWorld()
    cut(world)
    monkeypatch.setattr(MemoryLogs, "only_control", lambda _self, _spans, _by: {})
    assert "SOURCE_TRUNCATED" not in world.limitations(Mode.UNPLANNED)
    assert str(AT) in world.limitations(Mode.UNPLANNED)["RECORDS_AT_RISK_UNKNOWN"]


def test_behind_the_barrier_a_copy_is_longer_by_right() -> None:
    world = FailoverWorld()
    world.run(world.approve().plan, until="seal")
    world.west.grow(AT, 5)
    (found,) = [each for each in world.plan().facts.partitions if each.partition == AT]
    assert found.copied is not None
    assert found.live is not None
    assert found.copied > found.live.end
    assert not found.source_truncated
