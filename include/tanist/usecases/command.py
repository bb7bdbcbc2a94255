"""One command: its time, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.ports.clock import Clock

FIRST_CONTACT_SECONDS: Final = 8.0
"""How long a cluster has to say who it is. A dead one is reported in this time, not after the whole deadline."""


def _tell_nobody(_topics: Sequence[str]) -> None:
    """For callers that have nobody to tell."""


def _not_known(_holder: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """One command while it runs: its time, and whether it may change anything.

    `announce` hears the matched topics once they are decided, before anything changes. `holder`: who we are to others
    that want to change the same mirror. `is_process_dead`: whether such a holder is certainly dead.
    """

    clock: Clock
    by: Deadline
    dry_run: bool = False
    announce: Callable[[Sequence[str]], None] = _tell_nobody
    holder: str = field(default_factory=lambda: f"command {uuid4().hex[:12]}")
    is_process_dead: Callable[[str], bool] = _not_known

    def first_contact(self) -> Deadline:
        """The deadline of a first call: the command's own, but no later than a dead cluster should be reported."""
        return Deadline(min(self.by.at, self.clock.deadline(FIRST_CONTACT_SECONDS).at))
