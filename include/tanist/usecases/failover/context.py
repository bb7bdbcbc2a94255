"""How long a failover waits for what it cannot hurry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. `proof`: the ends of a fenced source must stay put so long (a producer's metadata refresh; 0: no proof).

    `drain`: a planned one that takes longer is undone. `budget`: an unplanned one goes on with what it has then.
    """

    proof: float = 10.0
    drain: float = 300.0
    budget: float = 15.0


UNDO_SECONDS: Final = 60.0
"""A fresh deadline for undoing, so that it is never cut short by what went wrong before."""
