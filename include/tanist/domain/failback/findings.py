"""Findings about an old source that no rescue mends, and whether somebody has accepted them.

An offset that names a record on each cluster misleads every sink that stores offsets, and a record that retention has
deleted before anybody copied it is lost. So `tanist status` is not green before they are accepted by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Verdict, named
from tanist.domain.tails import TailVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.names import MirrorName
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import PartitionTail, TopicTails

FINDINGS: Final = (TailVerdict.OVERLAP, TailVerdict.DIVERGED, TailVerdict.EXPIRED)
"""What somebody has to accept."""


@dataclass(frozen=True, slots=True, order=True)
class TailFinding:
    """What a survey has found of a topic, after a promotion. `offsets`: how many it is about, of all partitions.

    `accepted_by`: empty while nobody has accepted so many.
    """

    topic: str
    promotion_epoch: int
    finding: TailVerdict
    offsets: int
    accepted_by: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.topic}: {self.finding} ({self.offsets} offsets)"


def findings_of(view: StateView, mirror: MirrorName) -> tuple[TailFinding, ...]:
    """Of all promotions whose tails are on record, also of those that have returned since."""
    entries = {(each.topic, each.promotion_epoch): each for each in view.lineage(mirror)}
    accepted = {
        (each.topic, each.promotion_epoch, finding): (amount, each)
        for each in view.findings_accepted(mirror)
        for finding, amount in zip(each.findings, each.amounts, strict=False)
    }
    found = []
    for tails in view.tails(mirror):
        entry = entries.get((tails.topic, tails.promotion_epoch))
        for finding, offsets in _amounts(tails, entry):
            amount, by = accepted.get((tails.topic, tails.promotion_epoch, finding), (0, None))
            known = by if by is not None and offsets <= amount else None
            who, why = (known.accepted_by, known.reason) if known else ("", "")
            found.append(TailFinding(tails.topic, tails.promotion_epoch, finding, offsets, who, why))
    return tuple(sorted(found))


def _amounts(tails: TopicTails, entry: TopicLineage | None) -> Iterator[tuple[TailVerdict, int]]:
    for finding in (TailVerdict.OVERLAP, TailVerdict.DIVERGED):
        about = [each for each in tails.tails if each.verdict is finding]
        if about:
            yield finding, sum(_reused(each, entry) for each in about)
    if expired := sum(each.expired for each in tails.tails):
        yield TailVerdict.EXPIRED, expired


def _reused(tail: PartitionTail, entry: TopicLineage | None) -> int:
    """Offsets that name a record on each cluster; all of the tail's, if the lineage is not on record."""
    if entry is None or tail.partition >= len(entry.old_ends):
        return tail.end - tail.common_end
    old_end, reserve_end = entry.old_ends[tail.partition], entry.reserve_ends[tail.partition]
    return max(0, min(tail.end, old_end) - tail.common_end) + max(0, tail.end - reserve_end)


def findings_check(found: Iterable[TailFinding]) -> Check:
    """Whether all of them are accepted."""
    every = list(found)
    left = [each for each in every if not each.accepted_by]
    return Check(
        name="tail_findings",
        verdict=Verdict.FAIL if left else Verdict.PASS,
        observed=f"{len(left)} of {len(every)} finding(s) about old sources not accepted",
        limit="none",
        age_ms=0,
        reason=named(left) + ("; next: `tanist failback accept`" if left else ""),
    )
