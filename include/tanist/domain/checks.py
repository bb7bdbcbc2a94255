"""Checks with their verdicts, and the verdict on a failover. Unknown never counts as good."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(StrEnum):
    PASS, FAIL, UNKNOWN = "PASS", "FAIL", "UNKNOWN"


class Mode(StrEnum):
    PLANNED, UNPLANNED = "planned", "unplanned"


class Readiness(StrEnum):
    """Can I fail over? ACCEPT: yes, if an approver accepts limitations beyond the usual ones by name."""

    GO, ACCEPT, NO_GO, UNKNOWN = "GO", "ACCEPT", "NO-GO", "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: what was observed, and its age (ms; None: observed for this answer)."""

    name: str
    verdict: Verdict
    observed: str = ""
    limit: str = ""
    age_ms: int | None = None
    reason: str = ""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """FAIL before UNKNOWN before PASS; without any verdict UNKNOWN."""
    found = set(verdicts)
    for verdict in (Verdict.FAIL, Verdict.UNKNOWN):
        if verdict in found:
            return verdict
    return Verdict.PASS if found else Verdict.UNKNOWN


MOST_NAMED: Final = 5


def named(texts: Iterable[object], separator: str = "; ") -> str:
    """The first few of `texts`, and how many more there are."""
    every = [str(text) for text in texts]
    more = f"{separator}and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return separator.join(every[:MOST_NAMED]) + more
