"""A kind of limitation: what it means, in which plans it is, what it does there, and which checks fail by it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import Final


class Effect(Flag):
    """What a limitation does to a plan. Two of them: it depends on the facts, or on the clusters for the moment."""

    ABSENT = 0
    USUAL = auto()
    """It leaves the verdict GO."""
    ACCEPT = auto()
    """An approver accepts it by name."""
    BLOCKS = auto()
    """Nobody can accept it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitationKind:
    """One row. `planned`, `unplanned`, `reversal`: what it does in a plan of that kind.

    `checks`: of `tanist status`, which do not pass while it is there and is not usual; empty: no status has it, or it
    is always usual. `unknown`: these checks are UNKNOWN then, and do not FAIL.
    """

    name: str
    means: str
    next_step: str
    checks: tuple[str, ...] = ()
    planned: Effect = Effect.ABSENT
    unplanned: Effect = Effect.ABSENT
    reversal: Effect = Effect.ABSENT
    unknown: bool = False


USUAL, ACCEPT, BLOCKS = Effect.USUAL, Effect.ACCEPT, Effect.BLOCKS
PLAN_AGAIN: Final = "`tanist failover plan` again"
