"""Consumer groups in a failover: exactly those that were approved, and nothing about them in silence."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tanist.domain.approval.entries import NotApproved
from tanist.domain.approval.words import canonical
from tanist.domain.errors import GroupNotInMirror, Misconfigured
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, SourcePartition
from tanist.domain.records import GROUPS_TOPIC, GroupPosition
from tanist.domain.translation import Conservative, Exact, Proof, Withheld
from tanist.ports.positions import ProofResult
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failover import planning
from tanist.usecases.failover.items import outcome_item, plan_item
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.tools import GroupsMoved, moved_by
from tanist.usecases.groups.gather import Freshest, Gathered
from tanist.usecases.groups.gather import SourceAnswer as AskedSource
from tanist.usecases.groups.rows import DestinationGroups, PositionRow
from tanist.usecases.groups.sync import GroupSyncResult
from tests.builders import AT_SOURCE, DR
from tests.unit.usecases.failover.in_memory import PARTITIONS, TOPICS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import PLANNED, killer

BILLING = ("billing.*",)


@pytest.fixture
def world() -> FailoverWorld:
    """With one group, `billing-1`, whose positions are kept."""
    made = FailoverWorld()
    kept = GroupPosition(
        mirror=DR, group="billing-1", partition=SourcePartition(*PARTITIONS[0]), offset=SourceOffset(3), at=EpochMs(1)
    )
    made.west.with_topic(GROUPS_TOPIC).write(GROUPS_TOPIC, kept)
    return made


def planned(world: FailoverWorld, groups: tuple[str, ...]) -> planning.Planned:
    return planning.plan(FailoverRequest(groups=groups), world.clusters(), world.command())


def test_another_choice_of_groups_is_another_plan_and_only_the_approved_ones_are_moved(world: FailoverWorld) -> None:
    every, some = planned(world, (".*",)).plan, planned(world, BILLING)
    assert every.hash != some.plan.hash
    assert plan_item(some)["groups"] == list(BILLING)
    world.approve()
    with pytest.raises(NotApproved):
        world.run(some.plan.hash)
    clusters, command = world.clusters(), world.command()
    asked, terms = FailoverRequest(groups=BILLING), ApprovalTerms.of("x", 60)
    planning.approve(some.plan.hash, asked, clusters, command, terms=terms)
    world.run(some.plan.hash)
    assert world.moved == [(tuple(TOPICS), BILLING)]


def test_a_group_that_appears_later_makes_no_other_plan(world: FailoverWorld) -> None:
    before = planned(world, BILLING).plan.hash
    late = GroupPosition(
        mirror=DR, group="billing-2", partition=SourcePartition(*PARTITIONS[0]), offset=SourceOffset(0), at=EpochMs(1)
    )
    world.west.write(GROUPS_TOPIC, late)
    assert planned(world, BILLING).plan.hash == before


def test_a_plan_that_was_shown_before_groups_were_in_it_meant_all_of_them(world: FailoverWorld) -> None:
    words = json.loads(planned(world, BILLING).plan.canonical_plan)
    del words["intent"]["groups"]
    assert ApprovedPlan.read(canonical(words)).intent.groups == (".*",)


def test_an_expression_that_names_no_group_is_a_typing_mistake(world: FailoverWorld) -> None:
    with pytest.raises(GroupNotInMirror, match="biling"):
        planned(world, ("biling.*",))
    with pytest.raises(Misconfigured):
        planned(world, ("(",))


# ── what becomes of them ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_proof_that_failed_is_in_the_evidence_by_its_own_name(world: FailoverWorld) -> None:
    """A mismatch says that the map is wrong; among groups that merely have members nobody would see it."""
    world.groups_moved = GroupsMoved(
        problems=("busy on orders-0: members", "bad on orders-1: differ"), mismatches=("bad",)
    )
    outcome = world.run(world.approve().plan)
    assert outcome.evidence.found("groups")["mismatches"] == ["bad"]
    item = outcome_item(outcome, "there")
    assert (len(item["group_problems"]), item["group_mismatches"]) == (2, ["bad"])


def test_every_position_with_a_problem_is_told_once_with_its_proof() -> None:
    row = PositionRow(
        at_source=AT_SOURCE,
        group="g",
        partition=PARTITIONS[0],
        position=Freshest(SourceOffset(5), EpochMs(1), direct=True),
        age_ms=0,
        translation=Exact(DestinationOffset(5)),
        mirror_end=Span(DestinationOffset(0), DestinationOffset(9)),
    )
    bad = replace(row, group="bad", compared=ProofResult(Proof.MISMATCH, "other bytes"), decision=Withheld("differ"))
    ahead = replace(
        row, group="ahead", translation=Conservative(DestinationOffset(9), "clamped", 3), decision=Withheld("x")
    )
    moved = moved_by(
        GroupSyncResult(rows=(row, bad, ahead), seen=_nothing(), there=DestinationGroups(groups={}, committed={}))
    )
    assert [each["proof"] for each in moved.rows] == ["none", "mismatch", "none"]
    assert len(moved.problems) == 2
    assert moved.mismatches == (f"bad on {PARTITIONS[0]}: differ; other bytes",)


def test_what_consumers_commit_between_two_calls_is_translated_before_the_barrier(world: FailoverWorld) -> None:
    """They are not fenced, so a translation of an earlier call is no proof that groups stand where they stood."""
    plan = world.approve().plan
    world.run(plan, until="groups")
    world.run(plan, until="drain")
    assert len(world.moved) == 1, "a call that does not come so far translates nothing"
    world.groups_moved = GroupsMoved(rows=({"group": "billing", "committed": 7},))
    outcome = world.run(plan, until="seal")
    assert len(world.moved) == 2
    assert outcome.evidence.found("groups")["rows"] == [{"group": "billing", "committed": 7}]
    assert list(outcome.left)[:1] == ["generation"]
    world.run(plan)
    assert len(world.moved) == 2, "behind the barrier nothing of the source counts any more"


@pytest.mark.parametrize(("killed", "times"), [("after:groups", 2), ("before:seal", 2), ("seal:no-return", 1)])
def test_a_run_killed_between_groups_and_seal_translates_again(world: FailoverWorld, killed: str, times: int) -> None:
    world.behind()
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index(killed)))
    world.run(plan)
    assert len(world.moved) == times


def _nothing() -> Gathered:
    return Gathered(
        spec=FailoverWorld().spec,
        partitions=frozenset(),
        preparing=frozenset(),
        positions={},
        kinds={},
        copies={},
        source_ends={},
        followed=None,
        source_answer=AskedSource(),
        now=EpochMs(0),
    )
