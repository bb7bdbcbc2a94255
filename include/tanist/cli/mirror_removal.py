"""`tanist mirrors remove`: a failover of the topics that it removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.cli.failover import execute, show_plan
from tanist.cli.failover_options import AnswersOption, DrainOption, EvidenceOption, ProofOption
from tanist.cli.failover_runs import RunOptions
from tanist.cli.options import ExcludeOption, MirrorArgument, Session, TopicsOption, announcing, asking
from tanist.cli.output import say
from tanist.domain.checks import Mode
from tanist.domain.errors import Misconfigured
from tanist.usecases.failover import removal
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.tools import Timeouts

if TYPE_CHECKING:
    import typer

REMOVE_SECONDS = 600.0


@asking(changes=True, seconds=REMOVE_SECONDS, dry_run="Print and keep the plan; change nothing else.")
def remove(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    evidence: EvidenceOption = None,
    fence_proof: ProofOption = 10.0,
    drain: DrainOption = 300.0,
    although_it_answers: AnswersOption = False,
) -> None:
    """Remove topics from a mirror: they become ordinary topics. This is a failover of them, with an approved plan.

    --dry-run prints that plan and keeps it, as `failover plan` does. Run the same command once the plan is approved,
    and again to resume an interrupted run. The latest approved plan of just these topics runs, in the mode in which it
    was approved; an unplanned one needs --although-it-answers where the source answers.

    Example: tanist mirrors remove dr --destination west --topic orders --dry-run
    """
    if not topic:
        raise Misconfigured("no topic is selected: give --topic REGEX")
    asked = FailoverRequest(include=tuple(topic), exclude=tuple(exclude or ()))
    clusters = now.mirror(name)
    if now.context.dry_run:
        made = removal.plan_and_keep(asked, clusters, now.context)
        show_plan(made, now.as_json)
        if made.plan.intent.mode is Mode.UNPLANNED:
            say(
                "warning: the plan is unplanned, because a planned removal is blocked now: what the source has and "
                "the copy lacks is lost. If its cause passes, run the same command again"
            )
        return
    found = removal.approved_plan(asked, clusters, now.context)
    announcing(now, "remove").announce([*topic])
    options = RunOptions(patience=Timeouts(proof=fence_proof, drain=drain), although_it_answers=although_it_answers)
    execute(now, name, found, options, evidence)


def register(app: typer.Typer) -> None:
    """Add the command to `tanist mirrors`."""
    app.command()(remove)
