"""`tanist mirrors reverse`: a mirror that has failed over copies back to its old source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanist.cli.failover_options import EvidenceOption
from tanist.cli.options import WHY, MirrorArgument, Session, asking, lasting
from tanist.cli.output import emit, say, say_how, say_unread, watching
from tanist.domain.errors import Misconfigured, Refused
from tanist.domain.failback.unseen import ACCEPTABLE
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback import reversal
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reversal_route import REVERSAL, withdrawable
from tanist.usecases.failback.reversal_route import withdraw as withdraw_reversal
from tanist.usecases.failback.reverse import reverse_at_once, reverse_mirror
from tanist.usecases.runs.runner import Reporting
from tanist.wiring.failover import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist.usecases.failback.reversal import PlannedReversal
    from tanist.usecases.failback.reverse import Reversed
    from tanist.usecases.mirror import ReturnedMirror

REVERSE_SECONDS = 120.0
PLAN_COLUMNS = ("topic", "partitions", "promotion_epoch", "gap_markers", "recreated", "offsets", "bytes", "denied")
DONE_COLUMNS = ("mirror", "source", "destination", "plan_hash", "changed")

LeaveOption = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="REGEX", help="Topics that do not return; repeatable."),
]
RecreateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--recreate",
        metavar="REGEX",
        help="Topics that are deleted at the old source and copied again if they cannot return otherwise; repeatable.",
    ),
]
MappedOption = Annotated[
    list[str] | None,
    typer.Option("--mapped", metavar="REGEX", help="Refused: records return at their offsets, or not at all."),
]
AcceptOption = Annotated[
    list[str] | None,
    typer.Option("--accept", metavar="NAME", help=f"A limitation to accept: {', '.join(ACCEPTABLE)}; repeatable."),
]
ApproveOption = Annotated[
    str | None,
    typer.Option("--approve", metavar="HASH", help="Approve the plan with this hash, as the principal of this login."),
]
ThisPlanOption = Annotated[
    str | None,
    typer.Option("--plan", metavar="HASH", help="Run only the plan with this hash, which --dry-run has shown."),
]
WithdrawOption = Annotated[
    bool,
    typer.Option("--withdraw", help="Put back what an unfinished reversal has changed; needs --reason."),
]


class MappedOffsetsUnsupported(Refused):
    name = "MAPPED_OFFSETS_UNSUPPORTED"
    operator_action = (
        "records cannot return at other offsets than those of the new primary: use --recreate, which copies the topic "
        "again, or --exclude; nothing was changed"
    )


@asking(changes=True, seconds=REVERSE_SECONDS)
def reverse(
    now: Session,
    name: MirrorArgument,
    *,
    exclude: LeaveOption = None,
    recreate: RecreateOption = None,
    mapped: MappedOption = None,
    accept: AcceptOption = None,
    approve: ApproveOption = None,
    plan: ThisPlanOption = None,
    withdraw: WithdrawOption = False,
    reason: Annotated[str, WHY] = "",
    valid: Annotated[float, lasting("--valid", "How long the approval is valid", "1h")] = 3600.0,
    evidence: EvidenceOption = None,
) -> None:
    """Let a mirror that has failed over copy from its new primary to its old source, at identical offsets.

    --dry-run shows the plan and its hash. --reason approves it as the principal of this login and runs it, if what
    speaks against it needs no decision, or is accepted with --accept, or --plan names the plan; not where
    TANIST_FOUR_EYES is on. --approve only approves it; then the same command without --approve and --reason runs it.
    An interrupted run is completed by the same command. The old source's records stay; only what was written since the
    failover is copied. A topic that cannot return so (survey: OVERLAP, DIVERGED; or another topic there) may be
    recreated: it is deleted at the old source, and copied again from its first offset.
    A reversal that the old source does not fit any more is withdrawn by itself; --withdraw does that on request.

    Example: tanist mirrors reverse dr --destination west --reason "east is back"
    """
    if unknown := sorted(set(accept or ()) - set(ACCEPTABLE)):
        raise Misconfigured(f"--accept {unknown[0]}: not one of {', '.join(ACCEPTABLE)}")
    if mapped:
        raise MappedOffsetsUnsupported(f"--mapped {mapped[0]}: records return at their offsets, or not at all")
    request = ReversalRequest(
        exclude=tuple(exclude or ()), accept=tuple(accept or ()), recreate=tuple(recreate or ()), only=plan
    )
    clusters = now.mirror(name).returned()
    if withdraw:
        _withdraw(now, clusters, reason, evidence)
    elif approve is not None:
        found = reversal.approve(approve, request, clusters, now.context, terms=ApprovalTerms.of(reason, valid))
        say(f"{found.approver} approved plan {found.plan}")
        say_unread(found)
        say(f"run it with: {request.command(name, clusters.destination.name)}")
        emit(
            [{"mirror": name, "plan_hash": found.plan, "approval": found.id, "approver": found.approver}],
            ("mirror", "plan_hash", "approval", "approver"),
            now.as_json,
        )
    elif now.context.dry_run:
        planned = reversal.plan(request, clusters, now.context)
        show(name, planned, now.as_json)
        _say_how(planned.plan.hash, request, clusters, four_eyes=now.context.four_eyes)
    else:
        _run(now, clusters, request, ApprovalTerms.of(reason, valid) if reason.strip() else None, evidence)


def _run(
    now: Session, clusters: ReturnedMirror, request: ReversalRequest, terms: ApprovalTerms | None, evidence: Path | None
) -> None:
    """Run or complete the reversal; with `terms` a plan that nobody has approved is approved first."""
    with watching(now.as_json, REVERSAL) as tell:
        to = _reporting(evidence, tell)
        if terms is None:
            done = reverse_mirror(request, clusters, now.context, to=to)
        else:
            done = reverse_at_once(request, clusters, now.context, terms=terms, show=_say_plan, to=to)
    _done(now, done)


def _say_how(plan: str, request: ReversalRequest, clusters: ReturnedMirror, *, four_eyes: bool) -> None:
    """The commands that approve and run it, for people."""
    words, why = request.words(clusters.spec.mirror, clusters.destination.name), ("--reason", "the old source is back")
    say_how((*words, "--plan", plan, *why), (*words, "--approve", plan, *why), words, four_eyes=four_eyes)


def _say_plan(planned: PlannedReversal) -> None:
    """What is about to be approved, for people."""
    for limitation in planned.plan.limitations:
        say(f"accept: {limitation.name}: {limitation.detail}")
    say(f"plan {planned.plan.hash}: {len(planned.plan.topics)} topic(s) return")


def _reporting(given: Path | None, listener: Callable[[str, str, str], None]) -> Reporting:
    """Raises Misconfigured: the folder of the evidence cannot be written to."""
    Folder(given or Path("evidence")).check()
    return Reporting(sink_of=lambda plan: Folder(given or Path("evidence") / plan), listener=listener)


def _withdraw(now: Session, clusters: ReturnedMirror, reason: str, evidence: Path | None) -> None:
    if not reason.strip():
        raise Misconfigured("--withdraw needs a --reason, which is stored with it")
    move = withdrawable(clusters, now.context)
    if now.context.dry_run:
        say(f"would withdraw the reversal {move.plan}, which is {move.status}")
    else:
        with watching(now.as_json, REVERSAL) as tell:
            said = withdraw_reversal(clusters, reason, now.context, to=_reporting(evidence, tell))
        say(said)
    withdrawn = {"mirror": move.mirror, "plan_hash": move.plan, "changed": not now.context.dry_run}
    emit([withdrawn], ("mirror", "plan_hash", "changed"), now.as_json)


def show(name: str, planned: PlannedReversal, as_json: bool) -> None:
    """Print a plan, and for people what it accepts."""
    made = planned.plan
    rows = [
        {
            "topic": each.topic,
            "partitions": len(each.free_from),
            "promotion_epoch": each.promotion_epoch,
            "free_from": list(each.free_from),
            "gap_markers": each.markers,
            "recreated": each.recreation is not None,
            "offsets": each.recreation.offsets if each.recreation else None,
            "bytes": each.recreation.bytes if each.recreation else None,
            "denied": list(each.denied),
        }
        for each in made.topics
    ]
    item: dict[str, Any] = {
        "mirror": name,
        "plan_hash": made.hash,
        "source_cluster_id": made.source_cluster_id,
        "destination_cluster_id": made.destination_cluster_id,
        "topics": rows,
        "limitations": [{"name": each.name, "detail": each.detail} for each in made.limitations],
    }
    cells = [row | {"denied": ", ".join(row["denied"]) or None} for row in rows]  # type: ignore[arg-type]
    emit([item], PLAN_COLUMNS, as_json, rows=cells)
    for limitation in made.limitations:
        say(f"accept: {limitation.name}: {limitation.detail}")
    say(f"plan {made.hash}: {len(made.topics)} topic(s) return")


def _done(now: Session, done: Reversed) -> None:
    for words in reversed_words(done):
        say(words)
    emit([reversed_item(done)], DONE_COLUMNS, now.as_json)


def reversed_words(done: Reversed) -> Iterator[str]:
    """What has become of the mirror, for people, line by line."""
    yield from (f"warning: {warning}" for warning in done.warnings)
    spec = done.spec
    if done.changed and not done.topics:
        yield f"the reversal {done.plan} is completed; mirror {spec.mirror} has failed over to {spec.destination} since"
    elif done.changed:
        fetcher = f"by a fetcher of {spec.destination}"
        yield f"mirror {spec.mirror} copies from {spec.source} to {spec.destination}, {fetcher}"
    else:
        yield f"mirror {spec.mirror} was reversed before: nothing was changed"


def reversed_item(done: Reversed) -> dict[str, Any]:
    """A reversal as JSON."""
    spec = done.spec
    return {
        "mirror": spec.mirror,
        "source": spec.source,
        "destination": spec.destination,
        "plan_hash": done.plan,
        "changed": done.changed,
        "topics": [each.topic for each in done.topics],
    }


def register(app: typer.Typer) -> None:
    """Add the command to `tanist mirrors`."""
    app.command()(reverse)
