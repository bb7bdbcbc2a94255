"""Checks with a verdict each, and what they add up to. Unknown is never green."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(StrEnum):
    PASS, FAIL, UNKNOWN = "PASS", "FAIL", "UNKNOWN"


class Mode(StrEnum):
    PLANNED, UNPLANNED = "planned", "unplanned"


class Readiness(StrEnum):
    GO, NO_GO, UNKNOWN = "GO", "NO-GO", "UNKNOWN"


BOTH = frozenset(Mode)
PLANNED_ONLY = frozenset({Mode.PLANNED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question, what was seen, and how old that is (ms; None: as old as this answer)."""

    name: str
    verdict: Verdict
    observed: str = ""
    limit: str = ""
    age_ms: int | None = None
    reason: str = ""
    counts_for: frozenset[Mode] = BOTH


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """FAIL before UNKNOWN before PASS; without any verdict UNKNOWN."""
    found = set(verdicts)
    for verdict in (Verdict.FAIL, Verdict.UNKNOWN):
        if verdict in found:
            return verdict
    return Verdict.PASS if found else Verdict.UNKNOWN


def readiness(checks: Iterable[Check], mode: Mode) -> Readiness:
    """Whether a failover of this kind could start now, as far as `checks` see."""
    match worst(check.verdict for check in checks if mode in check.counts_for):
        case Verdict.PASS:
            return Readiness.GO
        case Verdict.FAIL:
            return Readiness.NO_GO
        case Verdict.UNKNOWN:
            return Readiness.UNKNOWN
