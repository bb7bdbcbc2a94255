"""`tanist mirrors remove`: a failover of the topics that it removes, or none, and their copies stay closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tanist.cli.failover import execute, show_plan
from tanist.cli.failover_options import AnswersOption, DrainOption, EvidenceOption, ProofOption
from tanist.cli.failover_runs import RunOptions
from tanist.cli.options import (
    ExcludeOption,
    MirrorArgument,
    Session,
    TopicsOption,
    announcing,
    asking,
    confirm,
    selected,
)
from tanist.cli.output import emit, say
from tanist.domain.checks import Mode
from tanist.domain.detached import way_on
from tanist.domain.errors import Misconfigured
from tanist.domain.followed import copied_here, is_followed
from tanist.domain.lag import DETACHED_STATE
from tanist.domain.names import mirror_name
from tanist.domain.states import DesiredState
from tanist.usecases.failover import removal
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.tools import Timeouts
from tanist.usecases.items import spec_item, topic_item
from tanist.usecases.mirror import spec_at
from tanist.usecases.mirrors import administer, detach

if TYPE_CHECKING:
    from tanist.domain.records import MirrorSpec

REMOVE_SECONDS = 600.0
TOPIC_COLUMNS = ("mirror", "topic", "state")


KeepCopyOption = Annotated[
    bool,
    typer.Option(
        "--keep-copy",
        help="Detach the topics: no failover and no approval; nothing is fenced at the source, the copies stay closed.",
    ),
]


@asking(changes=True, confirms=True, seconds=REMOVE_SECONDS, dry_run="Print and keep the plan; change nothing else.")
def remove(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    keep_copy: KeepCopyOption = False,
    evidence: EvidenceOption = None,
    fence_proof: ProofOption = 5.0,
    drain: DrainOption = 300.0,
    although_it_answers: AnswersOption = False,
) -> None:
    """Remove topics from a mirror: they become ordinary topics. This is a failover of them, with an approved plan.

    --dry-run prints that plan and keeps it, as `failover plan` does. Run the same command once the plan is approved,
    and again to resume an interrupted run. The latest approved plan of just these topics runs, in the mode in which it
    was approved; an unplanned one needs --although-it-answers where the source answers.

    With --keep-copy it is no failover: nothing is copied any more, the copies stay as they are, closed to writers, and
    producers of the source go on. `tanist mirrors add` goes on where it stopped. Without --keep-copy a detached topic
    is forgotten, once its copy was deleted.

    A mirror that somebody else copies (`create --copied-by`) is removed as a whole, without --topic, once confirmed:
    its registration and what is kept of its groups are deleted, and nothing else.

    Example: tanist mirrors remove dr --destination west --topic orders --dry-run
    """
    if not topic:
        spec = spec_at(now.destination(), mirror_name(name), now.context, any_copier=True)
        if is_followed(spec):
            _forget_followed(now, copied_here(spec) if exclude or keep_copy else spec)
            return
        raise Misconfigured("no topic is selected: give --topic REGEX")
    if keep_copy:
        run = announcing(now, "detach")
        _show_detached(
            now, detach.detach_topics(name, selected(topic, exclude), now.destination(), run), DETACHED_STATE
        )
        return
    run = announcing(now, "forget")
    gone = detach.forget_detached(name, selected(topic, exclude), now.destination(), now.registry.connect, run)
    if gone is not None:
        _show_detached(now, gone, DesiredState.REMOVED)
        return
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


def _forget_followed(now: Session, spec: MirrorSpec) -> None:
    """Delete a mirror that somebody else copies, whose topics are nobody's here."""
    destination = now.destination()
    confirm(f"Forget mirror {spec.mirror} of {destination.name}?", yes=now.yes or now.context.dry_run)
    spec = administer.delete(spec.mirror, destination, now.context).spec
    say(f"{'would forget' if now.context.dry_run else 'forgot'} mirror {spec.mirror}, and touched none of its topics")
    emit([spec_item(spec) | {"changed": not now.context.dry_run}], ("mirror", "source", "destination"), now.as_json)


def _show_detached(now: Session, found: detach.Detached, state: str) -> None:
    """The topics that have left the mirror without a failover; `state`: what they are from now on."""
    emit([topic_item(topic) | {"state": state} for topic in found.topics], TOPIC_COLUMNS, now.as_json)
    if state == DesiredState.REMOVED:
        return
    would = "would be " if now.context.dry_run else ""
    for topic in found.topics:
        say(f"{topic.topic} {would}detached: {way_on(found.spec, topic.topic)}")


def register(app: typer.Typer) -> None:
    """Add the command to `tanist mirrors`."""
    app.command()(remove)
