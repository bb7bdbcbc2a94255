"""An operator who does not give up: commands are killed, frozen and refused, and run again until they have done it."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import TimedOut
from tanist_testkit.sandbox.forks import COMMANDS, Command, CommandResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path
    from random import Random

    from tests.storm.operators import Tally

BUG: Final = 70
COMMAND_SECONDS: Final = 200.0
PATIENCE_SECONDS: Final = 300.0
"""After that a command that is run again and again has not done it, whatever befalls it."""
DISTURBED: Final = 3
"""So many times something may befall it; after that it runs in peace."""
_LIKELY: Final = 0.5
_PAUSE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.02
_OK: Final = frozenset({0})
_OF_PLANS: Final = frozenset({"ANOTHER_PLAN", "APPROVAL_USED", "APPROVAL_VOID", "NOT_APPROVED", "PLAN_NOT_KEPT"})


class Way(StrEnum):
    """What befalls a command."""

    KILL, STOP, LATE = "kill -9 of a command", "SIGSTOP of a command", "command that wakes after another did its work"


class Stuck(Exception):
    """A command has not done its work."""


class AnotherPlan(Exception):
    """What was approved is not what would be run now."""


@dataclass(slots=True)
class Persistence:
    """Of one operator. `wrong`: bugs that commands have told of."""

    config: Path
    tally: Tally
    dice: Random
    tell: Callable[[str], None]
    wrong: list[str] = field(default_factory=list)
    asleep: list[tuple[str, Command]] = field(default_factory=list)

    def ask(self, *arguments: str, accepted: Collection[int] = _OK) -> list[dict[str, Any]]:
        """What a command says that nothing befalls.

        Raises:
            Stuck.
        """
        return self._until_done(arguments, accepted, 0).items

    def do(self, *arguments: str, accepted: Collection[int] = _OK) -> list[dict[str, Any]]:
        """The same of a command that is killed and frozen, and run again.

        Raises:
            Stuck. AnotherPlan: a new plan is to be approved.
        """
        return self._until_done(arguments, accepted, DISTURBED).items

    def once(self, *arguments: str) -> CommandResult:
        """One try, in peace."""
        found = self._waited(" ".join(arguments[:3]), self._begun(arguments))
        return found or CommandResult(-signal.SIGKILL, "", "")

    def wake(self) -> None:
        """Who sleeps goes on with what others have done meanwhile; returns when all have ended."""
        sleepers, self.asleep = self.asleep, []
        for words, command in sleepers:
            self.tell(f"{words} wakes late")
            command.send(signal.SIGCONT)
        for words, command in sleepers:
            self._waited(f"{words}, woken late,", command)

    def _until_done(self, arguments: tuple[str, ...], accepted: Collection[int], disturbed: int) -> CommandResult:
        words, by, tries = " ".join(arguments[:3]), time.monotonic() + PATIENCE_SECONDS, 0
        while True:
            tries += 1
            ended = self._try(words, arguments, disturbed=tries <= disturbed)
            if ended is not None and ended.code in accepted:
                return ended
            if ended is not None and _name(ended) in _OF_PLANS:
                raise AnotherPlan(_why(ended))
            if time.monotonic() > by:
                raise Stuck(f"{' '.join(arguments)} was run {tries} times; the last one: {ended}")
            time.sleep(_PAUSE_SECONDS)  # noqa: TID251

    def _try(self, words: str, arguments: tuple[str, ...], *, disturbed: bool) -> CommandResult | None:
        """None: it was killed, or sleeps."""
        command = self._begun(arguments)
        if disturbed and self.dice.random() < _LIKELY and self._lives(command, 0.1 * 60 ** self.dice.random()):
            way = self.dice.choices(list(Way), (5, 2, 2))[0]
            self.tally.add("ways", way)
            self.tell(f"{words}: {way}")
            command.send(signal.SIGKILL if way is Way.KILL else signal.SIGSTOP)
            if way is Way.LATE:
                self.asleep.append((words, command))
                return None
            time.sleep(0.3 * 30 ** self.dice.random())  # noqa: TID251
            command.send(signal.SIGCONT)
        return self._waited(words, command)

    def _waited(self, words: str, command: Command) -> CommandResult | None:
        """None: it was killed."""
        try:
            ended = command.wait(COMMAND_SECONDS)
        except TimedOut as late:
            self.wrong.append(f"{words}: {late}")
            return None
        return self._ended(words, ended) if ended.code >= 0 else None

    def _begun(self, arguments: tuple[str, ...]) -> Command:
        self.tally.add("commands", " ".join(arguments[:2]))
        return Command(COMMANDS, (*arguments, "--json", "--config", str(self.config)))

    def _lives(self, command: Command, seconds: float) -> bool:
        by = time.monotonic() + seconds
        while command.alive and time.monotonic() < by:
            time.sleep(_LOOK_SECONDS)  # noqa: TID251
        return command.alive

    def _ended(self, words: str, ended: CommandResult) -> CommandResult:
        self.tally.add("codes", str(ended.code))
        if name := _name(ended):
            self.tally.add("refusals", name)
            self.tell(f"{words} ended with {ended.code}: {_why(ended)[:300]}")
        if ended.code == BUG or "Traceback" in ended.err:
            self.wrong.append(f"{words}: a bug of ours: {ended.err[-1500:]}")
        return ended


def _why(ended: CommandResult) -> str:
    return next((line for line in ended.err.splitlines() if line.startswith("error:")), "")


def _name(ended: CommandResult) -> str:
    """Of the error, if it told one."""
    found = _why(ended).split(":")
    return found[1].strip() if len(found) > 1 else ""
