"""What `tanist status` says of records that the source deleted before they were copied."""

from __future__ import annotations

from tanist.domain.checks import Verdict
from tanist.domain.failover.past_checks import losses_check
from tanist.domain.lag import PartitionRow
from tanist.domain.losses import LostOffsets, LostRange, UncopiedRecordsDeleted
from tanist.domain.names import EpochMs, MirrorPartition, SourceOffset
from tanist.domain.offset_map import OffsetMap
from tanist.domain.states import DesiredState, MirrorState
from tests.builders import DR, a_mirror, a_partition

SPEC = a_mirror()


def row(number: int, state: MirrorState, error: str | None, lost: int) -> PartitionRow:
    """`lost`: how many offsets, from 10 on."""
    at = MirrorPartition("orders", number)
    observed = a_partition(state, partition=at, row=0, error=error)
    ranges = (LostRange(SourceOffset(10), SourceOffset(10 + lost), EpochMs(0)),)
    return PartitionRow(
        mirror=DR,
        partition=at,
        desired=DesiredState.MIRRORING,
        state=state,
        source=None,
        destination_end=None,
        map=OffsetMap(),
        observed=observed,
        lost=LostOffsets(mirror=DR, partition=at, ranges=ranges, at=EpochMs(0)) if lost else None,
    )


def test_a_loss_that_waits_for_a_decision_fails_the_check_with_the_command_that_decides() -> None:
    waiting = row(0, MirrorState.FAILED, UncopiedRecordsDeleted.name, 5)
    found = losses_check(
        SPEC, [waiting, row(1, MirrorState.MIRRORING, None, 2), row(2, MirrorState.MIRRORING, None, 0)]
    )
    assert found.verdict is Verdict.FAIL
    assert found.observed.startswith("7 offsets of 2 partition(s)")
    assert "orders-0: 5 offsets were deleted at the source before they were copied: 10 to 14" in found.reason
    assert "`tanist mirrors alter dr --destination west --on-loss continue`" in found.reason


def test_a_loss_behind_which_was_copied_is_still_counted_and_passes() -> None:
    found = losses_check(SPEC, [row(0, MirrorState.FAILED, "DIVERGED", 5), row(1, MirrorState.MIRRORING, None, 2)])
    assert (found.verdict, found.observed.partition(" ")[0]) == (Verdict.PASS, "7")
    assert "`tanist mirrors describe dr --destination west`" in found.reason


def test_without_a_loss_there_is_nothing_to_do() -> None:
    found = losses_check(SPEC, [row(0, MirrorState.MIRRORING, None, 0)])
    assert (found.verdict, found.reason) == (Verdict.PASS, "")
