"""Readers that observations of one destination share, and the sources that have not answered."""

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
"""How long a cluster that has not answered is not queried again, so that it does not delay every observation."""


@dataclass(slots=True)
class StateReaders:
    """The state topics of one destination, read repeatedly; the readers stay open."""

    destination: Cluster
    _open: dict[str, StateStore] = field(default_factory=dict)

    def view(self, topic: str, by: Deadline) -> StateView:
        """The current view of a state topic; empty if the topic does not exist.

        Raises:
            UnsafeStateTopic: its configuration could lose records; and the destination's error if it cannot be read.
        """
        found = self.find(topic, by)
        return NOTHING_YET if found is None else found

    def find(self, topic: str, by: Deadline) -> StateView | None:
        """As `view`; None if the topic does not exist."""
        if (store := self._open.get(topic)) is not None:
            return store.catch_up(by)
        return self._open[topic].view() if self.has(topic, by) else None

    def has(self, topic: str, by: Deadline) -> bool:
        """Whether the topic exists."""
        if topic not in self._open:
            if (store := state_topics.opened(self.destination, topic, by)) is None:
                return False
            self._open[topic] = store
        return True

    def close(self) -> None:
        """Close the readers; the cluster is closed by the caller that opened it."""
        for store in self._open.values():
            store.close()


@dataclass(slots=True)
class Silence:
    """Clusters that have recently not answered, by the name of their connection, and why.

    `seconds`: how long they are not queried again; `math.inf` for an observation that ends.
    """

    clock: Clock
    seconds: float = SILENT_SECONDS
    _until: dict[str, tuple[float, TanistError]] = field(default_factory=dict)

    def of(self, name: str) -> TanistError | None:
        """Why the cluster is not queried now; None: query it."""
        until, why = self._until.get(name, (float("-inf"), None))
        return why if self.clock.monotonic() < until else None

    def keep(self, name: str, why: TanistError) -> None:
        """Record that the cluster has not answered."""
        self._until[name] = (self.clock.monotonic() + self.seconds, why)
