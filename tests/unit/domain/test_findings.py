"""What no rescue mends stays red in `tanist status` until somebody has accepted it by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.checks import Verdict
from tanist.domain.failback.pending import (
    findings_check,
    findings_of,
    tails_check,
    tails_of,
    undecided,
    without_findings,
)
from tanist.domain.names import EpochMs
from tanist.domain.states import DesiredState
from tanist.domain.tails import FindingKind, FindingsAccepted, PartitionTail, TailStage, TailVerdict, TopicTails
from tests.builders import DR, a_lineage, a_mirror, a_topic, a_view

if TYPE_CHECKING:
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.records import MirrorSpec, TopicDesired

LINEAGE = a_lineage(10, 10, 10, at=EpochMs(0), reserve_ends=(15, 15, 15))
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
ALL = (FindingKind.OVERLAP, FindingKind.DIVERGED, FindingKind.EXPIRED)


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


def test_each_finding_counts_the_offsets_that_it_is_about() -> None:
    found = {each.finding: each.offsets for each in findings_of(a_view(LINEAGE, TAILS), DR)}
    assert found == {FindingKind.OVERLAP: 3, FindingKind.DIVERGED: 2, FindingKind.EXPIRED: 4}
    check = findings_check(findings_of(a_view(LINEAGE, TAILS), DR))
    assert check.verdict is Verdict.FAIL
    assert "orders: TAIL_EXPIRED (4 offsets)" in check.reason
    assert check.reason.endswith("next: `tanist next`"), "which has the command with each finding"


def test_status_is_green_only_once_all_is_accepted_and_not_more_was_found_since() -> None:
    def verdict(*records: TopicLineage | TopicTails | FindingsAccepted) -> Verdict:
        return findings_check(findings_of(a_view(*records), DR)).verdict

    assert verdict(LINEAGE, TAILS, accepted(3, 2)) is Verdict.FAIL
    assert verdict(LINEAGE, TAILS, accepted(3, 2, 4)) is Verdict.PASS
    assert verdict(LINEAGE, TAILS, accepted(3, 2, 3)) is Verdict.FAIL
    assert verdict(LINEAGE, replace(TAILS, tails=TAILS.tails[:0])) is Verdict.PASS


def test_without_its_lineage_a_whole_tail_counts() -> None:
    found = {each.finding: each.offsets for each in findings_of(a_view(TAILS), DR)}
    assert found[FindingKind.OVERLAP] == 8


UNDECIDED = replace(
    TAILS,
    tails=(PartitionTail(partition=0, verdict=TailVerdict.TAIL, common_end=10, end=14, records=3),),
    stage=TailStage.SURVEYED,
)


def mirror(source: str, destination: str) -> MirrorSpec:
    return a_mirror(
        source=source, destination=destination, source_cluster_id=source, destination_cluster_id=destination
    )


def topic(desired: DesiredState) -> TopicDesired:
    return a_topic(partitions=3, desired=desired)


def test_a_tail_that_was_accepted_as_undecided_at_a_reversal_is_still_counted() -> None:
    """It was in no check afterwards."""
    now = (mirror("w", "e"), topic(DesiredState.MIRRORING), LINEAGE, UNDECIDED)
    found = undecided(a_view(*now), DR)
    assert [(each.topic, each.promotion_epoch, each.offsets) for each in found] == [("orders", 1, 4)]
    check = tails_check(tails_of(a_view(*now), DR), found)
    assert check.verdict is Verdict.FAIL
    assert "1 undecided since a reversal" in check.observed
    assert check.reason.endswith("next: `tanist next`")
    known = replace(accepted(), findings=(FindingKind.UNDECIDED,), amounts=(4,))
    assert undecided(a_view(*now, known), DR) == ()
    assert findings_check(findings_of(a_view(*now, known), DR)).verdict is Verdict.PASS


def test_a_tail_stays_undecided_over_the_next_failovers() -> None:
    """The mirror has failed back, and copies from the cluster with the tail, though not from its beginning."""
    back = replace(LINEAGE, promotion_epoch=2, old_cluster_id="w", new_cluster_id="e")
    after = (mirror("w", "e"), topic(DesiredState.REMOVED), LINEAGE, back, UNDECIDED)
    assert len(undecided(a_view(*after), DR)) == 1
    first = (mirror("e", "w"), topic(DesiredState.MIRRORING), LINEAGE, back, UNDECIDED)
    assert len(undecided(a_view(*first), DR)) == 1


def test_before_a_reversal_a_tail_is_pending_and_after_its_replay_it_is_done() -> None:
    before = (mirror("e", "w"), topic(DesiredState.REMOVED), LINEAGE, UNDECIDED)
    assert undecided(a_view(*before), DR) == ()
    assert [each.stage for each in tails_of(a_view(*before), DR)] == [TailStage.SURVEYED]
    done = replace(UNDECIDED, stage=TailStage.DONE)
    assert undecided(a_view(mirror("w", "e"), topic(DesiredState.MIRRORING), LINEAGE, done), DR) == ()
    again = (mirror("e", "w"), topic(DesiredState.MIRRORING), LINEAGE, UNDECIDED)
    assert undecided(a_view(*again), DR) == (), "it is copied from its beginning again"


def test_a_tail_that_was_decided_and_copied_again_is_no_finding_any_more_but_for_what_has_expired() -> None:
    """It was one two reversals later: the old source's log had been deleted, and had the new primary's records."""
    kept = without_findings([LINEAGE, TAILS], {"orders"}, "e")
    assert {each.finding for each in findings_of(a_view(*kept), DR)} == {FindingKind.EXPIRED}
    assert without_findings([LINEAGE, TAILS], {"payments"}, "e") == [LINEAGE, TAILS]
    assert without_findings([TAILS], {"orders"}, "w") == [TAILS], "what was deleted is the log of another cluster"
    undone = replace(TAILS, stage=TailStage.RESCUED)
    assert without_findings([undone], {"orders"}, "e") == [undone]


def test_a_topic_that_was_added_again_has_no_findings_of_its_tails_before() -> None:
    """The mirror copies the whole log of the old source, and no offset names two records."""
    again = (mirror("e", "w"), topic(DesiredState.MIRRORING), LINEAGE, TAILS)
    assert {each.finding for each in findings_of(a_view(*again), DR)} == {FindingKind.EXPIRED}
    later = replace(LINEAGE, promotion_epoch=2)
    after = (mirror("e", "w"), topic(DesiredState.REMOVED), LINEAGE, later, TAILS)
    assert {each.finding for each in findings_of(a_view(*after), DR)} == {FindingKind.EXPIRED}
    back = replace(LINEAGE, promotion_epoch=2, old_cluster_id="w", new_cluster_id="e")
    circle = (mirror("e", "w"), topic(DesiredState.MIRRORING), LINEAGE, back, TAILS)
    assert len(findings_of(a_view(*circle), DR)) == 3, "its log has gone on where it was"


def test_a_topic_that_a_reversal_left_behind_unsurveyed_is_counted() -> None:
    found = undecided(a_view(mirror("w", "e"), LINEAGE), DR)
    assert [(each.topic, each.offsets) for each in found] == [("orders", 15)]
