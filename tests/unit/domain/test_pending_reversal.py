"""A reversal that was approved and is not done, as everybody who asks is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.approval.choosing import choose, without
from tanist.domain.approval.entries import Approval, NotApproved
from tanist.domain.approval.words import hash_of
from tanist.domain.checks import Mode, Verdict
from tanist.domain.circle import ReversalStatus, pending_reversal, reversal_check
from tanist.domain.failover.plan import Intent, Plan, TopicIntent
from tanist.domain.moves import MoveStatus
from tanist.domain.names import EpochMs
from tanist.domain.records import FailoverRun, RunStatus
from tanist.domain.states import DesiredState
from tests.builders import DR, a_mirror, a_move, a_run, a_topic, a_view

SPEC = a_mirror()
TOPIC = a_topic(desired=DesiredState.REMOVED)
INTENT = Intent(
    mirror=DR,
    mode=Mode.PLANNED,
    source_cluster_id="e",
    destination_cluster_id="w",
    topics=(TopicIntent(topic="orders", partitions=1),),
    reverse=True,
)

MOVE = a_move(approval="a", approver="bob", at=EpochMs(9))


def run(intent: Intent = INTENT, status: RunStatus = RunStatus.DONE, at: int = 5) -> FailoverRun:
    plan = Plan(intent, ("lock",), ())
    return a_run(
        plan=plan.hash,
        plan_json=plan.canonical_plan,
        approval="a",
        approver="ann",
        status=status,
        started_at=EpochMs(at),
        at=EpochMs(at),
    )


def test_a_reversal_is_pending_from_the_end_of_its_failover_until_the_mirror_copies_back() -> None:
    done = run()
    assert pending_reversal(a_view(SPEC, TOPIC, run(status=RunStatus.RUNNING)), DR) is None
    found = pending_reversal(a_view(SPEC, TOPIC, done), DR)
    assert found is not None
    assert (found.status, found.run) == (ReversalStatus.PENDING, done)
    assert found.next_command == f"tanist failover run dr --destination west --plan {done.plan}"
    back = replace(TOPIC, desired=DesiredState.MIRRORING)
    assert pending_reversal(a_view(SPEC, back, done), DR) is None
    check = reversal_check(found)
    assert (check.verdict, found.next_command in check.reason) == (Verdict.FAIL, True)
    assert reversal_check(None).verdict is Verdict.PASS


def test_a_failover_without_a_reversal_leaves_none_pending() -> None:
    assert pending_reversal(a_view(SPEC, TOPIC, run(replace(INTENT, reverse=False))), DR) is None
    later = run(replace(INTENT, reverse=False), at=9)
    assert pending_reversal(a_view(SPEC, TOPIC, run(), later), DR) is None


def test_a_reversal_that_was_withdrawn_has_used_the_approval_of_its_failover() -> None:
    """The command of the failover would be refused: another reversal has to be planned and approved."""
    withdrawn = replace(MOVE, status=MoveStatus.WITHDRAWN)
    found = pending_reversal(a_view(SPEC, TOPIC, run(), withdrawn), DR)
    assert found is not None
    assert (found.status, found.run) == (ReversalStatus.WITHDRAWN, None)
    assert found.next_command == "tanist mirrors reverse dr --destination west --dry-run"
    other = pending_reversal(a_view(SPEC, TOPIC, run(), replace(withdrawn, approval="earlier")), DR)
    assert other is not None
    assert other.status is ReversalStatus.PENDING


def test_an_approval_that_a_withdrawn_reversal_has_used_does_not_count_after_a_second_withdrawal() -> None:
    """The second one was approved by itself; the record of it remembers the approval of the first one."""
    first = replace(MOVE, status=MoveStatus.WITHDRAWN)
    second = replace(first, approval="b", plan="beef", used=first.approvals_used)
    found = pending_reversal(a_view(SPEC, TOPIC, run(), second), DR)
    assert found is not None
    assert (found.status, found.plan) == (ReversalStatus.WITHDRAWN, "beef")


def test_an_approval_that_was_used_before_the_last_withdrawn_reversal_is_not_chosen_again() -> None:
    """The clusters make the plan of the first one again, after one with another plan was withdrawn as well."""
    words = "{}"
    approval = Approval(
        id="a",
        mirror=DR,
        plan=hash_of(words),
        plan_json=words,
        approver="ann",
        reason="drill",
        request="command/1",
        valid_for_ms=60_000,
        at=EpochMs(1),
    )
    second = replace(MOVE, status=MoveStatus.WITHDRAWN, approval="b", plan="beef", used=("a",))
    assert choose([approval], [second], DR, approval.plan) == approval
    with pytest.raises(NotApproved):
        choose(without([approval], second.used), [second], DR, approval.plan)


def test_a_reversal_that_has_begun_is_moving_whoever_approved_it() -> None:
    again = pending_reversal(a_view(SPEC, TOPIC, replace(MOVE, status=MoveStatus.WITHDRAWING)), DR)
    assert again is not None
    assert again.status is ReversalStatus.WITHDRAWING
    found = pending_reversal(a_view(SPEC, TOPIC, MOVE), DR)
    assert found is not None
    assert (found.status, found.plan, found.run) == (ReversalStatus.MOVING, "cafe", None)
    assert found.next_command == "tanist mirrors reverse dr --destination west"
    assert pending_reversal(a_view(SPEC, TOPIC, replace(MOVE, status=MoveStatus.MOVED)), DR) is None
