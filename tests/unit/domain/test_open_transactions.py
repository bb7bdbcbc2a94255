"""The plan that aborts transactions of an old source: what it binds, and which ones it permits to abort."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tanist.domain.failback.open_transactions import HANGING, ONGOING, AbortPlan, ReturnedTransaction
from tanist.domain.names import EpochMs, MirrorPartition

AT = (MirrorPartition("orders", 0), MirrorPartition("other", 3))
NAMED = ReturnedTransaction("app", 7, 2, EpochMs(1000), ONGOING, AT)
LOST = ReturnedTransaction("", 9, 0, EpochMs(900), HANGING, AT[:1], 4)
PLAN = AbortPlan(mirror="dr", mirror_id="i", source_cluster_id="E", transactions=(NAMED, LOST))


def test_a_plan_is_read_back_as_it_was_hashed_and_binds_each_transaction() -> None:
    assert AbortPlan.read(PLAN.canonical_plan) == PLAN
    others = (
        replace(PLAN, transactions=(NAMED,)),
        replace(PLAN, transactions=(replace(NAMED, partitions=AT[:1]), LOST)),
        replace(PLAN, transactions=(replace(NAMED, since=EpochMs(1001)), LOST)),
        replace(PLAN, mirror_id="j"),
        replace(PLAN, source_cluster_id="W"),
    )
    assert PLAN.hash not in {each.hash for each in others}


def test_state_of_a_transaction_that_moves_by_itself_makes_no_other_plan() -> None:
    moved = replace(PLAN, transactions=(replace(NAMED, state="PrepareAbort"), LOST))
    assert (moved, moved.hash) == (PLAN, PLAN.hash)


def test_a_plan_that_was_approved_with_states_is_read_without_them() -> None:
    """As the version before wrote it."""
    states = iter((ONGOING, HANGING))
    words = json.loads(PLAN.canonical_plan)
    words["v"] = 1
    words["transactions"] = [[*each[:4], next(states), *each[4:]] for each in words["transactions"]]
    assert AbortPlan.read(json.dumps(words)) == PLAN


@pytest.mark.parametrize(
    ("found", "aborted"),
    [
        (NAMED, True),
        (replace(NAMED, state="PrepareAbort"), True),
        (replace(NAMED, partitions=AT[:1]), True),
        (LOST, True),
        (replace(NAMED, since=EpochMs(2000)), False),
        (replace(NAMED, producer_epoch=3), False),
        (replace(NAMED, transactional_id="another"), False),
        (replace(LOST, partitions=AT[1:]), False),
        (replace(LOST, since=EpochMs(901)), False),
    ],
)
def test_a_plan_aborts_the_transactions_that_it_names_and_no_later_ones(
    found: ReturnedTransaction, aborted: bool
) -> None:
    assert PLAN.still_open([found]) == ((found,) if aborted else ())


def test_a_transaction_that_is_ending_is_not_aborted() -> None:
    assert [replace(NAMED, state=state).may_be_aborted for state in (ONGOING, HANGING, "PrepareCommit")] == [
        True,
        True,
        False,
    ]
