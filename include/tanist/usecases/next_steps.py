"""What to do next about a mirror: asks the old source where the way back is next, and leaves the rest to the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.answers import attempt
from tanist.domain.errors import TanistError
from tanist.domain.failback.reversal import SurveyNotFinal, TailUndecided, TailWouldBeDeleted
from tanist.domain.filled import exactly
from tanist.domain.next_steps.rules import guide
from tanist.domain.next_steps.situation import Abortable, WayBack
from tanist.domain.next_steps.step import NextStage
from tanist.domain.problems import each as each_of
from tanist.domain.selection import EVERY_TOPIC, EVERYTHING
from tanist.domain.tails import TailStage
from tanist.usecases.approvals import permit
from tanist.usecases.failback.aborting import ABORTS, plan_abort
from tanist.usecases.failback.reversal import ReversalRequest, approval_of
from tanist.usecases.failback.reversal import plan as plan_reversal

if TYPE_CHECKING:
    from tanist.domain.next_steps.situation import MirrorSituation
    from tanist.domain.next_steps.step import Guidance
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror, ReturnedMirror


_SURVEYED = (TailUndecided, TailWouldBeDeleted, SurveyNotFinal)
"""What a survey that also rescues leads on from."""


def advise(at: MirrorSituation, clusters: OpenMirror, command: CommandContext) -> Guidance:
    """Where the mirror is, and how to go on. Changes nothing; what the old source does not tell is left out."""
    found = guide(at)
    if found.stage is NextStage.FAILED_OVER:
        way = attempt(lambda: _reversal(clusters.returned(), command))
    elif found.stage is NextStage.TAILS_PENDING and any(each.stage is TailStage.UNKNOWN for each in at.tails):
        way = attempt(lambda: _open_transactions(clusters.returned(), command))
    else:
        return found
    return found if isinstance(way, TanistError) else guide(replace(at, way_back=way))


def _reversal(clusters: ReturnedMirror, command: CommandContext) -> WayBack:
    """With all topics as they are; where that cannot be, with those copied again that cannot return otherwise."""
    asked = ReversalRequest()
    made = attempt(lambda: plan_reversal(asked, clusters, command).plan)
    if isinstance(made, TanistError):
        first, asked = made, ReversalRequest(recreate=EVERYTHING)
        made = attempt(lambda: plan_reversal(asked, clusters, command).plan)
        if isinstance(made, TanistError):
            again = any(isinstance(each, _SURVEYED) for each in (*each_of(first), *each_of(made)))
            return WayBack(problem=f"{first.name}: {first.reason}", survey_again=again)
    recreated = tuple(each.topic for each in made.topics if each.recreation is not None)
    asked = ReversalRequest(recreate=tuple(exactly(topic) for topic in recreated))
    approved = attempt(lambda: approval_of(made, asked, clusters, command))
    return WayBack(
        plan=made.hash,
        approved=not isinstance(approved, TanistError),
        recreated=recreated,
        limitations=made.limitations,
    )


def _open_transactions(clusters: ReturnedMirror, command: CommandContext) -> WayBack:
    found = plan_abort(clusters, EVERY_TOPIC, command).plan
    if not found.transactions:
        return WayBack()
    permitted = attempt(lambda: permit(ABORTS, found.hash, (), clusters, command))
    return WayBack(
        open=Abortable(
            plan=found.hash,
            approved=not isinstance(permitted, TanistError),
            producers=tuple(each.transactional_id or f"producer id {each.producer_id}" for each in found.transactions),
        )
    )
