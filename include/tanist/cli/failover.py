"""`tanist failover`: the runbook without an orchestrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tanist.cli.failover_all import approve_all, plan_all, run_all
from tanist.cli.failover_options import (
    AT_ONCE,
    AllOption,
    AllPlansOption,
    AnswersOption,
    AtOnceOption,
    BudgetOption,
    DeadSinceOption,
    DrainOption,
    EvidenceOption,
    LossOption,
    MirrorOrAllArgument,
    MirrorOrPlanArgument,
    ModeOption,
    MorePlansArgument,
    PlanOption,
    ProofOption,
    ReserveOption,
    ReverseOption,
    SourceOption,
    UntilOption,
    given,
    none_of,
)
from tanist.cli.failover_runs import RunOptions, breach_words, carried_out, evidence_folder
from tanist.cli.options import WHY, ExcludeOption, GroupsOption, MirrorArgument, Session, TopicsOption, asking, lasting
from tanist.cli.output import emit, line, say, say_error, say_unread, stages, watching
from tanist.domain.checks import Mode, named
from tanist.domain.envelope import error_items
from tanist.domain.failover.commands import run_command
from tanist.domain.failover.forecast import forecast_words, silence_words
from tanist.domain.failover.objections import accepted
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.failover.reserve import reserve_words
from tanist.domain.names import EpochMs
from tanist.domain.problems import exit_code
from tanist.domain.selection import EVERYTHING
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failover import abort as aborting
from tanist.usecases.failover import planning
from tanist.usecases.failover import status as statuses
from tanist.usecases.failover.at_once import approve_to_run
from tanist.usecases.failover.items import (
    STEP_COLUMNS,
    approval_item,
    plan_item,
    run_item,
    seen_item,
)
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.tools import Timeouts, Tools
from tanist.wiring.failover import is_process_dead, runner

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.domain.approval.entries import Approval
    from tanist.domain.failover.facts import Facts

app = typer.Typer(
    no_args_is_help=True, help=("Plan, approve and run a failover; abort it before its point of no return.")
)

RUN_COLUMNS = ("mirror", "plan_hash", "status", "approver", "runner", "age_ms", "past_no_return", "reason")
APPROVAL_COLUMNS = ("mirror", "plan_hash", "approval", "approver", "expires_at_ms", "reason")
ACCEPTED_COLUMNS = ("accepts", "detail")
_OPTIONS = {
    "include": "--topic",
    "groups": "--group",
    "loss_tolerance": "--max-loss",
    "dead_since": "--source-dead-since",
}
"""The options of fields of a request that have another name."""
RUN_SECONDS = 600.0
ABORT_SECONDS = 120.0


@app.command()
@asking(several=True)
def plan(
    now: Session,
    name: MirrorOrAllArgument = None,
    mode: ModeOption = Mode.PLANNED,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    group: GroupsOption = None,
    max_loss: LossOption = None,
    reserve: ReserveOption = None,
    source_dead_since: DeadSinceOption = None,
    reverse: ReverseOption = False,
    every: AllOption = False,
    source: SourceOption = None,
    at_once: AtOnceOption = AT_ONCE,
) -> None:
    """Show the steps, limitations and forecast of a failover, and the command that approves it. Changes nothing else.

    The plan is kept at the destination for 7 days, so that its hash is enough to approve it. If this login may not
    write there, the command that approves it has all options in it. Exits with 1 if a limitation blocks the failover.

    --all plans every mirror of every destination, or of those that are given: one table, worst first, and one command
    that approves all of these plans. --timeout is for each mirror. Exits with 0 if all can be approved, 4 if some can.

    Example: tanist failover plan dr --destination west --mode unplanned
    """
    asked = FailoverRequest(
        mode=mode,
        include=tuple(topic or EVERYTHING),
        exclude=tuple(exclude or ()),
        loss_tolerance=max_loss,
        groups=tuple(group or EVERYTHING),
        reserve=reserve,
        dead_since=None if source_dead_since is None else EpochMs(source_dead_since),
        reverse=reverse,
    )
    if every:
        of_one = {"NAME": name, "--topic": topic, "--exclude": exclude, "--group": group, "--max-loss": max_loss}
        none_of(of_one)
        plan_all(now, asked, source, at_once)
        return
    none_of({"--source": source}, "goes with --all only")
    clusters = now.mirror_to_read(given(name, "NAME"))
    found = planning.plan_and_keep(asked, clusters, now.context)
    show_plan(found, now.as_json)
    if found.blocked:
        raise typer.Exit(1)


def show_plan(found: planning.Planned, as_json: bool) -> None:
    """Print a plan, and for people the next command."""
    item = plan_item(found)
    emit([item], STEP_COLUMNS, as_json, rows=item["steps"])
    cost = found.forecast
    for limitation in found.plan.limitations:
        say(f"{'blocked' if limitation.blocks else 'accept'}: {limitation.name}: {limitation.detail}")
    if found.plan.intent.mode is Mode.UNPLANNED:
        if not found.facts.is_mapped:
            say(f"reserve: {reserve_words(found.reserve)}")
        if found.plan.intent.dead_since is None and (silence := silence_words(cost, "--source-dead-since")):
            say(silence)
    say(f"forecast: {forecast_words(cost)}; {found.word}: plan {found.plan.hash}")
    if found.not_kept:
        say(f"the plan is not kept, so its options are needed to approve it: {found.not_kept}")
    if command := found.approve_command:
        say(f"approve it with: {command}")


@app.command()
@asking()
def approve(
    now: Session,
    name: MirrorOrPlanArgument = None,
    plan: Annotated[str | None, typer.Argument(metavar="HASH", help="The hash that `failover plan` shows.")] = None,
    more: MorePlansArgument = None,
    *,
    reason: Annotated[str, WHY],
    valid: Annotated[float, lasting("--valid", "How long the approval is valid", "1h")] = 3600.0,
    mode: Annotated[Mode | None, typer.Option("--mode", help="The mode of the plan (default: either).")] = None,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    group: GroupsOption = None,
    max_loss: LossOption = None,
    reserve: ReserveOption = None,
    source_dead_since: DeadSinceOption = None,
    reverse: ReverseOption = False,
    every: AllPlansOption = False,
    at_once: AtOnceOption = AT_ONCE,
) -> None:
    """Approve a plan, as the principal of this login, and print what that accepts. An approval permits one run.

    The hash is enough for a plan that is kept: `failover plan` prints the command. It permits what the plan says, as
    long as nothing speaks against it that is not in it. For a plan that could not be kept, give the same --mode,
    --topic, --exclude, --group, --max-loss, --reserve, --source-dead-since and --reverse as to `failover plan`.

    --all approves several kept plans, with one reason: `failover plan --all` prints the command. One that is refused
    does not stop the others. Exits with 0 if all are approved, 4 if some are.

    Example: tanist failover approve dr 1c0ffee2 --destination west --reason "east is on fire"
    """
    terms = ApprovalTerms.of(reason, valid)
    typed = {
        "mode": mode,
        "include": tuple(topic or ()),
        "exclude": tuple(exclude or ()),
        "groups": tuple(group or ()),
        "loss_tolerance": max_loss,
        "reserve": reserve,
        "dead_since": source_dead_since,
        "reverse": reverse or None,
    }
    typed = {name: value for name, value in typed.items() if value not in (None, ())}
    if every:
        options = {_OPTIONS.get(field, f"--{field}"): value for field, value in typed.items()}
        none_of(options, "is for a plan that is not kept; approve that one alone")
        approve_all(now, [each for each in (name, plan, *(more or ())) if each], terms, at_once)
        return
    none_of({"HASH": more}, "is given twice; of several mirrors, plans are approved with --all")
    plan = given(plan, "HASH")
    clusters = now.mirror(given(name, "NAME"))
    show = None if now.as_json else show_accepted
    approval = planning.approve_typed(plan, typed, clusters, now.context, terms=terms, show=show)
    _approved(approval, clusters.destination.name, now.as_json)


def show_accepted(words: ApprovedPlan, facts: Facts) -> None:
    """Print what an approver is about to accept."""
    rows = [{"accepts": each.name, "detail": each.detail} for each in accepted(words, facts)]
    loss = {"accepts": "tolerated loss", "detail": f"{words.intent.loss_tolerance} offsets"}
    emit([*rows, loss], ACCEPTED_COLUMNS, as_json=False)


def say_accepted(words: ApprovedPlan, facts: Facts) -> None:
    """As `show_accepted`, on standard error: what a run has done is printed afterwards."""
    for each in accepted(words, facts):
        say(f"accept: {each.name}: {each.detail}")
    say(f"tolerated loss: {words.intent.loss_tolerance} offsets")


def _approved(approval: Approval, destination: str, as_json: bool) -> None:
    words = ApprovedPlan.read(approval.plan_json)
    intent, accepted = words.intent, sorted(words.limitations)
    what = f"{intent.mode} failover of {named(intent.names, ', ')}, {intent.loss_tolerance} offsets tolerated"
    say(f"{approval.approver} approved plan {approval.plan} ({what}), accepting: {', '.join(accepted) or 'nothing'}")
    say_unread(approval)
    say(f"run it with: {run_command(intent, approval.plan, destination)}")
    emit([approval_item(approval) | {"limitations_accepted": accepted}], APPROVAL_COLUMNS, as_json)


@app.command()
@asking(seconds=RUN_SECONDS)
def run(
    now: Session,
    name: MirrorOrPlanArgument = None,
    more: MorePlansArgument = None,
    *,
    plan: PlanOption = None,
    evidence: EvidenceOption = None,
    fence_proof: ProofOption = 5.0,
    drain: DrainOption = 300.0,
    budget: BudgetOption = 15.0,
    until: UntilOption = None,
    although_it_answers: AnswersOption = False,
    reason: Annotated[str, WHY] = "",
    valid: Annotated[float, lasting("--valid", "How long the approval is valid", "1h")] = 3600.0,
    every: AllPlansOption = False,
    at_once: AtOnceOption = AT_ONCE,
) -> None:
    """Run an approved plan. Run the same command again to resume an interrupted run.

    --reason approves the plan first, as the principal of this login, as `failover approve` does with the hash alone;
    not where TANIST_FOUR_EYES is on, and not again where the run has begun.
    With --until the run stops after that step; the same command with a later step, or without --until, continues. If
    the plan was made with --reverse the mirror is reversed at the end, by the approval of the plan.

    --all runs several plans, a few at the same time: `failover approve --all` prints the command. One that stops does
    not stop the others. --timeout is for each mirror. Exits with 0 if all are done, 4 if some are.

    Example: tanist failover run dr --destination west --plan 1c0ffee2
    """
    options = RunOptions(
        patience=Timeouts(proof=fence_proof, drain=drain, budget=budget),
        until=until,
        although_it_answers=although_it_answers,
    )
    if not fence_proof:
        say("warning: --fence-proof 0 skips the proof that producers are blocked at the source")
    if every:
        none_of({"--plan": plan, "--reason": reason.strip() or None})
        run_all(now, [each for each in (name, *(more or ())) if each], options, evidence, at_once)
        return
    none_of({"NAME": more}, "is given twice; several plans are run with --all")
    plan, name = given(plan, "--plan"), given(name, "NAME")
    if reason.strip():
        terms, show = ApprovalTerms.of(reason, valid), None if now.as_json else say_accepted
        if approval := approve_to_run(plan, now.mirror(name), now.context, terms=terms, show=show):
            say(f"{approval.approver} approved plan {approval.plan}")
            say_unread(approval)
    execute(now, name, plan, options, evidence)


def execute(now: Session, name: str, plan: str, options: RunOptions, evidence: Path | None) -> None:
    """Run `plan`, and print the result."""
    folder = evidence_folder(plan, evidence)
    with watching(now.as_json) as tell:
        result = carried_out(now, name, plan, options, folder, tell)
    for words in result.words():
        say(words)
    failed = result.failed
    columns = ("mirror", "plan_hash", "status", "seconds", "proof_seconds", "evidence")
    emit([result.item()], columns, now.as_json, errors=() if failed is None else error_items(failed))
    if failed is not None:
        say_error(failed)
        raise typer.Exit(exit_code(failed))


@app.command()
@asking()
def status(now: Session, name: MirrorArgument) -> None:
    """Show the failover runs of a mirror, the remaining steps of an unfinished run, and a reversal that is not done.

    Exits with 4 if a run, or an approved reversal, is unfinished.

    Example: tanist failover status dr --destination west
    """
    clusters = now.mirror_to_read(name)
    found = statuses.runs(clusters, now.context)
    items = [seen_item(seen) for seen in found]
    emit(items, RUN_COLUMNS, now.as_json, following=now.following(clusters))
    unfinished = [seen for seen in found if seen.facts is not None]
    for seen in unfinished:
        left = ", ".join(seen.left) or "nothing"
        stopped = f"; stopped: {seen.record.reason}" if seen.record.reason else ""
        say(f"plan {seen.record.plan}: remaining steps: {left}{stopped}")
        for words in breach_words(seen.broken):
            say(words)
    reversals = [seen.reversal for seen in found if seen.reversal is not None]
    for reversal in reversals:
        say(str(reversal))
    if unfinished or reversals:
        raise typer.Exit(4)


@app.command()
@asking(seconds=ABORT_SECONDS)
def abort(
    now: Session,
    name: MirrorArgument,
    *,
    reason: Annotated[str, WHY] = "",
    evidence: EvidenceOption = None,
) -> None:
    """Undo an unfinished run: lift its source fences and resume the mirror. Not after the point of no return.

    Example: tanist failover abort dr --destination west --reason "east is back"
    """
    tell = stages(now.context.clock)
    tell(f"looking for an unfinished run of {name}")
    clusters = now.mirror(name)
    running = [seen for seen in statuses.runs(clusters, now.context) if seen.facts is not None]
    folder = evidence_folder(running[0].record.plan if running else "aborted", evidence)
    tools = Tools(
        patience=Timeouts(),
        sink=folder,
        runner=runner(),
        is_process_dead=is_process_dead,
        report=lambda *event: tell(line(*event)),
    )
    aborted = aborting.abort(clusters, tools, now.context, reason)
    for topic in aborted.pending:
        say(f"warning: the source fence of {topic} could not be lifted; a fetcher keeps retrying")
    pending = {name: list(aborted.pending) for name in ("pending", "owed")}  # owed: released, and still read
    emit([run_item(aborted.record, None, str(folder.path)) | pending], RUN_COLUMNS, now.as_json)
    if aborted.pending:
        raise typer.Exit(4)
