"""Options that many commands share, and the session that they define."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

import typer

from tanist.cli.advice import advised, explains, other_than, place_of
from tanist.cli.output import Format, JsonOption, OutputOption, guard, one_line, say
from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.moves import MirrorMoved
from tanist.domain.names import MirrorName, mirror_name
from tanist.domain.next_steps.rules import next_command
from tanist.domain.problems import of_mirror, refuse
from tanist.domain.selection import Selection, pattern_problems
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.cluster import Cluster
from tanist.settings import FOUR_EYES, ClusterSettings, Settings, from_flags, is_on, load
from tanist.usecases.command import CommandContext
from tanist.wiring.failover import is_process_dead, runner
from tanist.wiring.registry import ClusterRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.next_steps.step import Guidance
    from tanist.ports.clock import Deadline
    from tanist.usecases.mirror import OpenMirror

T = TypeVar("T")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_LONGEST_SECONDS: Final = 7 * 24 * 3600.0


def duration(text: str | float) -> float:
    """Seconds of `30`, `30s`, `500ms`, `10m`, `1h`; a default is passed as a number."""
    match = _DURATION.fullmatch(str(text).strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise typer.BadParameter(f"{text!r} is not a valid duration; examples: 30s, 500ms, 10m, 1h")
    return seconds


def lasting(flag: str, means: str, default: str, *, parser: Callable[[str], float] = duration) -> Any:
    """An option that is a duration. The help shows its `default` as it would be typed, not in seconds."""
    return typer.Option(flag, metavar="TIME", parser=parser, show_default=False, help=f"{means} (default: {default}).")


ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file (default: $TANIST_CONFIG, ./tanist.toml)."),
]
DestinationOption = Annotated[
    str | None,
    typer.Option(
        "--destination",
        "-d",
        metavar="NAME",
        envvar="TANIST_DESTINATION",
        help="Destination cluster of the mirror (default: $TANIST_DESTINATION). Commands that only read can find it.",
    ),
]
DestinationsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--destination",
        "-d",
        metavar="NAME",
        envvar="TANIST_DESTINATION",
        help="Destination cluster of the mirror (default: $TANIST_DESTINATION). With --all repeatable: only these.",
    ),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server", metavar="HOST:PORT", help="The destination's brokers, instead of a configured cluster."
    ),
]
CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config", metavar="FILE", help=("Client properties file for --bootstrap-server, as for kafka-*.sh.")
    ),
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="REGEX", help="Regular expression that matches whole topic names; repeatable."),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="REGEX", help="Topics to leave out of those that --topic matches; repeatable."),
]
GroupsOption = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="REGEX", help="Regular expression that matches whole group names; repeatable."),
]
WHY: Final = typer.Option("--reason", metavar="TEXT", parser=one_line, help="The reason, stored for others to read.")
YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help=("Do not ask for confirmation. Without a terminal no command asks."))
]
NeverAskOption = Annotated[bool, typer.Option("--yes", "-y", help="Accepted for scripts; this command does not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Check everything and change nothing.")]
MirrorArgument = Annotated[str, typer.Argument(metavar="NAME", help="The mirror.")]
MaybeMirrorArgument = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The mirror (default: all).")]


def selected(topic: list[str] | None, exclude: list[str] | None) -> Selection:
    """What --topic and --exclude select; without either `EVERY_TOPIC`.

    Raises:
        Misconfigured: an expression is none. No cluster has been asked then.
    """
    if wrong := pattern_problems((*(topic or ()), *(exclude or ()))):
        refuse(wrong)
    return Selection(tuple(topic or ()), tuple(exclude or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CliOptions:
    """The shared options of commands that query clusters."""

    config: Path | None
    destination: str | None
    bootstrap_server: str | None
    command_config: Path | None
    output: Format
    json: bool
    destinations: tuple[str, ...] = ()
    """Those of a command that takes several."""
    timeout: float | None = None
    """Seconds; None: not given."""
    dry_run: bool = False
    yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A running command."""

    registry: ClusterRegistry
    context: CommandContext
    named: str | None
    as_json: bool
    yes: bool
    until: Deadline | None
    """The deadline given by --timeout, for operations without a default one."""
    chosen: tuple[str, ...] = ()
    """The destinations that were given to a command that takes several; one of them only is `named`, too."""
    stop: Event = field(default_factory=Event)
    """Ends every wait of the clock; set where this command has threads that have to end with it."""

    def destination(self) -> Cluster:
        """The given destination; commands that change something never guess one.

        Raises:
            Misconfigured: none was given, or several.
        """
        if len(self.chosen) > 1:
            raise Misconfigured(f"a mirror has one destination, and several are given: {', '.join(self.chosen)}")
        if self.named is None:
            known = ", ".join(self.registry.names()) or "no cluster is configured"
            raise Misconfigured(f"no destination is given: use --destination NAME or $TANIST_DESTINATION ({known})")
        return self.registry.connect(self.named)

    def mirror(self, name: str) -> OpenMirror:
        """The mirror `name` of the given destination, with both of its clusters; raises as `open_mirror` too."""
        return self.registry.open_mirror(self.destination(), mirror_name(name), self.context)

    def mirror_to_read(self, name: str, *, any_copier: bool = False) -> OpenMirror:
        """As `mirror`, for commands that change no mirror: without a destination that of the only one that answers.

        `any_copier`: as `open_mirror` has it.
        """
        mirror = mirror_name(name)
        if self.chosen:
            destination = self.destination()
        else:
            (destination,) = self.destinations(mirror)
        return self.registry.open_mirror(destination, mirror, self.context, any_copier=any_copier)

    def following(self, mirror: OpenMirror) -> Guidance | None:
        """What to do next about a mirror; None: it is not known."""
        return advised(self.registry, mirror.destination.name, mirror.spec.mirror, self.context)

    def destinations(self, mirror: MirrorName | None) -> tuple[Cluster, ...]:
        """The given destination, otherwise those that answer and have the mirror (or any mirror)."""
        if self.named is not None:
            return (self.registry.connect(self.named),)
        return self.registry.destinations(mirror, self.context)


@contextmanager
def session(options: CliOptions, seconds: float) -> Iterator[Session]:
    """The session of a command; an error inside ends the command with one line per problem and its exit code."""
    as_json = options.json or options.output is Format.JSON
    with guard(as_json):
        stop = Event()
        clock = SystemClock(stop)
        by = clock.deadline(options.timeout or seconds)
        run = CommandContext(
            clock=clock,
            by=by,
            dry_run=options.dry_run,
            holder=runner(),
            is_process_dead=is_process_dead,
            four_eyes=is_on(FOUR_EYES, os.environ.get(FOUR_EYES, ""), unset=False),
        )
        settings = load(options.config, os.environ)
        name, extra = options.destination, {}
        if options.bootstrap_server is not None:
            name, cluster = _from_flags(options, options.bootstrap_server, settings)
            extra = {name: cluster}
        elif options.command_config is not None:
            raise Misconfigured("--command-config needs --bootstrap-server")
        with ClusterRegistry(settings, extra) as world:
            until = by if options.timeout else None
            chosen = options.destinations or ((name,) if name else ())
            yield Session(
                registry=world,
                context=run,
                named=name,
                as_json=as_json,
                yes=options.yes,
                until=until,
                chosen=chosen,
                stop=stop,
            )


def _from_flags(options: CliOptions, server: str, settings: Settings) -> tuple[str, ClusterSettings]:
    """The cluster given by flags; a configured cluster with the same address keeps its name and settings."""
    endpoint = from_flags(server, options.command_config)
    for name, known in settings.clusters.items():
        if options.destination in {None, name} and set(known.endpoint.bootstrap) & set(endpoint.bootstrap):
            return name, ClusterSettings(replace(endpoint, name=name), known.allow_small_state)
    name = options.destination or server
    return name, ClusterSettings(replace(endpoint, name=name))


def announcing(session: Session, verb: str) -> CommandContext:
    """The session's context, which announces the topics to change."""

    def announce(topics: Sequence[str]) -> None:
        would = "would " if session.context.dry_run else ""
        say(f"{would}{verb} {len(topics)} topic(s): {', '.join(topics)}" if topics else f"{would}{verb} no topic")

    return replace(session.context, announce=announce)


def on_terminal() -> bool:
    """Whether a user can answer."""
    return sys.stdin.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, unless `yes` was given.

    Raises:
        typer.Abort: not confirmed.
    """
    if not yes and on_terminal():
        typer.confirm(question, abort=True, err=True)


def optional_name(text: str | None) -> MirrorName | None:
    """A mirror's name, if one was given."""
    return None if text is None else mirror_name(text)


# ── commands without boilerplate ──────────────────────────────────────────────────────────────────────────────────


def _shared(
    *,
    destination: DestinationOption = None,
    config: ConfigOption = None,
    bootstrap_server: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """The shared options of commands on mirrors; read by `asking`, never called."""


def _several(given: Mapping[str, Any]) -> dict[str, Any]:
    chosen = tuple(dict.fromkeys(given["destination"] or ()))
    return {"destination": chosen[0] if len(chosen) == 1 else None, "destinations": chosen}


def _changing(*, dry_run: DryRunOption = False, yes: NeverAskOption = False) -> None:
    """Additional options of commands that change something."""


def _confirming(*, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Additional options of commands that ask for confirmation."""


def asking(
    *,
    changes: bool = False,
    confirms: bool = False,
    timed: bool = True,
    seconds: float = 30.0,
    dry_run: str = "",
    several: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator of commands whose first parameter is a `Session`: adds the shared options.

    `seconds`: the default timeout; not `timed`: the command has no timeout and no option --timeout.
    `dry_run`: what --dry-run does, where it changes something. `several`: --destination may be given more than once.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        added = [
            each.replace(annotation=DestinationsOption) if several and each.name == "destination" else each
            for each in _options(_shared)
        ]
        if timed:
            added.append(_timeout(seconds))
        if changes:
            changing = _options(_confirming if confirms else _changing)
            own_dry_run = Annotated[bool, typer.Option("--dry-run", help=dry_run)]
            added += [e.replace(annotation=own_dry_run) if dry_run and e.name == "dry_run" else e for e in changing]
        shared = {option.name for option in added}

        def run(**given: Any) -> None:
            asked = CliOptions(**{name: given[name] for name in shared} | (_several(given) if several else {}))
            with session(asked, seconds) as now:
                own_options = {name: value for name, value in given.items() if name not in shared}
                following(now, lambda where: _explained(where, command, own_options))

        whole = cast("Any", run)
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *added)]
        whole.__signature__ = inspect.Signature(parameters)
        whole.__annotations__ = {p.name: p.annotation for p in parameters}
        whole.__name__, whole.__doc__ = command.__name__, command.__doc__
        return run

    return wrap


def _explained(now: Session, command: Callable[..., None], given: dict[str, Any]) -> None:
    """Run `command`. A refusal gets the next step about its mirror as a note, if that is known."""
    try:
        command(now, **given)
    except MirrorMoved:
        raise
    except TanistError as refusal:
        mirror, explained = given.get("name"), explains(refusal)
        there = place_of(now.registry, now.named, mirror, now.context) if explained else now.named
        of_mirror(refusal, mirror if isinstance(mirror, str) else "", there or "")
        found = advised(now.registry, there, mirror, now.context) if explained else None
        if line := next_command(other_than(found, sys.argv)) if found is not None else "":
            refusal.add_note(line)
        raise


def following(now: Session, work: Callable[[Session], T]) -> T:
    """What `work` returns; if its mirror has moved to another configured cluster, once more there: nothing was changed.

    Raises:
        MirrorMoved: that cluster is not configured.
    """
    try:
        return work(now)
    except MirrorMoved as moved:
        if moved.destination not in now.registry.names():
            raise
        say(f"{moved.reason}; continuing there")
        return work(replace(now, named=moved.destination, chosen=()))


def _timeout(seconds: float) -> inspect.Parameter:
    means = "Time limit of the whole command, for example 500ms, 30s, 10m"
    option = Annotated[float | None, lasting("--timeout", means, f"{seconds:.0f}s")]
    return inspect.Parameter("timeout", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)


def _options(of: Callable[..., None]) -> list[inspect.Parameter]:
    return list(inspect.signature(of, eval_str=True).parameters.values())
