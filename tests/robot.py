"""A reader who knows nothing of the product: it types what `tanist next` says, until nothing is to be done.

It imports nothing of Tanist, and of a decision it knows only the number of its answer.
"""

from __future__ import annotations

import json
import shlex
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NEXT: Final = "next: "
SETTLED_SECONDS: Final = 3.0
"""Nothing is to be done if `next` says so twice: a worker may be about to find something."""


class Typed(Protocol):
    """What a command line has left."""

    @property
    def code(self) -> int: ...
    @property
    def out(self) -> str: ...
    @property
    def err(self) -> str: ...


@dataclass
class Journey:
    """What was typed, and decided, until nothing was to be done. `failed`: commands that did not end with 0."""

    commands: list[str] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    seconds: float = 0.0


def _nothing(_typed: int) -> None:
    pass


@dataclass
class Robot:
    """`types`: runs a command line, its words behind `tanist`. `mirror`: empty: whatever comes first of all mirrors.

    `answers`: by number, from 0, which answer it gives to the decisions, in the order in which they come; where none is
    left, the first. `knows`: words by which it finds its own among the commands that a refusal offers; without such
    words it types none of them.
    """

    types: Callable[[Sequence[str]], Typed]
    mirror: str = ""
    answers: Sequence[int] = ()
    knows: str = ""
    settled: float = SETTLED_SECONDS
    meanwhile: Callable[[int], None] = _nothing
    """What happens to the clusters after so many commands."""

    def follow(self, most: int, *first: str) -> Journey:
        """Type `first`, then what is said, at most so many commands in all. AssertionError: there are more."""
        made, began, answers = Journey(), time.monotonic(), list(self.answers)
        for line in first:
            self._type(line, made)
        idle = 0
        while idle < 2:
            item = self._next()
            if item is None:
                idle += 1
                threading.Event().wait(self.settled)
                continue
            idle = 0
            assert len(made.commands) < most, f"{made} and still {item}"
            made.stages.append(item["stage"])
            steps = item["next"]
            chosen = steps[0]
            if chosen["decision"] is not None:
                chosen = steps[answers.pop(0) if answers else 0]
                made.decisions.append(chosen["decision"] or "")
            assert made.commands[-2:] != [chosen["command"]] * 2, f"three times the same: {made}"
            offered = self._type(chosen["command"], made)
            while self.knows and offered:
                assert len(made.commands) < most, f"{made} and still {offered}"
                own = (line for line in offered if f"{self.knows} " in f"{line} ")
                offered = self._type(next(own, offered[0]), made)
        made.seconds = time.monotonic() - began
        return made

    def _next(self) -> dict[str, Any] | None:
        asked = ("next", *([self.mirror] if self.mirror else []), "--json")
        answer = self.types(asked)
        said = json.loads(answer.out)
        assert said["items"] or answer.code == 0, answer.err
        if said["together"]:
            return {"stage": "TOGETHER", "next": said["together"]}
        return next((dict(item) for item in said["items"] if item["next"]), None)

    def _type(self, line: str, made: Journey) -> list[str]:
        """Returns the commands that a refusal names."""
        word, *rest = shlex.split(line)
        assert word == "tanist"
        made.commands.append(line)
        if (answer := self.types(rest)).code != 0:
            made.failed.append(f"{line}: {answer.code}: {answer.err.strip()[-400:]}")
        self.meanwhile(len(made.commands))
        return [said.removeprefix(_NEXT) for said in answer.err.splitlines() if answer.code and said.startswith(_NEXT)]
