"""Between two homes a mirror is locked at both, and a reversal that comes too late is told by its promotions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.circle import locate
from tanist.domain.errors import MirrorLocked
from tanist.domain.failback.outdated import promoted_since
from tanist.domain.failback.reversal import ReturningTopic, Reversal
from tanist.domain.moves import MoveStatus, opposite
from tanist.domain.records import PromotionEpoch
from tanist.domain.state_view import StateView
from tanist.usecases.failback.reversal import PURPOSE
from tanist.usecases.lock import Purpose, ensure_unlocked
from tests.builders import DR, a_view
from tests.unit.domain.test_pending_reversal import MOVE, SPEC

HERE = opposite(SPEC)
"""The mirror as it is at its new destination."""
DISASTER = Purpose(operation="failover", plan="cafe", disaster=True)


def test_a_mirror_that_arrives_is_changed_by_nobody_but_its_reversal_and_an_unplanned_failover() -> None:
    arrived = a_view(HERE, MOVE)
    assert locate(DR, arrived).arrival == MOVE
    for purpose in (Purpose(operation="mirrors pause"), Purpose(operation="failover", plan="cafe")):
        with pytest.raises(MirrorLocked, match="complete it with `tanist mirrors reverse`"):
            ensure_unlocked(arrived, DR, purpose)
    for purpose in (PURPOSE, DISASTER):
        ensure_unlocked(arrived, DR, purpose)


@pytest.mark.parametrize("status", [MoveStatus.MOVING, MoveStatus.WITHDRAWING])
def test_a_mirror_that_leaves_is_not_failed_over(status: MoveStatus) -> None:
    leaves = a_view(SPEC, replace(MOVE, status=status))
    assert locate(DR, leaves).arrival is None
    with pytest.raises(MirrorLocked):
        ensure_unlocked(leaves, DR, DISASTER)


def test_a_promotion_that_either_cluster_has_counted_since_the_plan_makes_a_reversal_outdated() -> None:
    topic = ReturningTopic(topic="orders", promotion_epoch=1, free_from=(0,))
    reversal = Reversal(mirror=DR, mirror_id="m", source_cluster_id="w", destination_cluster_id="e", topics=(topic,))

    def counted(count: int, mirror_id: str = "m") -> StateView:
        found = PromotionEpoch(mirror=DR, mirror_id=mirror_id, topic="orders", count=count)
        return StateView({found.key: found})

    assert promoted_since(reversal, DR, "m", (counted(1), StateView())) == ""
    assert promoted_since(reversal, DR, "m", (counted(1), counted(5, "another"))) == "", "of a mirror of that name"
    for views in ((counted(1), counted(2)), (counted(2), StateView())):
        assert promoted_since(reversal, DR, "m", views) == "orders (promotion 2, planned at 1)"
