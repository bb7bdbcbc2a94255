"""What no rescue mends stays red in `tanist status` until somebody has accepted it by name."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.checks import Verdict
from tanist.domain.failback.findings import findings_check, findings_of
from tanist.domain.lineage import TopicLineage
from tanist.domain.names import EpochMs, MirrorName
from tanist.domain.state_view import StateView
from tanist.domain.tails import FindingsAccepted, PartitionTail, TailStage, TailVerdict, TopicTails

DR = MirrorName("dr")
LINEAGE = TopicLineage(
    mirror=DR,
    topic="orders",
    promotion_epoch=1,
    old_cluster_id="e",
    new_cluster_id="w",
    old_ends=(10, 10, 10),
    reserve_ends=(15, 15, 15),
    at=EpochMs(0),
)
TAILS = TopicTails(
    mirror=DR,
    topic="orders",
    promotion_epoch=1,
    cluster_id="e",
    tails=(
        PartitionTail(partition=0, verdict=TailVerdict.OVERLAP, common_end=10, end=18, records=8),
        PartitionTail(partition=1, verdict=TailVerdict.DIVERGED, common_end=7, end=9, records=2),
        PartitionTail(partition=2, verdict=TailVerdict.EXPIRED, common_end=10, end=14, records=0, expired=4),
    ),
    stage=TailStage.DONE,
    at=EpochMs(0),
)
ALL = (TailVerdict.OVERLAP, TailVerdict.DIVERGED, TailVerdict.EXPIRED)


def accepted(*amounts: int) -> FindingsAccepted:
    return FindingsAccepted(
        mirror=DR,
        topic="orders",
        promotion_epoch=1,
        findings=ALL[: len(amounts)],
        amounts=amounts,
        accepted_by="User:ann",
        reason="known",
        at=EpochMs(1),
    )


def view(*records: TopicLineage | TopicTails | FindingsAccepted) -> StateView:
    return StateView({each.key: each for each in records})


def test_each_finding_counts_the_offsets_that_it_is_about() -> None:
    found = {each.finding: each.offsets for each in findings_of(view(LINEAGE, TAILS), DR)}
    assert found == {TailVerdict.OVERLAP: 3, TailVerdict.DIVERGED: 2, TailVerdict.EXPIRED: 4}
    check = findings_check(findings_of(view(LINEAGE, TAILS), DR))
    assert check.verdict is Verdict.FAIL
    assert "orders: TAIL_EXPIRED (4 offsets)" in check.reason
    assert "`tanist failback accept`" in check.reason


def test_status_is_green_only_once_all_is_accepted_and_not_more_was_found_since() -> None:
    def verdict(*records: TopicLineage | TopicTails | FindingsAccepted) -> Verdict:
        return findings_check(findings_of(view(*records), DR)).verdict

    assert verdict(LINEAGE, TAILS, accepted(3, 2)) is Verdict.FAIL
    assert verdict(LINEAGE, TAILS, accepted(3, 2, 4)) is Verdict.PASS
    assert verdict(LINEAGE, TAILS, accepted(3, 2, 3)) is Verdict.FAIL
    assert verdict(LINEAGE, replace(TAILS, tails=TAILS.tails[:0])) is Verdict.PASS


def test_without_its_lineage_a_whole_tail_counts() -> None:
    found = {each.finding: each.offsets for each in findings_of(view(TAILS), DR)}
    assert found[TailVerdict.OVERLAP] == 8
