"""Tails of which somebody decides what becomes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.failback.decision import NOTHING_EXPIRED, TailAction, TailClass, make_decision
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import EVERY_TOPIC
from tanist.domain.states import DesiredState
from tanist.domain.tails import TailStage
from tanist.usecases.approvals import ApprovalTerms, sign
from tanist.usecases.failback.deciding import permitted, undecided_tails
from tanist.usecases.failback.survey import MirrorReversed
from tests.builders import DR, a_view
from tests.unit.domain.test_findings import LINEAGE, UNDECIDED, mirror, topic
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.returning import returned


def test_rescued_tails_are_decided_before_a_reversal_and_not_after_it() -> None:
    """The plan would have been made for the log of the cluster that has the tails, to which the mirror copies."""
    rescued = replace(UNDECIDED, stage=TailStage.RESCUED)
    before = a_view(mirror("e", "w"), topic(DesiredState.REMOVED), LINEAGE, rescued)
    assert undecided_tails(before, DR, EVERY_TOPIC) == (rescued,)
    after = a_view(mirror("w", "e"), topic(DesiredState.MIRRORING), LINEAGE, rescued)
    with pytest.raises(MirrorReversed, match="undecided") as refused:
        undecided_tails(after, DR, EVERY_TOPIC)
    assert "failback accept NAME --finding TAIL_UNDECIDED" in str(refused.value)


def test_a_decision_fits_though_tails_of_an_earlier_circle_were_left_undecided() -> None:
    """Found by the explorer (`--kind circle --seed 111`): such a decision was approved, and no replay permitted it."""
    world = FailoverWorld()
    clusters, quarantine = returned(world), "__mirror_quarantine.orders"
    world.west.with_topic(quarantine, 3)
    left = replace(UNDECIDED, mirror_id=world.spec.mirror_id, stage=TailStage.RESCUED, cluster_id="id-west")
    now = replace(left, promotion_epoch=2, cluster_id="id-east", quarantine=quarantine)
    first = replace(LINEAGE, old_cluster_id="id-west", new_cluster_id="id-east")
    second = replace(first, promotion_epoch=2, old_cluster_id="id-east", new_cluster_id="id-west")
    world.west.write(STATE_TOPIC, topic(DesiredState.REMOVED), first, second, left, now)
    view = clusters.destination.state(STATE_TOPIC, world.soon())
    assert undecided_tails(view, DR, EVERY_TOPIC) == (now,)
    plan = make_decision(world.spec, (now,), dict.fromkeys(TailClass, TailAction.DROP), NOTHING_EXPIRED)
    sign(plan.canonical_plan, ApprovalTerms.of("drill", 60), clusters, world.command())
    assert permitted(plan.hash, view, clusters, world.command()).plan == plan.hash
