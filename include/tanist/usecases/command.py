"""The context of a command: its deadline, whether it may change anything, and to whom it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Clock


SOURCE_SECONDS: Final = 4.0
"""How long a source has for an answer that may be gone: what depends on it goes on without it."""
PATIENT_SOURCE_SECONDS: Final = 15.0
"""Where nothing goes on without it, as in a planned failover: a slow source is not a dead one."""
FIRST_CONTACT_SECONDS: Final = 8.0
"""How long a cluster has for its first answer, so that a dead one is reported before the whole deadline has passed."""


def _tell_nobody(_topics: Sequence[str]) -> None:
    """The default of `announce`: discards the topics."""


def _not_known(_holder: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What a running command shares: clock, deadline, and whether it may change anything.

    `source_seconds`: how long a look waits for the source. `announce` is called with the matched topics once they are
    decided, before anything changes. `holder`: the name under which this command holds the lock of a mirror.
    `is_process_dead`: whether such a holder is certainly dead. `four_eyes`: no command approves what it runs.
    `is_worker`: a worker runs it, which nobody has asked to.
    """

    clock: Clock
    by: Deadline
    dry_run: bool = False
    source_seconds: float = SOURCE_SECONDS
    announce: Callable[[Sequence[str]], None] = _tell_nobody
    holder: str = field(default_factory=lambda: f"command {uuid4().hex[:12]}")
    is_process_dead: Callable[[str], bool] = _not_known
    four_eyes: bool = False
    is_worker: bool = False

    def first_contact(self) -> Deadline:
        """The deadline of a first call: FIRST_CONTACT_SECONDS from now, but never later than the command's."""
        return Deadline(min(self.by.at, self.clock.deadline(FIRST_CONTACT_SECONDS).at))


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
