"""What the commands of a failover say of many topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.cli import failover
from tanist.domain.approval.entries import Approval
from tanist.domain.names import EpochMs
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    import pytest


def test_an_approval_of_many_topics_names_the_first_and_counts_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    """One of a thousand topics printed all their names in one line."""
    words = FailoverWorld().plan().plan.canonical_plan
    many = ",".join(f'["orders-{n}",2,0]' for n in range(9))
    shown = words.replace('["orders",2,0]', many)
    assert shown != words
    approval = Approval(
        id="0-0",
        mirror=DR,
        plan="cafe",
        plan_json=shown,
        approver="carol",
        reason="drill",
        valid_for_ms=1,
        at=EpochMs(0),
    )
    failover._approved(approval, "west", as_json=True)
    said = capsys.readouterr().err
    assert "orders-4, and 5 more, 0 offsets tolerated), accepting: nothing" in said
