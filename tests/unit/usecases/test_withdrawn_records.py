"""What is left of an old source's records once a reversal is withdrawn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.checks import Mode
from tanist.domain.failback.pending import pending
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import EVERY_TOPIC
from tanist.domain.tails import hold_changes, hold_of
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback import reversal
from tanist.usecases.failback.recording import survey_and_record
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reversal_route import ReversalWithdrawn, withdraw
from tanist.usecases.failback.reverse import reverse
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import PARTITIONS, TOPICS, FailoverWorld, Killed
from tests.unit.usecases.returning import returned


def test_records_of_a_withdrawn_reversal_are_pending_until_they_are_surveyed() -> None:
    """Found by the explorer (`--kind circle`, seeds 5, 8 and 73, if a withdrawn reversal does not count as a list)."""
    world = FailoverWorld(authorizer=False)
    world.east.rules.clear()
    world.run(world.approve(Mode.UNPLANNED).plan)
    clusters, request = returned(world), ReversalRequest()
    survey_and_record(clusters, EVERY_TOPIC, world.command())
    planned = reversal.plan(request, clusters, world.command()).plan
    reversal.approve(planned.hash, request, clusters, world.command(), terms=ApprovalTerms.of("drill", 60))

    def write(point: str) -> None:
        if point == "lifted":
            world.east.grow(PARTITIONS[0])

    with pytest.raises(ReversalWithdrawn, match="producers have written to offsets"):
        reverse(request, clusters, world.command(), write)
    assert {each.topic for each in pending(world.west.view(STATE_TOPIC), DR)} == set(TOPICS)


def test_tails_of_topics_that_stay_behind_are_still_held_once_the_reversal_is_withdrawn() -> None:
    """Retention of the old source took what nobody had decided about: it was put back too early, and stayed so."""
    world, request = FailoverWorld(), ReversalRequest(exclude=("payments",), accept=("TAIL_UNDECIDED",))
    world.run(world.approve().plan)
    clusters, spec = returned(world), world.west.view(STATE_TOPIC).mirror(DR)
    assert spec is not None
    facts = world.east.topics["payments"]
    own = {**facts.configs, "retention.ms": "60000"}
    held = {name: value for name, value in hold_changes(own).items() if value is not None}
    world.east.topics["payments"] = replace(facts, configs=own | held)
    world.west.write(STATE_TOPIC, hold_of(DR, spec.mirror_id, "payments", own, facts.topic_id, world.clock.now()))
    made = reversal.plan(request, clusters, world.command()).plan
    reversal.approve(made.hash, request, clusters, world.command(), terms=ApprovalTerms.of("drill", 3600))

    def kill(point: str) -> None:
        if point == "lifted":
            raise Killed

    with pytest.raises(Killed):
        reverse(request, clusters, world.command(), kill)
    withdraw(clusters, "its producers cannot be stopped", world.command())
    assert world.east.topics["payments"].configs["retention.ms"] == "-1"
    assert set(world.west.view(STATE_TOPIC).retention_held(DR)) == {"payments"}
    made = reversal.plan(request, clusters, world.command()).plan
    reversal.approve(made.hash, request, clusters, world.command(), terms=ApprovalTerms.of("drill", 3600))
    reverse(request, clusters, world.command())
    assert world.east.topics["payments"].configs["retention.ms"] == "60000"
