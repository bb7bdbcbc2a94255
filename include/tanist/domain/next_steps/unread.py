"""What to do next about a mirror whose destination cannot be read."""

from __future__ import annotations

import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import NoStateTopic, TanistError
from tanist.domain.next_steps.rebuilding import Rebuilding
from tanist.domain.next_steps.step import Guidance, NextStage, NextStep, ask_command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tanist.domain.names import MirrorName

_DOCTOR: Final = NextStep(command="tanist doctor", why="shows which clusters answer, and what is missing at each")
_NONE: Final[Mapping[str, Collection[MirrorName]]] = MappingProxyType({})


def unread(
    mirror: MirrorName,
    destination: str,
    why: TanistError,
    others: Sequence[str],
    elsewhere: str = "",
    known: Mapping[str, Collection[MirrorName]] = _NONE,
) -> Guidance:
    """`why`: the destination's error. `others`: the other clusters that are configured, by name.

    `elsewhere`: the one of them that has the mirror; empty: none has. `known`: the mirrors that there are, by
    destination. Without its state topic a destination answers, and nobody knows whether it had the mirror: it may be
    a name that was mistyped, or that of a new mirror. What was the source is known only if no more than one other
    cluster can have been it.
    """
    missing, steps = [str(why)], [_DOCTOR]
    if elsewhere:
        why_there = f"{elsewhere} is the destination of the mirror"
        steps.insert(0, NextStep(command=ask_command(mirror, elsewhere), why=why_there))
    elif isinstance(why, NoStateTopic):
        missing.insert(0, _not_there(mirror, known))
        missing.append("if there is an export of the state, `tanist state restore` is better than a rebuild")
        if len(others) == 1:
            steps = [*_registered(mirror, others[0], destination), _DOCTOR]
    return Guidance(
        mirror=mirror,
        destination=destination,
        stage=NextStage.UNREACHABLE,
        missing=tuple(missing),
        steps=tuple(steps),
    )


def _not_there(mirror: MirrorName, known: Mapping[str, Collection[MirrorName]]) -> str:
    named = [f"{each} at {destination}" for destination, mirrors in sorted(known.items()) for each in sorted(mirrors)]
    there_are = f"; there are: {', '.join(named)}" if named else ", or any other"
    return f"no cluster that answers has a mirror {mirror!r}{there_are}"


def _registered(mirror: MirrorName, source: str, destination: str) -> Iterator[NextStep]:
    """Either a mirror that was there before, or a new one."""
    whole = Rebuilding(mirror=mirror, source=source, destination=destination, include=(".*",))
    yield NextStep(
        command=whole.command,
        why="registers the mirror again from the logs of both clusters; it stays stopped until it is resumed. "
        "Where that cluster had several mirrors, it prints one command for each",
        decision=f"the state topics of {destination} are lost, and there is no export",
    )
    new = ("create", mirror, "--destination", destination, "--source", source, "--topic", ".*", "--dry-run")
    yield NextStep(
        command=shlex.join(("tanist", "mirrors", *new)),
        why=f"checks what a mirror of all topics of {source} would take, and changes nothing",
        decision=f"it is a new mirror at {destination}",
    )
