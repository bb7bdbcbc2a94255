"""What became of the reserves of past failovers: up to where an offset may name two records, and what that costs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tanist.domain.checks import Check, Verdict, named
from tanist.domain.failover.reserve import COMPLETE, UNKNOWN, covers
from tanist.domain.filled import exactly
from tanist.domain.names import MirrorPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.records import CopiedUpTo


def stored_gaps(copied: CopiedUpTo, destination: str) -> dict[str, str]:
    """The partitions of a run past its point of no return whose reserve fell short, with the reason and the cost."""
    return {
        str(MirrorPartition(copied.topic, n)): _gap(copied, n, most, destination)
        for n, most in enumerate(copied.unreserved_to)
        if most
    }


def stored_estimates(copied: CopiedUpTo, destination: str) -> dict[str, str]:
    """The partitions of such a run whose reserve did not fall short by the estimate, but whose end nobody saw."""
    short = stored_gaps(copied, destination)
    times = copied.covers_ms or tuple(UNKNOWN if end else COMPLETE for end in copied.reserve_to)
    found = ((str(MirrorPartition(copied.topic, n)), ms) for n, ms in enumerate(times))
    return {at: f"an estimate, {covers(ms)}" for at, ms in found if at not in short and ms != COMPLETE}


def _gap(copied: CopiedUpTo, n: int, most: int, destination: str) -> str:
    reserved = copied.reserve_to[n] if copied.reserve_to else 0
    up_to = f"the reserve ends at offset {reserved}" if reserved else "no offset is reserved"
    ms = copied.covers_ms[n] if n < len(copied.covers_ms) else UNKNOWN
    if reserved and ms >= 0:
        up_to += f" and {covers(ms)}"
    how = (
        "nobody knows how far the old source has come"
        if most < 0
        else f"the old source may have used offsets up to {most}"
    )
    place = (copied.mirror, "--destination", destination)
    returns = shlex.join(("tanist", "mirrors", "reverse", *place, "--recreate", exactly(copied.topic)))
    cost = f"if it has used more, the topic returns by `{returns}`"
    return f"{how}; {up_to}; {cost}"


def reserves_check(stored: Iterable[CopiedUpTo], destination: str) -> Check:
    """Whether offsets of failed-over topics may name two records. `stored`: of topics that have taken over."""
    held = tuple(stored)
    short = {at: why for each in held for at, why in stored_gaps(each, destination).items()}
    guessed = {at: why for each in held for at, why in stored_estimates(each, destination).items()}
    return Check(
        name="reserves",
        verdict=Verdict.UNKNOWN if short or guessed else Verdict.PASS,
        observed=f"{len(short)} partition(s) without enough reserved offsets, {len(guessed)} by an estimate",
        limit="every offset names one record, on both clusters together",
        reason=named(f"{at}: {why}" for at, why in (*short.items(), *guessed.items())),
    )
