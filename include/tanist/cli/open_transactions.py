"""`tanist failback abort-transactions`: transactions that stay open at an old source after its return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanist.cli.options import WHY, ExcludeOption, MirrorArgument, Session, TopicsOption, asking, lasting, selected
from tanist.cli.output import emit, line, say, say_how, say_unread, stages
from tanist.domain.errors import Misconfigured
from tanist.domain.filled import REASON
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback.aborting import (
    ABORT_COLUMNS,
    abort_at_once,
    abort_transactions,
    approve_abort,
    plan_abort,
    transaction_item,
)
from tanist.usecases.runs.runner import Reporting

if TYPE_CHECKING:
    from tanist.domain.selection import Selection
    from tanist.usecases.mirror import ReturnedMirror

OPEN_COLUMNS = ("transactional_id", "producer_id", "state", "age_s", "partitions")

ToRunOption = Annotated[
    str | None, typer.Option("--plan", metavar="HASH", help="Run this plan: an approved one, or --reason approves it.")
]
HashOption = Annotated[
    str | None,
    typer.Option("--approve", metavar="HASH", help="Approve the plan with this hash, as the principal of this login."),
]


@asking(changes=True, seconds=120.0)
def abort(  # options of a command
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    approve: HashOption = None,
    plan: ToRunOption = None,
    reason: Annotated[str, WHY] = "",
    valid: Annotated[float, lasting("--valid", "How long the approval is valid", "1h")] = 3600.0,
) -> None:
    """Abort transactions that stay open at an old source after its return, by an approved plan.

    --dry-run shows them and the hash of the plan, --approve approves it, --plan aborts them and fences their producers;
    --plan with --reason does both, unless TANIST_FOUR_EYES is on. Only transactions that the plan names are aborted, in
    all partitions that they name. Run it again after an interruption. Exits with 3 if one of them is still open.

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
        if reason.strip() and not now.context.dry_run:
            abort_at_once(plan, topics, clusters, now.context, terms=ApprovalTerms.of(reason, valid))
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
    emit([item], OPEN_COLUMNS, now.as_json, rows=_cells(item["transactions"]))
    for each in found.ending:
        say(f"{each} is {each.state}: its coordinator ends it by itself")
    if not found.plan.transactions:
        say("no transaction has to be aborted")
        return
    plan, place = found.plan.hash, ("--destination", clusters.destination.name)
    say(f"plan {plan}: aborts them now; brokers abort a transaction by themselves after its timeout")
    typed, why = ("tanist", "failback", "abort-transactions", name, *place), (*topics.options, "--reason", REASON)
    running = (*typed, "--plan", plan)
    say_how((*running, *why), (*typed, "--approve", plan, *why), running, four_eyes=now.context.four_eyes)


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


def register(app: typer.Typer) -> None:
    """Add the command to `tanist failback`."""
    app.command("abort-transactions")(abort)
