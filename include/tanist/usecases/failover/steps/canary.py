"""Every topic takes a transaction that is aborted: writable as producers will write, and no reader ever sees it.

Before WRITE is taken from us: where there is an authorizer, afterwards this principal may not write any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.usecases.failover.step import Done, must_all
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from tanist.usecases.failover.step import StepContext


def do(context: StepContext) -> Done:
    """It spends two offsets of one partition of each topic, behind the barrier."""
    side, names = context.destination, [each.topic for each in context.taking_over()]
    context.session.confirm()
    answers = side.opening.canary(context.spec.mirror, names, context.by) if names else {}
    failed = {topic: named(error, side, f"WRITE on Topic {topic}") for topic, error in answers.items() if error}
    must_all(failed, "topic(s) did not accept the test transaction")
    context.checkpoint("canary:sung")
    context.session.mark("canary")
    return Done({"topics": sorted(answers)})
