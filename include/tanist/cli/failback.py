"""`tanist failback`: the old source returns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanist.cli.options import WHY, ExcludeOption, MirrorArgument, Session, TopicsOption, asking, lasting, selected
from tanist.cli.output import emit, line, never_silent, say, say_unread, stages
from tanist.domain.errors import Misconfigured
from tanist.domain.failback.decision import TailAction, TailClass
from tanist.domain.failback.reversal import without_copies
from tanist.domain.failback.torn import torn_words
from tanist.domain.names import mirror_name
from tanist.domain.tails import FindingKind
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback.aborting import (
    ABORT_COLUMNS,
    abort_transactions,
    approve_abort,
    plan_abort,
    transaction_item,
)
from tanist.usecases.failback.accepting import FINDING_COLUMNS, accept_findings, finding_item
from tanist.usecases.failback.deciding import DECISION_COLUMNS, approve_decision, decision_item, plan_decision
from tanist.usecases.failback.recording import survey_and_record
from tanist.usecases.failback.replay import REPLAY_COLUMNS, ReplayTools, replay_item
from tanist.usecases.failback.replay import replay as replay_tails
from tanist.usecases.failback.rescue import RESCUE_COLUMNS, RescueTools, tail_items
from tanist.usecases.failback.rescue import rescue as rescue_tails
from tanist.usecases.failback.survey import SURVEY_COLUMNS, exit_code, survey_item
from tanist.usecases.failover.items import approval_item
from tanist.usecases.runs.runner import Reporting
from tanist.wiring.failover import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.selection import Selection
    from tanist.usecases.mirror import ReturnedMirror


app = typer.Typer(no_args_is_help=True, help="The way back: what an old source has that the new primary lacks.")

RESCUE_SECONDS = 3600.0
APPROVAL_COLUMNS = ("mirror", "plan_hash", "approval", "approver", "expires_at_ms", "reason")
_CLASSES = ", ".join(TailClass)
EvidenceOption = Annotated[
    Path | None,
    typer.Option("--evidence", metavar="DIR", help="Directory for the manifest (default: ./evidence/rescue-NAME)."),
]


@app.command()
@asking(changes=True, seconds=120.0)
def survey(now: Session, name: MirrorArgument, topic: TopicsOption = None, exclude: ExcludeOption = None) -> None:
    """Compare an old source that has returned with the mirror topics that have taken over.

    It keeps the old source from deleting what only it has, and records what was found once that cannot change any more.
    Exits with 3 if the old source may still get records, with 1 if an offset names two records.

    Example: tanist failback survey dr --destination west
    """
    topics = selected(topic, exclude)
    found = survey_and_record(now.mirror(name).returned(), topics, now.context)
    _warn_not_held(found.not_held)
    if found.without_copy:
        say(f"warning: {without_copies(found.without_copy)}")
    for each in found.found:
        for warning in each.warnings:
            say(f"warning: {each.partition}: {warning}")
    emit([survey_item(name, each) for each in found.found], SURVEY_COLUMNS, now.as_json)
    if code := exit_code(found.found):
        raise typer.Exit(code)


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

    Run it again after an interruption: no record is copied twice. Exits with 3 if an old source may still get records,
    with 1 if it had deleted some of them before they were copied.

    Example: tanist failback rescue dr --destination west
    """
    topics = selected(topic, exclude)
    clusters = now.mirror(name).returned()
    folder = Folder(evidence or Path("evidence") / f"rescue-{name}")
    folder.check()
    tell = stages(now.context.clock)
    tools = RescueTools(
        manifest=folder.write_manifest,
        report=lambda at, count, of: tell(f"{at}: {count} of {of} records are in quarantine"),
    )
    done = rescue_tails(clusters, topics, tools, now.context)
    _warn_not_held(done.not_held)
    for each in done.waiting:
        say(f"warning: {each.partition} is not rescued: {'; '.join(each.reasons) or 'it is not known'}")
    if words := torn_words(done.torn):
        say(f"warning: {words}; the manifest lists them")
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
    of the topic would delete it.

    Example: tanist failback decide dr --destination west --replay safe --drop conflict --drop unordered
    """
    topics = selected(topic, exclude)
    found = plan_decision(now.mirror_to_read(name).returned(), topics, _actions(replay, drop), now.context)
    item = decision_item(found)
    emit([item], DECISION_COLUMNS, now.as_json, rows=item["tails"])
    chosen = ", ".join(f"{action} {each}" for each, action in item["actions"].items())
    say(f"{chosen}: plan {found.plan.hash}")


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
    """Approve a decision, as the principal of this login. Give the same options as to `failback decide`.

    Example: tanist failback approve dr 1c0ffee2 --destination west --replay safe --reason "seen by the owner"
    """
    topics = selected(topic, exclude)
    clusters, actions = now.mirror(name).returned(), _actions(replay, drop)
    approval = approve_decision(plan, topics, actions, clusters, now.context, terms=ApprovalTerms.of(reason, valid))
    say(f"{approval.approver} approved plan {approval.plan}")
    say_unread(approval)
    emit([approval_item(approval)], APPROVAL_COLUMNS, now.as_json)


@app.command()
@asking(changes=True, seconds=RESCUE_SECONDS)
def replay(
    now: Session,
    name: MirrorArgument,
    *,
    plan: Annotated[str, typer.Option("--plan", metavar="HASH", help="The approved plan.")],
    evidence: EvidenceOption = None,
) -> None:
    """Carry out an approved decision: append what was chosen to the end of its topics, and settle the rest.

    Run it again after an interruption: no record is appended twice.

    Example: tanist failback replay dr --destination west --plan 1c0ffee2
    """
    clusters = now.mirror(name).returned()
    folder = Folder(evidence or Path("evidence") / f"rescue-{name}")
    folder.check()
    with never_silent(stages(now.context.clock)) as tell:
        tools = ReplayTools(
            manifest=lambda manifest: folder.write_manifest(manifest, f"replay-{Path(plan).name}.json"),
            report=lambda at, seen: tell(f"{at}: {seen.replayed} replayed, {seen.dropped} dropped"),
            waiting=lambda at, why: tell(f"{at} waits: {why.name}: {why.reason}"),
            to=Reporting(listener=lambda *event: tell(line(*event))),
        )
        outcome = replay_tails(plan, clusters, tools, now.context)
    for topic, why in sorted(outcome.not_released.items()):
        say(f"warning: {topic} is still held at the old source, `tanist failback survey` puts it back: {why}")
    item = replay_item(outcome)
    emit([item], REPLAY_COLUMNS, now.as_json, rows=item["tails"])


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


PLAN_COLUMNS = ("transactional_id", "producer_id", "state", "age_s", "partitions")

HashOption = Annotated[
    str | None,
    typer.Option("--approve", metavar="HASH", help="Approve the plan with this hash, as the principal of this login."),
]
PlanOption = Annotated[str | None, typer.Option("--plan", metavar="HASH", help="Run this approved plan.")]


@asking(changes=True, seconds=120.0)
def abort(  # options of a command
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    approve: HashOption = None,
    plan: PlanOption = None,
    reason: Annotated[str, WHY] = "",
    valid: Annotated[float, lasting("--valid", "How long the approval is valid", "1h")] = 3600.0,
) -> None:
    """Abort transactions that stay open at an old source after its return, by an approved plan.

    --dry-run shows them and the hash of the plan, --approve approves it, --plan aborts them and fences their producers.
    Only transactions that the plan names are aborted, in all partitions that they name. Run it again after an
    interruption. Exits with 3 if one of them is still open.

    Example: tanist failback abort-transactions dr --destination west --dry-run
    """
    topics = selected(topic, exclude)
    if approve is not None and plan is not None:
        raise Misconfigured("--approve and --plan: give one of them")
    clusters = now.mirror(name).returned()
    if approve is not None:
        found = approve_abort(approve, topics, clusters, now.context, terms=ApprovalTerms.of(reason, valid))
        say(f"{found.approver} approved plan {found.plan}")
        say_unread(found)
        item = {"mirror": name, "plan_hash": found.plan, "approval": found.id, "approver": found.approver}
        emit([item], tuple(item), now.as_json)
    elif plan is not None:
        _run(now, name, plan, clusters)
    elif now.context.dry_run:
        _show(now, name, topics, clusters)
    else:
        raise Misconfigured("give --dry-run to see the open transactions, --approve HASH, or --plan HASH")


def _show(now: Session, name: str, topics: Selection, clusters: ReturnedMirror) -> None:
    found, time = plan_abort(clusters, topics, now.context), now.context.clock.now()
    item: dict[str, Any] = {
        "mirror": name,
        "plan_hash": found.plan.hash if found.plan.transactions else None,
        "transactions": [transaction_item(each, time) for each in found.plan.transactions],
        "ending": [transaction_item(each, time) for each in found.ending],
    }
    emit([item], PLAN_COLUMNS, now.as_json, rows=_cells(item["transactions"]))
    for each in found.ending:
        say(f"{each} is {each.state}: its coordinator ends it by itself")
    if found.plan.transactions:
        say(
            f"plan {found.plan.hash}: approve it with --approve {found.plan.hash} --reason TEXT, then abort them with "
            f"--plan {found.plan.hash}; brokers abort a transaction by themselves after its timeout"
        )
    else:
        say("no transaction has to be aborted")


def _run(now: Session, name: str, plan: str, clusters: ReturnedMirror) -> None:
    tell = stages(now.context.clock)
    done = abort_transactions(plan, clusters, now.context, Reporting(listener=lambda *event: tell(line(*event))))
    time = now.context.clock.now()
    rows = [transaction_item(each, time, aborted=True) for each in done.aborted if each not in done.still_open]
    rows += [transaction_item(each, time) for each in done.still_open]
    item = {"mirror": name, "plan_hash": done.plan, "transactions": rows}
    emit([item], ABORT_COLUMNS, now.as_json, rows=_cells(rows))
    if done.still_open and not now.context.dry_run:
        say("some are still open: run the same command again")
        raise typer.Exit(3)


def _cells(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        row | {"partitions": ", ".join(f"{at['topic']}-{at['partition']}" for at in row["partitions"])} for row in rows
    ]


app.command()(accept)
app.command("abort-transactions")(abort)


@app.callback()
def failback() -> None:
    """The way back: what an old source has that the new primary lacks."""
