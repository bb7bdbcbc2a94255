"""Clusters that have not answered, which are not asked again for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Clock

SILENT_SECONDS: Final = 10.0
"""How long a cluster that has not answered is not queried again, so that it does not delay every observation."""


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
