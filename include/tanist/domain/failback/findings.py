"""Findings about an old source that no rescue mends, and whether somebody has accepted them.

An offset that names a record on each cluster misleads every sink that stores offsets, a record that retention has
deleted before anybody copied it is lost, and once the mirror is reversed no command rescues a tail any more. So
`tanist status` is not green before they are accepted by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Verdict, named
from tanist.domain.failback.pending import left_undecided
from tanist.domain.tails import FindingKind, TailFinding, TailStage, TailVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.names import MirrorName
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import PartitionTail, TopicTails

_BY_VERDICT: Final = {TailVerdict.OVERLAP: FindingKind.OVERLAP, TailVerdict.DIVERGED: FindingKind.DIVERGED}


def findings_of(view: StateView, mirror: MirrorName) -> tuple[TailFinding, ...]:
    """Of all promotions whose tails are on record, also of those that have returned since."""
    entries = {(each.topic, each.promotion_epoch): each for each in view.lineage(mirror)}
    accepted = {
        (each.topic, each.promotion_epoch, finding): (amount, each)
        for each in view.findings_accepted(mirror)
        for finding, amount in zip(each.findings, each.amounts, strict=False)
    }
    tails = {(each.topic, each.promotion_epoch): each for each in view.tails(mirror)}
    amounts = [(at, *amount) for at, each in tails.items() for amount in _amounts(each, entries.get(at))]
    for each in left_undecided(view, mirror):
        at = (each.topic, each.promotion_epoch)
        amounts.append((at, FindingKind.UNDECIDED, _undecided(tails.get(at), entries.get(at))))
    found = []
    for (topic, epoch), finding, offsets in amounts:
        amount, by = accepted.get((topic, epoch, finding), (0, None))
        known = by if by is not None and offsets <= amount else None
        who, why = (known.accepted_by, known.reason) if known else ("", "")
        found.append(TailFinding(topic, epoch, finding, offsets, who, why))
    return tuple(sorted(found))


def undecided(view: StateView, mirror: MirrorName) -> tuple[TailFinding, ...]:
    """Tails about which nobody had decided when the mirror was reversed, and which nobody has accepted since."""
    found = findings_of(view, mirror)
    return tuple(each for each in found if each.finding is FindingKind.UNDECIDED and not each.accepted_by)


def _amounts(tails: TopicTails, entry: TopicLineage | None) -> Iterator[tuple[FindingKind, int]]:
    for verdict, finding in _BY_VERDICT.items():
        about = [each for each in tails.tails if each.verdict is verdict]
        if about:
            yield finding, sum(_reused(each, entry) for each in about)
    unknown = [each for each in tails.tails if each.verdict is TailVerdict.UNKNOWN]
    if uncompared := sum(each.end - each.common_end for each in unknown):
        yield FindingKind.UNCOMPARED, uncompared
    if expired := sum(each.expired for each in tails.tails):
        yield FindingKind.EXPIRED, expired


def _undecided(tails: TopicTails | None, entry: TopicLineage | None) -> int:
    """Offsets of tails; of those that nobody has surveyed, as far as is known, what was reserved for them."""
    if tails is not None and tails.stage is not TailStage.UNKNOWN:
        return sum(each.end - each.common_end for each in tails.with_records())
    if entry is None:
        return 0
    return sum(end - start for start, end in zip(entry.old_ends, entry.reserve_ends, strict=True))


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
