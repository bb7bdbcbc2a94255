"""`tanist groups`: committed offsets of consumer groups at the destination."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanist.cli.group_snapshots import restore, snapshot
from tanist.cli.options import GroupsOption, MirrorArgument, Session, asking, confirm, on_terminal
from tanist.cli.output import emit, say
from tanist.domain.checks import named
from tanist.domain.names import mirror_name
from tanist.domain.problems import refuse
from tanist.domain.records import OffsetTailMode
from tanist.domain.selection import EVERYTHING, pattern_problems
from tanist.domain.translation import Rules, Unknown
from tanist.usecases.groups.explain import at_home, no_position
from tanist.usecases.groups.explain import explain as explained
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.items import group_note, position_item, summary
from tanist.usecases.groups.listing import list_groups
from tanist.usecases.groups.strategies import TRANSLATORS, translator
from tanist.usecases.groups.sync import GroupSyncResult, SyncRequest, sync_locked, translate_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.ports.cluster import Cluster
    from tanist.usecases.groups.gather import Gathered
    from tanist.usecases.groups.listing import GroupLine
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.mirror import OpenMirror

app = typer.Typer(no_args_is_help=True, help="Translate, commit, save and restore the offsets of consumer groups.")

LIST_COLUMNS = ("group", "kind", "state", "destination_state", "topics", "at_home", "lag", "position_age_ms")
COLUMNS = ("group", "topic", "partition", "source_committed_offset", "destination_offset", "precision", "proof")

StrategyOption = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        metavar="|".join(TRANSLATORS),
        help="How to translate (default: the best that the mirror has, said in each row)"
        + "".join(f"; {name}: with the {each.basis} of the mirror" for name, each in TRANSLATORS.items())
        + ".",
    ),
]
ExistingOption = Annotated[
    bool,
    typer.Option("--existing", help="Also groups that existed at the destination before; never groups with members."),
]
UnprovedOption = Annotated[
    bool,
    typer.Option("--unproved", help="Also where the records that a strategy goes by could not be compared."),
]
BackwardsOption = Annotated[bool, typer.Option("--backwards", help="Also move committed offsets backwards.")]


@app.command("list")
@asking()
def list_(now: Session, name: MirrorArgument, group: GroupsOption = None) -> None:
    """Show the groups that consume topics of a mirror; if the source does not answer, as last observed.

    Example: tanist groups list dr --json
    """
    mirror = _mirror(now, name)
    listed = list_groups(mirror, _chosen(group), now.context)
    _say_how(listed.seen)
    rows = [
        _line_item(line) | {"note": group_note(line.group, listed.seen, listed.seen.rewound)} for line in listed.lines
    ]
    emit(rows, LIST_COLUMNS, now.as_json, rows=[row | _joined(row) for row in rows])
    _say_notes(rows)


@app.command()
@asking()
def translate(now: Session, name: MirrorArgument, group: GroupsOption = None, strategy: StrategyOption = None) -> None:
    """Show the translated offset of each group, its precision, and whether the records at both offsets match.

    Changes nothing. Exits with 1 if a proof fails, 3 if anything is unknown.

    Example: tanist groups translate dr --group 'billing.*'
    """
    chosen = _chosen(group, strategy)
    found = translate_groups(_mirror(now, name), SyncRequest(chosen=chosen), now.context)
    _show(now, found, (*COLUMNS, "reason"))
    if found.mismatches:
        raise typer.Exit(1)
    if any(isinstance(row.translation, Unknown) for row in found.rows):
        raise typer.Exit(3)


@app.command()
@asking(changes=True, confirms=True)
def sync(
    now: Session,
    name: MirrorArgument,
    *,
    group: GroupsOption = None,
    strategy: StrategyOption = None,
    existing: ExistingOption = False,
    backwards: BackwardsOption = False,
    unproved: UnprovedOption = False,
) -> None:
    """Commit translated offsets at the destination, for groups without members there.

    Offsets that are not committed are listed with the reason; those that have not moved are counted, and listed only
    with --json. Exits with 1 if a proof fails, 4 if a commit failed (run it again). During a failover of the mirror it
    exits with MIRROR_LOCKED.

    Example: tanist groups sync dr --destination west --group 'billing.*' --dry-run
    """
    chosen = _chosen(group, strategy)
    destination = now.destination()
    mirror = _mirror_of(now, destination, name)
    request = SyncRequest(chosen=chosen, rules=Rules(existing=existing, backwards=backwards, unproved=unproved))
    _confirm(now, mirror, request)
    synced = sync_locked(mirror, request, now.context)
    _show(now, synced, (*COLUMNS, "committed", "reason"), moved_only=True)
    _summary(synced, dry_run=now.context.dry_run)
    if synced.mismatches:
        raise typer.Exit(1)
    if synced.failed:
        raise typer.Exit(4)


@app.command()
@asking()
def explain(
    now: Session,
    name: MirrorArgument,
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="The whole name of the group.")],
) -> None:
    """Show how each offset of one group was translated, and the proof.

    Example: tanist groups explain dr --group billing
    """
    mirror = _mirror(now, name)
    request = SyncRequest(chosen=Chosen(names=frozenset({group}), every=True))
    found = translate_groups(mirror, request, now.context)
    if group not in found.seen.names:
        say(no_position(group, mirror.spec))
    if now.as_json:
        items = [position_item(row) | {"explanation": list(explained(row, found.seen))} for row in found.rows]
        emit([*items, *_home_items(group, found)], (), as_json=True)
        return
    _say_how(found.seen)
    for row in found.rows:
        print("\n  ".join(explained(row, found.seen)))
    for item in _home_items(group, found):
        print("\n  ".join(item["explanation"]))


def _home_items(group: str, found: GroupSyncResult) -> list[dict[str, Any]]:
    """Items of failed-over partitions: they have an explanation, but no translation."""
    return [
        {"group": group, "topic": at.topic, "partition": at.partition, "explanation": list(at_home(group, at, found))}
        for at in found.seen.at_home.get(group, ())
    ]


app.command()(snapshot)
app.command()(restore)


# ── what they share ───────────────────────────────────────────────────────────────────────────────────────────────


def _mirror(now: Session, name: str) -> OpenMirror:
    (destination,) = now.destinations(mirror_name(name))
    return _mirror_of(now, destination, name)


def _mirror_of(now: Session, destination: Cluster, name: str) -> OpenMirror:
    return now.registry.open_mirror(destination, mirror_name(name), now.context, any_copier=True)


def _chosen(groups: Sequence[str] | None, strategy: str | None = None) -> Chosen:
    if wrong := pattern_problems(groups or ()):
        refuse(wrong)
    return Chosen(groups=tuple(groups or EVERYTHING), strategy=strategy_named(strategy))


def strategy_named(text: str | None) -> str:
    """The name of the strategy that --strategy names; empty: none was named.

    Raises:
        Misconfigured: there is no such strategy.
    """
    return "" if text is None else translator(text).name


def _confirm(now: Session, mirror: OpenMirror, request: SyncRequest) -> None:
    """On a terminal, show the changes and ask for confirmation."""
    if now.yes or now.context.dry_run or not on_terminal():
        return
    planned = sync_locked(mirror, request, replace(now.context, dry_run=True))
    _summary(planned, dry_run=True)
    confirm(f"Commit these offsets on {mirror.spec.destination}?", yes=False)


def _say_how(seen: Gathered) -> None:
    """Print how offsets are read, unless `__consumer_offsets` is followed."""
    if seen.source_answer.down is not None:
        say(f"warning: source {seen.spec.source} does not answer: {seen.source_answer.down.reason}")
    followed = seen.followed
    if followed is None:
        say("warning: no fetcher keeps committed offsets of groups, so none would be available without the source")
    elif followed.mode is not OffsetTailMode.TAILING or followed.reason:
        say(f"warning: committed offsets of groups: {followed.mode}: {followed.reason}")


def _show(now: Session, found: GroupSyncResult, columns: Sequence[str], *, moved_only: bool = False) -> None:
    """A table of the rows, or of those that have moved; JSON has all."""
    _say_how(found.seen)
    rows = [row for row in found.rows if now.as_json or not (moved_only and row.unmoved)]
    items = [position_item(row) | {"note": group_note(row.group, found.seen, found.undecided)} for row in rows]
    emit(items, columns, now.as_json)
    _say_notes(items)
    if found.seen.at_home:
        say(
            f"{len(found.seen.at_home)} group(s) are owned by this cluster (their topics were failed over) and "
            "are not translated; see `tanist groups list`"
        )


def _say_notes(items: Iterable[Mapping[str, Any]]) -> None:
    """Each note once, with the groups that it is about."""
    notes: dict[str, list[str]] = {}
    for item in items:
        if item["note"]:
            notes.setdefault(item["note"], []).append(item["group"])
    for note, groups in notes.items():
        say(f"{named(dict.fromkeys(groups), ', ')}: {note}")


def _summary(synced: GroupSyncResult, *, dry_run: bool) -> None:
    say(summary(synced, dry_run=dry_run))
    _say_some("clamped to the end of the mirror partition", synced.clamped)
    _say_some("not committed", [*synced.withheld, *synced.failed])


def _say_some(title: str, rows: Iterable[PositionRow], most: int = 5) -> None:
    found = list(rows)
    for row in found[:most]:
        say(f"{title}: {row.group} {row.partition}: {row.reason}")
    if len(found) > most:
        say(f"{title}: and {len(found) - most} more")


def _joined(row: dict[str, Any]) -> dict[str, str]:
    return {name: " ".join(row[name]) for name in ("topics", "at_home")}


def _line_item(line: GroupLine) -> dict[str, Any]:
    return {
        "group": line.group,
        "kind": line.kind,
        "state": line.state,
        "members": line.members,
        "destination_state": line.destination_state,
        "topics": list(line.topics),
        "at_home": list(line.at_home),
        "partitions": line.partitions,
        "lag": line.lag,
        "position_age_ms": line.age_ms,
        "reason": line.reason,
    }
