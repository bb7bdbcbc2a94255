"""How far one command goes through the modules of the product, as it runs: `python -m bench.walk [--json]`.

Each command runs against clusters in memory, so the adapters of Kafka are left out, and so are the domain and the
making of values: everybody asks for those. A visit begins where a call leads from one module into another; what a
function gives back to its caller is no visit. A return is a visit of a module that was visited before. State topics
count each time that they are opened, at either cluster.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.figures import show
from tanist.usecases.status.observe import observe
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.readings import reading
from tests.unit.usecases.returning import reverses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

PRODUCT: Final = "tanist."
_NO_STOP: Final = ("tanist.domain.", "tanist.kafka.")
"""The stores in memory encode and decode records as those of Kafka do."""
_GENERATED: Final = "<string>"
"""Where the code of a dataclass is."""
_OPENING: Final = "open_store"


@dataclass
class Walk:
    """`visits`: modules, one after the other, as they were entered by a call. `opened`: state topics."""

    visits: list[str] = field(default_factory=list)
    opened: int = 0
    _inside: list[str] = field(default_factory=list)

    @property
    def modules(self) -> list[str]:
        """Each once, in the order of the first visit."""
        return list(dict.fromkeys(self.visits))

    @property
    def returns(self) -> int:
        return len(self.visits) - len(self.modules)

    def seen(self, frame: FrameType, event: str, _argument: object) -> None:
        """As `sys.setprofile` calls it."""
        if event == "call":
            here = self._inside[-1] if self._inside else ""
            name = str(frame.f_globals.get("__name__", ""))
            stops = name.startswith(PRODUCT) and not name.startswith(_NO_STOP)
            into = name if stops and frame.f_code.co_filename != _GENERATED else here
            if into != here:
                self.visits.append(into)
            self.opened += frame.f_code.co_name == _OPENING
            self._inside.append(into)
        elif event == "return" and self._inside:
            self._inside.pop()


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one command."""

    command: str
    modules: int
    visits: int
    returns: int
    state_topics_opened: int


def walked(command: Callable[[], object]) -> Walk:
    """The walk of a command, which runs in this thread."""
    walk = Walk()
    sys.setprofile(walk.seen)
    try:
        command()
    finally:
        sys.setprofile(None)
    return walk


def a_failover() -> Walk:
    """Planned, approved and run to its end."""
    world = FailoverWorld()
    return walked(lambda: world.run(world.approve().plan))


def a_reversal() -> Walk:
    """Planned, approved and run, after a planned failover."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    return walked(lambda: reverses(world))


def a_status() -> Walk:
    """Of the one mirror that there is."""
    world = FailoverWorld()
    asked = reading(world.east, world.west, world.command())
    return walked(lambda: list(observe(asked, DR)))


COMMANDS: Final[Mapping[str, Callable[[], Walk]]] = {
    "failover plan, approve, run": a_failover,
    "mirrors reverse: plan, approve, run": a_reversal,
    "status": a_status,
}


def figures() -> tuple[Figures, ...]:
    """Of each command."""
    walks = {name: walk() for name, walk in COMMANDS.items()}
    return tuple(
        Figures(name, len(walk.modules), len(walk.visits), walk.returns, walk.opened) for name, walk in walks.items()
    )


if __name__ == "__main__":
    show("bench.walk", "How far a command goes.", figures)
