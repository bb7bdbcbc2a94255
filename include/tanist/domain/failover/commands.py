"""The commands that a person types next about a plan, complete: they can be copied into a shell."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.filled import REASON, exact_options, exactly
from tanist.domain.names import iso_time
from tanist.domain.selection import EVERYTHING
from tanist.domain.tails import FindingKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.failover.many import NamedPlan
    from tanist.domain.failover.plan import Intent


def approve_command(intent: Intent, plan: str, destination: str, *, kept: bool) -> str:
    """What approves `plan`. `kept`: its words are stored, so the hash is enough; else every option is in it."""
    options = () if kept else (*options_of(intent), "--max-loss", str(intent.loss_tolerance))
    reason = ("--reason", f"{intent.mode.value} failover")
    return _typed("approve", intent.mirror, plan, destination, (*options, *reason))


def accept_undecided_command(mirror: str, destination: str) -> str:
    """What accepts that nobody decides any more about records that only an old source had."""
    where = ("--destination", destination, "--finding", FindingKind.UNDECIDED.value)
    return shlex.join(("tanist", "failback", "accept", mirror, *where, "--reason", REASON))


def plan_all_command(mode: Mode, destinations: Iterable[str] = (), source: str | None = None) -> str:
    """What plans all mirrors: of these destinations only, where some are given, and from `source` only."""
    where = (word for name in destinations for word in ("--destination", name))
    copied = () if source is None else ("--source", source)
    return shlex.join(("tanist", "failover", "plan", "--all", "--mode", mode.value, *where, *copied))


def approve_all_command(plans: Iterable[NamedPlan]) -> str:
    """What approves these plans, at least one, all of which are kept."""
    return _all_typed("approve", plans, ("--reason", "as planned with --all"))


def run_all_command(plans: Iterable[NamedPlan]) -> str:
    """What runs these plans, at least one, once they are approved, and resumes them."""
    return _all_typed("run", plans)


def run_command(intent: Intent, plan: str, destination: str) -> str:
    """What runs `plan` once it is approved, and resumes it."""
    return _typed("run", intent.mirror, "", destination, ("--plan", plan))


def plan_command(intent: Intent, destination: str, *, source_down: bool = False) -> str:
    """What plans the same again. The loss is counted anew: a number that was exceeded would be exceeded again.

    `source_down`: a planned failover cannot be, so an unplanned one.
    """
    options = tuple(options_of(intent))
    if intent.mode is Mode.PLANNED and source_down:
        options = ("--mode", Mode.UNPLANNED.value, *(each for each in options[2:] if each != "--reverse"))
    return _typed("plan", intent.mirror, "", destination, options)


def others_command(intent: Intent, without: Iterable[str], destination: str) -> str:
    """What plans the same for all topics but those in `without`."""
    excluded = exact_options("--exclude", without)
    return _typed("plan", intent.mirror, "", destination, (*options_of(intent), *excluded))


def remove_command(intent: Intent, topics: Iterable[str], destination: str) -> str:
    """What takes `topics` out of the mirror."""
    named = exact_options("--topic", topics)
    return shlex.join(("tanist", "mirrors", "remove", intent.mirror, "--destination", destination, *named))


def add_command(intent: Intent, topics: Iterable[str], destination: str) -> str:
    """What takes `topics` into the mirror, or back into it."""
    named = exact_options("--topic", topics)
    return shlex.join(("tanist", "mirrors", "add", intent.mirror, "--destination", destination, *named))


def options_of(intent: Intent) -> Iterator[str]:
    """The options that ask for `intent`, all but the tolerated loss."""
    yield from ("--mode", intent.mode.value)
    if intent.whole is not True:  # a topic that was added since would be in the plan without them
        for topic in intent.names:
            yield from ("--topic", exactly(topic))
    if intent.groups != EVERYTHING:
        for group in intent.groups:
            yield from ("--group", group)
    if intent.mode is Mode.UNPLANNED:
        yield from ("--reserve", str(intent.reserve or "none"))
        if intent.dead_since is not None:
            yield from ("--source-dead-since", iso_time(intent.dead_since))
    if intent.reverse:
        yield "--reverse"


def _all_typed(verb: str, plans: Iterable[NamedPlan], options: Iterable[str] = ()) -> str:
    return shlex.join(("tanist", "failover", verb, "--all", *map(str, plans), *options))


def _typed(verb: str, mirror: str, plan: str, destination: str, options: Iterable[str]) -> str:
    words = ("tanist", "failover", verb, mirror, *filter(None, [plan]), "--destination", destination, *options)
    return shlex.join(words)
