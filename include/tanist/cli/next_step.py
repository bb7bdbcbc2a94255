"""`tanist next`: where a mirror is, what is missing, and the command to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tanist.cli.options import MaybeMirrorArgument, Session, asking, optional_name
from tanist.cli.output import emit, say
from tanist.domain.answers import attempt
from tanist.domain.envelope import error_items
from tanist.domain.errors import BrokerError, CouldNotTell, NoStateTopic, TanistError
from tanist.domain.next_steps.together import together
from tanist.domain.next_steps.unread import unread
from tanist.usecases.items import guidance_item, step_items
from tanist.wiring.status import advise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.next_steps.step import Guidance, NextStep
    from tanist.ports.cluster import Cluster

_UNREAD = 3
_NONE = (
    "no mirror was found; where the state topics of a destination are lost, `tanist next` says what to do if it is "
    "given the name of the mirror, and --destination"
)


@asking()
def next_step(now: Session, name: MaybeMirrorArgument = None) -> None:
    """Where a mirror is between its failovers, what is missing, and the next command. Changes nothing.

    Without a name: all mirrors of all destinations, in the order in which to go on with them, and one command where
    several stand alike. A cluster without an answer that is the source of one of them is named, because mirrors that
    lead to it are not shown. A command with a decision is one answer to a question that a person decides; without one
    it is the way on. Nothing to do: no command.

    Exits with 3 if a destination cannot be read.

    Example: tanist next dr --destination west
    """
    mirror = optional_name(name)
    found: list[Guidance] = []
    silent: list[TanistError] = []
    for destination in _answering(now, mirror, found):
        try:
            found += advise(now.registry, destination, mirror, now.context)
        except (CouldNotTell, BrokerError, NoStateTopic) as error:
            silent.append(error)
            if mirror is not None:
                found.append(_unread(now, mirror, destination.name, error))
    sources = {each.source for each in found}
    no_answer = _without_answer(now)
    silent += [why for name, why in no_answer.items() if now.named is None and name not in sources]
    unseen = [name for name in no_answer if mirror is None and name in sources]
    found.sort(key=lambda each: each.urgency)
    errors = [item for each in silent for item in error_items(each)]
    alike = together(found)
    if now.as_json:
        items, more = [guidance_item(each) for each in found], {"together": step_items(alike), "unseen": unseen}
        emit(items, (), as_json=True, errors=errors, more=more)
    else:
        print("\n\n".join("\n".join(each) for each in _paragraphs(found, alike)) or _NONE)
        for why in silent:
            say(f"error: {why}")
        for source in unseen:
            say(f"note: {source} does not answer: mirrors that lead to it, if there are any, are not shown")
    if silent:
        raise typer.Exit(_UNREAD)


def _answering(now: Session, mirror: MirrorName | None, found: list[Guidance]) -> tuple[Cluster, ...]:
    """The destinations to ask. Where no cluster that answers has `mirror`: those without a state topic.

    What can be said of the silent clusters then is added to `found`.

    Raises:
        as `Session.destinations`, if no cluster is silent and all have their state topics, or no mirror is named.
    """
    try:
        return now.destinations(mirror)
    except TanistError:
        if mirror is None:
            raise
        silent = _without_answer(now)  # none is waited for again
        views = now.registry.views([name for name in now.registry.names() if name not in silent], now.context)
        silent |= {name: view for name, view in views.items() if isinstance(view, TanistError)}
        found += [unread(mirror, name, why, ()) for name, why in silent.items()]
        lost = tuple(now.registry.connect(name) for name, view in views.items() if view is None)
        if not found and not lost:
            raise
        return lost


def _without_answer(now: Session) -> dict[str, TanistError]:
    """Clusters that were asked in vain, by name. A source of mirrors that are shown may be a destination of others."""
    kept = now.registry.silence(now.context.clock)
    return {name: why for name in now.registry.names() if (why := kept.of(name)) is not None}


def _unread(now: Session, mirror: MirrorName, destination: str, why: TanistError) -> Guidance:
    others = [each for each in now.registry.names() if each != destination]
    elsewhere = attempt(lambda: now.registry.destinations(mirror, now.context))
    where = "" if isinstance(elsewhere, TanistError) else next((each.name for each in elsewhere), "")
    return unread(mirror, destination, why, others, where, {} if where else _known(now))


def _known(now: Session) -> dict[str, tuple[MirrorName, ...]]:
    """The mirrors of the clusters that answer, by destination."""
    silent = _without_answer(now)
    views = now.registry.views([name for name in now.registry.names() if name not in silent], now.context)
    return {
        name: tuple(each.mirror for each in view.mirrors())
        for name, view in views.items()
        if view is not None and not isinstance(view, TanistError)
    }


def _paragraphs(found: Sequence[Guidance], alike: Sequence[NextStep]) -> Iterator[list[str]]:
    """What several mirrors have in common, then each mirror, for people."""
    if alike:
        yield ["mirrors that stand alike:", *_steps(alike)]
    for each in found:
        idle = ["  next: nothing is to be done" if not each.missing else "  next: no command"]
        missing = [f"  missing: {what}" for what in each.missing]
        yield [f"{each.mirror} at {each.destination}: {each.stage}", *missing, *(_steps(each.steps) or idle)]


def _steps(steps: Sequence[NextStep]) -> list[str]:
    """The command of each last, where the eye ends."""
    decided = [f"{step.decision}: {step.why}" if step.decision else step.why for step in steps]
    return [line for why, step in zip(decided, steps, strict=True) for line in (f"  {why}", f"  next: {step.command}")]
