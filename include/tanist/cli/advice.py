"""The next step about the mirror of a command, after a refusal or beside its answer."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError
from tanist.domain.names import mirror_name
from tanist.domain.problems import each
from tanist.wiring.status import advise

if TYPE_CHECKING:
    from collections.abc import Collection

    from tanist.domain.next_steps.step import Guidance
    from tanist.usecases.command import CommandContext
    from tanist.wiring.registry import ClusterRegistry

ADVICE_SECONDS: Final = 8.0
"""A refusal is shown even where the next step cannot be found out, so nobody waits long for that."""


def advised(registry: ClusterRegistry, named: str | None, mirror: object, context: CommandContext) -> Guidance | None:
    """What to do next about `mirror` at its destination `named`; None: it is not known."""
    if named is None or not isinstance(mirror, str):
        return None
    try:
        brief = replace(context, by=context.clock.deadline(ADVICE_SECONDS), dry_run=True)
        (found,) = advise(registry, registry.connect(named), mirror_name(mirror), brief)
    except Exception:  # noqa: BLE001 -- what the command itself has to say is said, whatever fails here
        return None
    return found


def place_of(registry: ClusterRegistry, named: str | None, mirror: object, context: CommandContext) -> str | None:
    """The destination of `mirror`, where none was `named` and a command that reads has found it; None: not known."""
    if named is not None or not isinstance(mirror, str):
        return named
    silent = registry.silence(context.clock)  # none is waited for again
    try:
        views = registry.views([each for each in registry.names() if silent.of(each) is None], context)
    except Exception:  # noqa: BLE001 -- as in `advised`
        return None
    seen = {name: view for name, view in views.items() if view is not None and not isinstance(view, TanistError)}
    found = [name for name, view in seen.items() if any(spec.mirror == mirror for spec in view.mirrors())]
    return found[0] if len(found) == 1 else None


def explains(refusal: TanistError) -> bool:
    """Whether the next step of its mirror leads on from a refusal: only if that of each of several does."""
    return all(one.state_explains for one in each(refusal))


def other_than(found: Guidance, typed: Collection[str]) -> Guidance:
    """`found` without the command that was `typed`, for whatever reason: refused a moment ago, it is not the way on."""
    place = {"--destination", "-d", found.destination}  # or $TANIST_DESTINATION

    def words(command: str) -> set[str]:
        return set(takewhile(lambda word: word != "--reason", shlex.split(command)[1:])) - place

    return replace(found, steps=tuple(each for each in found.steps if not words(each.command) <= set(typed)))
