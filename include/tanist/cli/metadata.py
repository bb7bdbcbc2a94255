"""`tanist metadata`: topics, partitions, configs and ACLs of a mirror follow the source."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tanist.cli.options import (
    WHY,
    ExcludeOption,
    MirrorArgument,
    Session,
    TopicsOption,
    announcing,
    asking,
    confirm,
    lasting,
    on_terminal,
)
from tanist.cli.output import emit, say, say_unread
from tanist.domain.acl_deletion import AclDeletion
from tanist.domain.errors import Misconfigured
from tanist.domain.filled import REASON
from tanist.domain.metadata import MIRROR_WIDE, Outcome
from tanist.domain.names import mirror_name
from tanist.domain.selection import EVERYTHING
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.compare import diff as compare
from tanist.usecases.metadata.deleting import approve_deletion, delete, delete_at_once, gone, plan_deletion
from tanist.usecases.metadata.items import COLUMNS, metadata_item, summary
from tanist.usecases.metadata.sync import sync as bring

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.domain.metadata import MetadataRow
    from tanist.domain.names import MirrorName
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext

app = typer.Typer(no_args_is_help=True, help="Make topics, partitions, configs and ACLs of a mirror follow the source.")

DeleteOption = Annotated[
    str | None,
    typer.Option(
        "--delete-acls",
        metavar="HASH",
        help="Delete the ACLs of this plan, of `metadata diff`: an approved one, or --reason approves it.",
    ),
]
ApproveOption = Annotated[
    str | None,
    typer.Option("--approve", metavar="HASH", help="Approve the plan with this hash, as the principal of this login."),
]

ResetOption = Annotated[
    bool, typer.Option("--reset", help="Also remove configs that somebody has set on a mirror topic alone (drift).")
]


@app.command()
@asking()
def diff(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    reset: ResetOption = False,
) -> None:
    """Show how the topics of a mirror differ from the source, and what `metadata sync` would change.

    Where ACLs that the mirror has created do not follow any more, it shows the hash of the plan to delete them.
    Exits with 1 if there is a difference to sync or to decide, 3 if a topic could not be read.

    Example: tanist metadata diff dr --topic 'orders.*'
    """
    (destination,) = now.destinations(mirror_name(name))
    compared = compare(_request(name, topic, exclude, reset=reset), destination, now.registry.connect, now.context)
    _show(now, compared.spec.mirror, compared.rows)
    if found := gone(compared.decisions):
        _say_plan(AclDeletion.of(compared.spec, found), destination.name)
    _end(compared.rows, {Outcome.DIFFERS: 1, Outcome.CONFLICT: 1, Outcome.UNKNOWN: 3})


@app.command()
@asking(changes=True, confirms=True)
def sync(  # options of a command
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    reset: ResetOption = False,
    delete_acls: DeleteOption = None,
    approve: ApproveOption = None,
    reason: Annotated[str, WHY] = "",
    valid: Annotated[float, lasting("--valid", "How long the approval is valid", "1h")] = 3600.0,
) -> None:
    """Create missing mirror topics, add partitions, copy configs, create ACLs. Topics are never deleted.

    ACLs that the mirror has created are deleted only by an approved plan, which `metadata diff` shows: --approve
    approves it, --delete-acls deletes what does not follow any more, then syncs; --delete-acls with --reason does both,
    unless TANIST_FOUR_EYES is on.

    New source topics that match the mirror's filters are added. During a failover the mirror is skipped. A config that
    somebody has set on a mirror topic alone is listed as drift, and left alone unless --reset is given.
    Exits with 1 if an operator must decide, 4 if a change failed (run it again).

    Example: tanist metadata sync dr --destination west --dry-run
    """
    destination = now.destination()
    if approve is not None and delete_acls is not None:
        raise Misconfigured("--approve and --delete-acls: give one of them")
    request = _request(name, topic, exclude, reset=reset)
    if approve is not None:
        _approve(now, name, approve, destination, ApprovalTerms.of(reason, valid))
        return
    deleted = _deleted(now, name, delete_acls, destination, (reason, valid)) if delete_acls is not None else ()
    if on_terminal() and not now.yes and not now.context.dry_run:
        planned = compare(request, destination, now.registry.connect, now.context)
        say(summary(planned.rows))
        if any(decision.differs for decision in planned.decisions):
            confirm(f"Change this on {destination.name}?", yes=False)
    synced = bring(request, destination, now.registry.connect, _announcing(now))
    rows = (*deleted, *synced.rows)
    _show(now, synced.spec.mirror, rows)
    if not now.context.dry_run:
        _end(rows, {Outcome.CONFLICT: 1, Outcome.FAILED: 4, Outcome.UNKNOWN: 4})


def _announcing(now: Session) -> CommandContext:
    """The session's context, which announces the topics to change, and that ACLs are created."""
    context = announcing(now, "change")

    def announce(names: Sequence[str]) -> None:
        topics = [name for name in names if name != MIRROR_WIDE]
        if topics or not names:
            context.announce(topics)
        if len(topics) < len(names):
            say("would create ACLs" if now.context.dry_run else "create ACLs")

    return replace(context, announce=announce)


def _say_plan(plan: AclDeletion, destination: str) -> None:
    why = shlex.join(("--reason", REASON))
    where = shlex.join(("tanist", "metadata", "sync", plan.mirror, "--destination", destination))
    say(
        f"plan {plan.hash}: delete {len(plan.acls)} ACL(s) that do not follow the source any more with `{where} "
        f"--delete-acls {plan.hash} {why}`; or approve it as another login with `{where} --approve {plan.hash} {why}`, "
        f"then `{where} --delete-acls {plan.hash}`"
    )


def _approve(now: Session, name: str, plan: str, destination: Cluster, terms: ApprovalTerms) -> None:
    at = plan_deletion(name, destination, now.registry.connect, now.context)
    found = approve_deletion(plan, at, now.context, terms=terms)
    say(f"{found.approver} approved plan {found.plan}")
    say_unread(found)
    item = {"mirror": name, "plan_hash": found.plan, "approval": found.id, "approver": found.approver}
    emit([item], tuple(item), now.as_json)


def _deleted(
    now: Session, name: str, plan: str, destination: Cluster, said: tuple[str, float]
) -> tuple[MetadataRow, ...]:
    reason, valid = said
    at = plan_deletion(name, destination, now.registry.connect, now.context)
    if reason.strip() and not now.context.dry_run:
        delete_at_once(plan, at, now.context, terms=ApprovalTerms.of(reason, valid))
    return delete(plan, at, now.registry.connect, now.context)


def _request(name: str, topic: Sequence[str] | None, exclude: Sequence[str] | None, *, reset: bool) -> MetadataRequest:
    return MetadataRequest(mirror=name, include=tuple(topic or EVERYTHING), exclude=tuple(exclude or ()), reset=reset)


def _show(now: Session, mirror: MirrorName, rows: Sequence[MetadataRow]) -> None:
    emit([metadata_item(mirror, row) for row in rows], COLUMNS, now.as_json)
    say(summary(rows))


def _end(rows: Iterable[MetadataRow], codes: dict[Outcome, int]) -> None:
    """The first of `codes` that holds for any row, else 0."""
    found = {row.verdict for row in rows}
    for verdict, code in codes.items():
        if verdict in found:
            raise typer.Exit(code)
