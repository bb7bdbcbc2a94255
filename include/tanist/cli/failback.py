"""`tanist failback`: the old source returns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tanist.cli import open_transactions
from tanist.cli.open_transactions import ToRunOption
from tanist.cli.options import WHY, ExcludeOption, MirrorArgument, Session, TopicsOption, asking, lasting, selected
from tanist.cli.output import emit, line, never_silent, say, say_error, say_how, say_unread, stages
from tanist.domain.envelope import error_items
from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.failback.decision import TailAction, TailClass
from tanist.domain.failback.reversal import without_copies
from tanist.domain.failback.torn import torn_words
from tanist.domain.filled import REASON
from tanist.domain.names import mirror_name
from tanist.domain.problems import exit_code as problems_exit_code
from tanist.domain.tails import FindingKind, TailStage
from tanist.ports.clock import Deadline
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback.accepting import FINDING_COLUMNS, accept_findings, finding_item
from tanist.usecases.failback.deciding import (
    DECISION_COLUMNS,
    approve_decision,
    decide_at_once,
    decision_item,
    plan_decision,
)
from tanist.usecases.failback.recording import survey_and_record
from tanist.usecases.failback.replay import REPLAY_COLUMNS, ReplayTools, replay_item
from tanist.usecases.failback.replay import replay as replay_tails
from tanist.usecases.failback.rescue import (
    RESCUE_COLUMNS,
    RescueOutcome,
    RescueTools,
    in_quarantine,
    newly_rescued,
    rescue_surveyed,
    tail_items,
)
from tanist.usecases.failback.rescue import rescue as rescue_tails
from tanist.usecases.failback.survey import SURVEY_COLUMNS, exit_code, survey_item
from tanist.usecases.failover.items import approval_item
from tanist.usecases.runs.runner import Reporting
from tanist.wiring.failover import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.usecases.failback.deciding import PlannedDecision
    from tanist.usecases.failback.recording import Surveyed
    from tanist.usecases.mirror import ReturnedMirror


app = typer.Typer(no_args_is_help=True, help="The way back: what an old source has that the new primary lacks.")

RESCUE_SECONDS = 3600.0
SURVEY_SECONDS = 120.0
APPROVAL_COLUMNS = ("mirror", "plan_hash", "approval", "approver", "expires_at_ms", "reason")
_CLASSES = ", ".join(TailClass)
EvidenceOption = Annotated[
    Path | None,
    typer.Option("--evidence", metavar="DIR", help="Directory for the manifest (default: ./evidence/rescue-NAME)."),
]


NoRescueOption = Annotated[bool, typer.Option("--no-rescue", help="Only look: copy nothing to quarantine topics.")]


@app.command()
@asking(changes=True, seconds=RESCUE_SECONDS)
def survey(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    no_rescue: NoRescueOption = False,
    evidence: EvidenceOption = None,
) -> None:
    """Compare an old source that has returned with the mirror topics that have taken over, and rescue its tails.

    It keeps the old source from deleting what only it has, records what was found once that cannot change any more, and
    copies what only the old source has to quarantine topics, as `failback rescue` does; --no-rescue leaves that out.
    Run it again at any time: no record is copied twice. The comparison ends after 120 s, or after --timeout.
    Exits with 3 if the old source may still get records, with 1 if an offset names two records.

    Example: tanist failback survey dr --destination west
    """
    topics = selected(topic, exclude)
    clusters = now.mirror(name).returned()
    by = now.until or Deadline(min(now.context.by.at, now.context.clock.deadline(SURVEY_SECONDS).at))
    seen = survey_and_record(clusters, topics, replace(now.context, by=by))
    _warn_not_held(seen.not_held)
    if seen.without_copy:
        say(f"warning: {without_copies(seen.without_copy)}")
    for each in seen.found:
        for warning in each.warnings:
            say(f"warning: {each.partition}: {warning}")
    done: RescueOutcome | TanistError | None = None
    if not (no_rescue or now.context.dry_run):
        with never_silent(stages(now.context.clock)) as tell:
            done = rescue_surveyed(seen, clusters, topics, lambda: _rescue_tools(tell, name, evidence), now.context)
    tails = {each.topic: each for each in (done.tails if isinstance(done, RescueOutcome) else seen.recorded)}
    items = [survey_item(name, each, tails.get(each.partition.topic)) for each in seen.found]
    stopped = done if isinstance(done, TanistError) else None
    errors = error_items(stopped) if stopped else ()
    emit(items, SURVEY_COLUMNS, now.as_json, errors=errors, following=now.following(clusters))
    if isinstance(done, RescueOutcome):
        _say_rescued(seen, done)
    _say_in_the_way(name, clusters, seen)
    if stopped:
        say("the survey is on record, its tails are not rescued: run the same command again")
        say_error(stopped)
        raise typer.Exit(problems_exit_code(stopped))
    if code := exit_code(seen.found) or int(any(item["expired"] for item in items)):
        raise typer.Exit(code)


def _say_in_the_way(name: str, clusters: ReturnedMirror, seen: Surveyed) -> None:
    """What keeps partitions from being rescued, and what to do about it."""
    recorded = {each.topic for each in seen.recorded}
    waiting = [each for each in seen.found if each.partition.topic not in recorded]
    for each in waiting:
        say(f"warning: {each.partition} is not rescued: {'; '.join(each.reasons) or 'its topic may get records'}")
    if waiting:
        where = f"{name} --destination {clusters.destination.name}"
        say(
            f"run the same command again: a running fetcher of {clusters.destination.name} sets a pending source "
            f"fence, and `tanist failback abort-transactions {where} --dry-run` shows transactions that stay open"
        )


def _say_rescued(seen: Surveyed, done: RescueOutcome) -> None:
    _warn_of_torn(done)
    kept = [each for each in done.tails if each.with_records() and each.stage is TailStage.RESCUED]
    if kept:
        where = ", ".join(sorted(each.quarantine for each in kept))
        undecided = sum(map(in_quarantine, kept)) - sum(each.decided_before for each in seen.found)
        new = min(newly_rescued(seen, done), undecided)
        copied = f"{new} of them copied by this command" if new else "rescued before: nothing was copied"
        say(f"{undecided} record(s) that nobody has decided about are in {where}, {copied}")


def _warn_of_torn(done: RescueOutcome) -> None:
    if words := torn_words(done.torn):
        say(f"warning: {words}; the manifest lists them")


def _rescue_tools(report: Callable[[str], None], name: str, evidence: Path | None) -> RescueTools:
    """Raises Misconfigured: the folder of the manifest cannot be written to."""
    folder = Folder(evidence or Path("evidence") / f"rescue-{name}")
    folder.check()
    return RescueTools(
        manifest=folder.write_manifest,
        report=lambda at, count, of: report(f"{at}: {count} of {of} records are in quarantine"),
    )


@app.command()
@asking(changes=True, seconds=RESCUE_SECONDS)
def rescue(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    evidence: EvidenceOption = None,
) -> None:
    """Copy what only an old source has to quarantine topics of the new primary, and check every record of it.

    `failback survey` does that, too. Run it again after an interruption: no record is copied twice. Exits with 3 if an
    old source may still get records, with 1 if it had deleted some of them before they were copied.

    Example: tanist failback rescue dr --destination west
    """
    topics = selected(topic, exclude)
    clusters = now.mirror(name).returned()
    with never_silent(stages(now.context.clock)) as tell:
        done = rescue_tails(clusters, topics, _rescue_tools(tell, name, evidence), now.context)
    _warn_not_held(done.not_held)
    for each in done.waiting:
        say(f"warning: {each.partition} is not rescued: {'; '.join(each.reasons) or 'it is not known'}")
    _warn_of_torn(done)
    items = [item for each in done.tails for item in tail_items(name, each)]
    emit(items, RESCUE_COLUMNS, now.as_json)
    expired = [item for item in items if item["expired"]]
    for item in expired:
        where = f"{item['topic']}-{item['partition']}"
        say(f"warning: the old source had deleted {item['expired']} offset(s) of {where} before their rescue")
    if done.waiting or expired:
        raise typer.Exit(3 if done.waiting else 1)


ReplayOption = Annotated[
    list[TailClass] | None, typer.Option("--replay", metavar="CLASS", help=f"Append these to their topics: {_CLASSES}.")
]
DropOption = Annotated[
    list[TailClass] | None, typer.Option("--drop", metavar="CLASS", help=f"Leave these in quarantine: {_CLASSES}.")
]


def _actions(replayed: list[TailClass] | None, dropped: list[TailClass] | None) -> dict[TailClass, TailAction]:
    if both := set(replayed or ()) & set(dropped or ()):
        raise typer.BadParameter(f"--replay and --drop both name {', '.join(sorted(both))}")
    return dict.fromkeys(replayed or (), TailAction.REPLAY) | dict.fromkeys(dropped or (), TailAction.DROP)


@app.command()
@asking(seconds=RESCUE_SECONDS)
def decide(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    replay: ReplayOption = None,
    drop: DropOption = None,
) -> None:
    """Show what would become of rescued records, by class, and the hash to approve. Changes nothing.

    conflict: the new primary has a newer record with the key; safe: it has none; unordered: no key; expired: retention
    of the topic would delete it. Without --replay and --drop safe records are replayed, all others stay in quarantine.
    `failback replay NAME --reason TEXT` approves and carries out what this shows.

    Example: tanist failback decide dr --destination west
    """
    topics = selected(topic, exclude)
    clusters = now.mirror_to_read(name).returned()
    found = plan_decision(clusters, topics, _actions(replay, drop), now.context)
    item, plan = decision_item(found), found.plan.hash
    emit([item], DECISION_COLUMNS, now.as_json, rows=item["tails"])
    say(f"{found}: plan {plan}")
    place = ("--destination", clusters.destination.name)
    why, running = (*topics.options, "--reason", REASON), ("tanist", "failback", "replay", name, *place, "--plan", plan)
    approving = ("tanist", "failback", "approve", name, plan, *place, *why)
    say_how((*running, *why), approving, running, four_eyes=now.context.four_eyes)


@app.command()
@asking(seconds=RESCUE_SECONDS)
def approve(
    now: Session,
    name: MirrorArgument,
    plan: Annotated[str, typer.Argument(metavar="HASH", help="The hash that `failback decide` shows.")],
    *,
    reason: Annotated[str, WHY],
    valid: Annotated[float, lasting("--valid", "How long the approval is valid", "1h")] = 3600.0,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    replay: ReplayOption = None,
    drop: DropOption = None,
) -> None:
    """Approve a decision, as the principal of this login. Give the same --topic and --exclude as to `failback decide`.

    The hash says what becomes of each class; --replay and --drop may be repeated, and must say the same.

    Example: tanist failback approve dr 1c0ffee2 --destination west --reason "seen by the owner"
    """
    topics = selected(topic, exclude)
    clusters, actions = now.mirror(name).returned(), _actions(replay, drop)
    approval = approve_decision(plan, topics, actions, clusters, now.context, terms=ApprovalTerms.of(reason, valid))
    say(f"{approval.approver} approved plan {approval.plan}")
    say_unread(approval)
    emit([approval_item(approval)], APPROVAL_COLUMNS, now.as_json)


@app.command("replay")
@asking(changes=True, seconds=RESCUE_SECONDS)
def replay_decided(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    plan: ToRunOption = None,
    reason: Annotated[str, WHY] = "",
    valid: Annotated[float, lasting("--valid", "How long the approval is valid", "1h")] = 3600.0,
    replay: ReplayOption = None,
    drop: DropOption = None,
    evidence: EvidenceOption = None,
) -> None:
    """Carry out a decision: append what was chosen to the end of its topics, and leave the rest in quarantine.

    --plan carries out a plan that was approved. --reason approves the plan first, as the principal of this login: the
    one of --plan, else what `failback decide` shows with the same options; not where TANIST_FOUR_EYES is on. Run it
    again after an interruption: no record is appended twice.

    Example: tanist failback replay dr --destination west --reason "seen by the owner"
    """
    topics, chosen = selected(topic, exclude), _actions(replay, drop)
    if plan is None and not reason.strip():
        raise Misconfigured("give --plan HASH of an approved plan, or --reason TEXT, which approves it and replays it")
    if not reason.strip() and (topic or exclude or chosen):
        raise Misconfigured("--topic, --exclude, --replay and --drop need --reason: an approved plan says all of that")
    terms = ApprovalTerms.of(reason, valid) if reason.strip() else None
    clusters = now.mirror(name).returned()
    folder = Folder(evidence or Path("evidence") / f"rescue-{name}")
    folder.check()
    if terms is not None:
        shown: list[PlannedDecision] = []

        def show(found: PlannedDecision) -> None:
            say(f"{found}: plan {found.plan.hash}")
            shown.append(found)

        plan = decide_at_once(plan, topics, chosen, clusters, now.context, terms=terms, show=show)
        if now.context.dry_run and shown:
            items = [decision_item(each) for each in shown]
            emit(items, DECISION_COLUMNS, now.as_json, rows=items[0]["tails"])
            return
    assert plan is not None  # noqa: S101  # one of both was given
    with never_silent(stages(now.context.clock)) as tell:
        tools = ReplayTools(
            manifest=lambda manifest: folder.write_manifest(manifest, f"replay-{Path(plan).name}.json"),
            report=lambda at, seen: tell(f"{at}: {seen.replayed} replayed, {seen.dropped} dropped"),
            waiting=lambda at, why: tell(f"{at} waits: {why.name}: {why.reason}"),
            to=Reporting(listener=lambda *event: tell(line(*event))),
        )
        outcome = replay_tails(plan, clusters, tools, now.context)
    for held, why in sorted(outcome.not_released.items()):
        say(f"warning: {held} is still held at the old source, `tanist failback survey` puts it back: {why}")
    item = replay_item(outcome)
    emit([item], REPLAY_COLUMNS, now.as_json, rows=item["tails"])
    replayed, kept = (sum(row[each] for row in item["tails"]) for each in ("replayed", "dropped"))
    say(f"{replayed} record(s) are replayed, {kept} stay in quarantine ({', '.join(item['quarantine'])})")


def _warn_not_held(failed: Mapping[str, TanistError]) -> None:
    for topic, why in sorted(failed.items()):
        say(f"warning: retention of {topic} at the old source could not be set: {why}")


FindingOption = Annotated[
    list[str],
    typer.Option("--finding", metavar="NAME", help=f"What is accepted: {', '.join(FindingKind)}; repeatable."),
]


@asking(changes=True, seconds=60.0)
def accept(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    finding: FindingOption,
    reason: Annotated[str, WHY],
) -> None:
    """Accept by name what a survey has found and no rescue mends: `tanist status` fails until that is done.

    OVERLAP, DIVERGED: offsets that name a record on each cluster. TAIL_EXPIRED: offsets of a tail that the old source
    had deleted before they were surveyed. TAIL_UNDECIDED: the mirror was reversed while nobody had decided about its
    tails, which no command rescues any more; a planned failover is refused until that is accepted. The login and the
    reason are stored; more offsets are accepted anew.

    Example: tanist failback accept dr --destination west --finding OVERLAP --reason "no sink stores offsets"
    """
    topics = selected(topic, exclude)
    known = {str(each): each for each in FindingKind}
    if unknown := sorted(set(finding) - known.keys()):
        raise Misconfigured(f"--finding {unknown[0]}: not one of {', '.join(FindingKind)}")
    accepted = [known[each] for each in dict.fromkeys(finding)]
    found = accept_findings(now.destination(), mirror_name(name), accepted, topics, now.context, reason=reason)
    emit([finding_item(name, each) for each in found], FINDING_COLUMNS, now.as_json)


app.command()(accept)
open_transactions.register(app)


@app.callback()
def failback() -> None:
    """The way back: what an old source has that the new primary lacks."""
