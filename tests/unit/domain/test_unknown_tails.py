"""A mirror whose state was lost after a reversal: tails count as undecided unless somebody is known to have decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.checks import Verdict
from tanist.domain.failback.pending import (
    decided_promotions,
    findings_of,
    may_have_tails,
    tails_check,
    tails_of,
    undecided,
    undecided_warning,
    unknown_tails,
)
from tanist.domain.failback.reversal import TAIL_UNDECIDED, ReturningTopic, Reversal
from tanist.domain.limitation import Limitation
from tanist.domain.moves import MirrorMove, MoveStatus
from tanist.domain.names import EpochMs
from tanist.domain.states import DesiredState
from tests.builders import DR, a_move, a_view
from tests.unit.domain.test_findings import LINEAGE, mirror, topic

NOW_AT_EAST = mirror("w", "e")
"""After a failover from e to w and a reversal: from w to e."""


def moved(*undecided_partitions: str, status: MoveStatus = MoveStatus.MOVED, plan: str | None = None) -> MirrorMove:
    limitation = Limitation(TAIL_UNDECIDED, "", about=undecided_partitions)
    reversal = Reversal(
        mirror=DR,
        mirror_id="",
        source_cluster_id="w",
        destination_cluster_id="e",
        topics=(ReturningTopic(topic="orders", promotion_epoch=1, free_from=(15, 15, 15)),),
        limitations=(limitation,) if undecided_partitions else (),
    )
    return a_move(
        status,
        destination="e",
        plan="p",
        plan_json=reversal.canonical_plan if plan is None else plan,
        approval="a",
        approver="User:ann",
    )


def decided(*moves: MirrorMove) -> frozenset[tuple[str, int]]:
    return decided_promotions(a_view(*moves), NOW_AT_EAST)


def test_a_reversal_that_accepted_an_undecided_tail_is_known_to_its_source() -> None:
    assert decided(moved()) == {("orders", 1)}
    assert decided(moved("orders-2")) == frozenset()
    assert decided(moved("payments-0")) == {("orders", 1)}


@pytest.mark.parametrize(
    "move",
    [moved(status=MoveStatus.WITHDRAWN), moved(plan="{}"), moved(plan="no JSON"), replace(moved(), cluster_id="n")],
)
def test_what_is_not_known_is_not_decided(move: MirrorMove) -> None:
    assert decided(move) == decided() == frozenset()


def test_only_a_promotion_that_has_reserved_offsets_can_have_left_a_tail() -> None:
    empty = replace(LINEAGE, promotion_epoch=2, reserve_ends=LINEAGE.old_ends)
    other = replace(LINEAGE, topic="payments")
    assert may_have_tails((LINEAGE, empty, other), ("orders",), ()) == (LINEAGE,)
    assert may_have_tails((LINEAGE, empty, other), ("orders",), {("orders", 1)}) == ()


def test_an_undecided_tail_is_still_counted_after_a_rebuild() -> None:
    """The state was rebuilt with exit code 0, and the block on planned failovers was gone."""
    rebuilt = a_view(NOW_AT_EAST, topic(DesiredState.MIRRORING), LINEAGE, unknown_tails(LINEAGE, "", EpochMs(2)))
    found = undecided(rebuilt, DR)
    assert [(each.topic, each.promotion_epoch, each.offsets) for each in found] == [("orders", 1, 15)]
    assert found == findings_of(rebuilt, DR)
    assert tails_check(tails_of(rebuilt, DR), found).verdict is Verdict.FAIL
    said = undecided_warning(LINEAGE, "e")
    assert "orders: whether anybody has decided about the divergent tail of promotion 1 (15 offsets" in said
    assert "`tanist failback accept dr --destination e --finding TAIL_UNDECIDED" in said
