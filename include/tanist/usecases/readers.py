"""What one reading of a destination shares: its state topics, and which sources have not answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.state_view import NOTHING_YET
from tanist.usecases import state_topics

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.state import StateStore

SILENT_SECONDS: Final = 10.0
"""A cluster that has not answered is not asked again for so long: it must not hold up every look."""


@dataclass(slots=True)
class StateReaders:
    """The state topics of one destination, read again and again: the readers stay open."""

    destination: Cluster
    _open: dict[str, StateStore] = field(default_factory=dict)

    def view(self, topic: str, by: Deadline) -> StateView:
        """A state topic as it is now; empty where it does not exist.

        Raises:
            UnsafeStateTopic: it could lose what we write; and what the destination answers if it cannot be read.
        """
        if not self.has(topic, by):
            return NOTHING_YET
        return self._open[topic].catch_up(by)

    def has(self, topic: str, by: Deadline) -> bool:
        """Whether there is such a topic."""
        if topic not in self._open:
            if not state_topics.exists(self.destination, topic, by):
                return False
            self._open[topic] = self.destination.open_store(topic, None, by)
        return True

    def close(self) -> None:
        """Close the readers; the cluster belongs to whoever opened it."""
        for store in self._open.values():
            store.close()


@dataclass(slots=True)
class Silence:
    """Clusters, by the name of their connection, that have not answered a moment ago, and why.

    `seconds`: for so long they are not asked again; a reading that ends asks them once (`math.inf`).
    """

    clock: Clock
    seconds: float = SILENT_SECONDS
    _until: dict[str, tuple[float, TanistError]] = field(default_factory=dict)

    def of(self, name: str) -> TanistError | None:
        """Why it is not asked now; None: ask it."""
        until, why = self._until.get(name, (float("-inf"), None))
        return why if self.clock.monotonic() < until else None

    def keep(self, name: str, why: TanistError) -> None:
        """It has just not answered."""
        self._until[name] = (self.clock.monotonic() + self.seconds, why)
