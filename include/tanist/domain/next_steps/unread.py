"""What to do next about a mirror whose destination cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import NoStateTopic, TanistError
from tanist.domain.next_steps.rebuilding import Rebuilding
from tanist.domain.next_steps.step import Guidance, NextStage, NextStep, ask_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorName

_DOCTOR = NextStep(command="tanist doctor", why="shows which clusters answer, and what is missing at each")


def unread(
    mirror: MirrorName, destination: str, why: TanistError, others: Sequence[str], elsewhere: str = ""
) -> Guidance:
    """`why`: the destination's error. `others`: the other clusters that are configured, by name.

    `elsewhere`: the one of them that has the mirror; empty: none has.
    Without its state topic a destination answers, and its mirrors are registered again from their logs; what was the
    source is known only if no more than one other cluster can have been it.
    """
    missing, steps = [str(why)], [_DOCTOR]
    if elsewhere:
        why_there = f"{elsewhere} is the destination of the mirror"
        steps.insert(0, NextStep(command=ask_command(mirror, elsewhere), why=why_there))
    elif isinstance(why, NoStateTopic):
        missing.append("if there is an export of the state, `tanist state restore` is better than a rebuild")
        if len(others) == 1:
            whole = Rebuilding(mirror=mirror, source=others[0], destination=destination, include=(".*",))
            rebuild = NextStep(
                command=whole.command,
                why="registers the mirror again from the logs of both clusters; it stays stopped until it is resumed. "
                "Where that cluster had several mirrors, it prints one command for each",
                decision=f"the state topics of {destination} are lost, and there is no export",
            )
            steps.insert(0, rebuild)
    return Guidance(
        mirror=mirror,
        destination=destination,
        stage=NextStage.UNREACHABLE,
        missing=tuple(missing),
        steps=tuple(steps),
    )
