"""What producers write at an old source while a reversal has lifted a near fence, once the reversal is withdrawn."""

from __future__ import annotations

import pytest

from tanist.domain.checks import Mode
from tanist.domain.failback.pending import pending
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import EVERY_TOPIC
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback import reversal
from tanist.usecases.failback.recording import survey_and_record
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reversal_route import ReversalWithdrawn
from tanist.usecases.failback.reverse import reverse
from tests.unit.usecases.failover.world import DR, PARTITIONS, TOPICS, FailoverWorld
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
