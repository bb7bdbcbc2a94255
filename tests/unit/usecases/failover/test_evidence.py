"""What others read later of why a failover was run."""

from __future__ import annotations

import json

import pytest

from tanist.domain.checks import Mode
from tanist.domain.failover.evidence import as_json, as_page
from tanist.domain.names import iso_time
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failover import planning
from tanist.usecases.failover.planning import FailoverRequest
from tests.unit.usecases.failover.in_memory import FailoverWorld

REASON = "corruption seen by billing <ticket 4711>"


@pytest.mark.parametrize(
    ("mode", "alive"), [(Mode.PLANNED, True), (Mode.UNPLANNED, False), (Mode.UNPLANNED, True)], ids=str
)
def test_the_evidence_says_who_approved_why_and_what_was_accepted_by_name(mode: Mode, alive: bool) -> None:
    """As data and on its page; an unplanned failover from a source that answers needs it most."""
    world = FailoverWorld()
    world.east.dead = not alive
    found = world.plan(mode)
    asked, command = FailoverRequest(mode=mode), world.command()
    planning.approve(found.plan.hash, asked, world.clusters(), command, terms=ApprovalTerms.of(REASON, 60))
    evidence = world.run(found.plan.hash).evidence
    head = json.loads(as_json(evidence))["head"]
    assert (head["approval"]["by"], head["approval"]["reason"]) == ("approver", REASON)
    accepted = {limitation.name for limitation in found.plan.limitations}
    assert set(head["limitations_accepted"]) == accepted
    assert ("SOURCE_NOT_DRAINED" in accepted) is (mode is Mode.UNPLANNED)
    page = as_page(evidence)
    assert all(f"<td>{iso_time(event.at)}</td>" in page for event in evidence.events)
    assert "corruption seen by billing &lt;ticket 4711&gt;" in page
    assert all(name in page for name in accepted)
