"""`tanist mirrors list|describe|wait|lineage`: the read-only commands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanist.cli.options import (
    ExcludeOption,
    MaybeMirrorArgument,
    MirrorArgument,
    Session,
    TopicsOption,
    asking,
    optional_name,
    selected,
)
from tanist.cli.output import emit, none, say
from tanist.domain.detached import since
from tanist.domain.failover.periodic_health import duty_lines
from tanist.domain.followed import is_followed
from tanist.domain.lag import DETACHED_STATE, FOLLOWED_STATE, counted
from tanist.domain.limits import limit_line
from tanist.domain.names import mirror_name
from tanist.domain.records import STATE_TOPIC
from tanist.domain.states import MirrorState
from tanist.domain.sync_settings import settings_line
from tanist.usecases.items import (
    ROW_COLUMNS,
    acls_line,
    copying_item,
    offsets_line,
    row_cells,
    row_item,
    spec_item,
    versions_line,
)
from tanist.usecases.mirror import identify
from tanist.usecases.mirrors.describe import listing, moved_away, must_match
from tanist.usecases.mirrors.followed import followed
from tanist.usecases.mirrors.lineage import LINEAGE_COLUMNS, segment_item
from tanist.usecases.mirrors.lineage import lineage as read_lineage
from tanist.usecases.mirrors.wait import Goal, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.usecases.mirrors.describe import Described

STATES = (*map(str, MirrorState), DETACHED_STATE, FOLLOWED_STATE)


def shown_state(text: str) -> str:
    """A state that a partition is shown in, however it is spelled. Raises BadParameter."""
    if (state := text.upper()) not in STATES:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(STATES)}")
    return state


StatesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help=f"Only partitions in this state; repeatable: {', '.join(STATES)}.",
        parser=shown_state,
    ),
]
LIST_COLUMNS = ("mirror", "topics", "cluster_id", "bootstrap_server")


@asking()
def list_mirrors(now: Session) -> None:
    """Show all mirrors of the given destination, or of every cluster that answers.

    Example: tanist mirrors list --json
    """
    items: list[dict[str, Any]] = []
    moved: dict[str, str] = {}
    for destination in now.destinations(None):
        identify((destination,), now.context)
        view = destination.state(STATE_TOPIC, now.context.by)
        moved |= moved_away(view)
        for each in listing(view):
            if each.detached:
                say(f"mirror {each.spec.mirror}: detached: {', '.join(since(apart) for apart in each.detached)}")
            if line := offsets_line(each.spec):
                say(line)
            topics = each.topics
            if is_followed(each.spec):
                say(f"mirror {each.spec.mirror}: copied by {each.spec.copied_by.in_words}")
                topics = len(followed(now.registry.mirror(each.spec, destination), now.context).topics)
            more = {
                "topics": topics,
                "detached": [apart.topic for apart in each.detached],
                "cluster_id": each.spec.source_cluster_id,
                "bootstrap_server": now.registry.bootstrap(each.spec.source),
            }
            items.append(spec_item(each.spec) | more)
    shown = {item["mirror"] for item in items}
    for mirror, there in moved.items():
        if mirror not in shown:
            say(f"mirror {mirror} was reversed, and is at {there}: `tanist mirrors list --destination {there}`")
    if not items and not moved:
        say("there is no mirror yet: create one with `tanist mirrors create`")
    emit(items, LIST_COLUMNS, now.as_json)


@asking()
def describe(
    now: Session,
    name: MaybeMirrorArgument = None,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    state: StatesOption = None,
) -> None:
    """Show every partition: offsets on both clusters, lag, state and reason; the last known ones if the source is down.

    A summary comes first: how many partitions are in each state, and their lag. --state shows only those in a state.
    Partitions of detached topics are DETACHED, those that somebody else copies FOLLOWED.

    Example: tanist mirrors describe dr --topic orders
    """
    mirror = optional_name(name)
    topics = selected(topic, exclude)
    found: list[Described] = []
    for destination in now.destinations(mirror):
        found += now.registry.describer(destination, topics).describe(mirror, now.context)
    must_match(topics, found, detached=True)
    for each in found:
        if each.source_down:
            say(f"warning: the source of mirror {each.spec.mirror} does not answer: {each.source_down}")
    if not now.as_json:
        for each in found:
            texts = (offsets_line(each.spec), limit_line(each.spec), acls_line(each.spec), versions_line(each))
            for line in filter(None, texts):
                say(line)
            if line := settings_line(each.spec):
                say(line)
            for line in duty_lines(each.spec, each.duties, each.at):
                say(line)
            apart = f"; {len(each.detached_rows):,} {DETACHED_STATE}" if each.detached_rows else ""
            say(f"mirror {each.spec.mirror}: {len(each.rows):,} partition(s): {counted(each.rows)}{apart}")
    shown = frozenset(state or STATES)
    rows = [(each, row) for each in found for row in each.rows]
    rows += [(each, row) for each in found for row in each.detached_rows]
    items = [row_item(row) | copying_item(each) for each, row in rows if row.shown_state in shown]
    if state and not items:
        none(f"no partition is in state {' or '.join(sorted(shown))}", now.as_json)
        return
    emit(items, ROW_COLUMNS, now.as_json, rows=[row_cells(item) for item in items])


@asking()
def wait(
    now: Session,
    name: MirrorArgument,
    goal: Annotated[str, typer.Option("--for", metavar="state=STATE|lag=0", help="What to wait for.")],
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
) -> None:
    """Wait until every partition is in a state, or is copied without lag, for at most --timeout.

    Example: tanist mirrors wait dr --for lag=0 --timeout 5m
    """
    mirror, parsed, topics = mirror_name(name), Goal.parse(goal), selected(topic, exclude)
    (destination,) = now.destinations(mirror)
    rows = wait_for(mirror, parsed, now.registry.describer(destination, topics), now.context, _progress())
    emit([row_item(row) for row in rows], ROW_COLUMNS, now.as_json, rows=[row_cells(row_item(row)) for row in rows])


@asking()
def lineage(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    offset: Annotated[
        int | None, typer.Option("--offset", metavar="N", min=0, help="Only the offsets around this one.")
    ] = None,
) -> None:
    """Show which cluster wrote which offsets of topics that were failed over, as either cluster has stored it.

    Without --destination every cluster is asked. If the destination is dead, name the source.

    Example: tanist mirrors lineage dr --topic orders --offset 1200
    """
    topics = selected(topic, exclude)
    names = (now.named,) if now.named is not None else now.registry.names()
    connect, source_of = now.registry.connect, now.registry.source
    found = read_lineage(mirror_name(name), topics, names, connect, source_of, now.context)
    for silent, why in found.silent.items():
        say(f"warning: {silent} does not answer: {why}")
    for lacking, entries in found.not_stored().items():
        promoted = ", ".join(f"{each.topic} (promotion {each.promotion_epoch})" for each in entries)
        say(f"warning: not stored on {lacking} yet: {promoted}; a fetcher stores it there")
    for partition, short in found.short.items():
        say(f"warning: offsets of {partition} may name two records: {short}")
    for apart in found.detached.values():
        say(f"detached: {since(apart)}: nothing is copied to it, and it is closed to writers")
    segments = found.segments(offset)
    if not segments:
        none(f"no promotion of a topic of mirror {found.mirror} is recorded", now.as_json)
        return
    emit([segment_item(found, each) for each in segments], LINEAGE_COLUMNS, now.as_json)


def _progress() -> Callable[[int, int, str], None]:
    """On a terminal, one line that is updated; elsewhere nothing."""
    shown: list[tuple[int, int]] = []

    def report(there: int, of: int, why: str) -> None:
        if sys.stderr.isatty() and shown[-1:] != [(there, of)]:
            shown.append((there, of))
            say(f"{there} of {of} partitions{why and f'; {why}'}")

    return report


def register(app: typer.Typer) -> None:
    """Add these commands to `tanist mirrors`."""
    app.command("list")(list_mirrors)
    app.command("describe")(describe)
    app.command("wait")(wait)
    app.command("lineage")(lineage)
