"""Which failover somebody asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.selection import EVERYTHING, Selection

if TYPE_CHECKING:
    from tanist.domain.names import EpochMs


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRequest:
    """Which failover. `loss_tolerance`: offsets that may be lost; None: what is forecast now.

    `groups`: whose positions are translated, by regular expressions for whole names. `reserve`, `dead_since`: as in
    `Intent`; a planned failover has neither. `reserve` None: DEFAULT_RESERVE. `reverse`: as in `Intent`.
    """

    mode: Mode = Mode.PLANNED
    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    loss_tolerance: int | None = None
    groups: tuple[str, ...] = EVERYTHING
    reserve: int | None = None
    dead_since: EpochMs | None = None
    reverse: bool = False

    @property
    def topics(self) -> Selection:
        """Which topics, of those that are in the mirror."""
        return Selection(self.include, self.exclude)
