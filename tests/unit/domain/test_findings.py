"""What no rescue mends stays red in `tanist status` until somebody has accepted it by name."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.checks import Verdict
from tanist.domain.failback.pending import findings_check, findings_of, tails_check, tails_of, undecided
from tanist.domain.lineage import TopicLineage
from tanist.domain.names import EpochMs, MirrorName, ProducerId
from tanist.domain.records import MirrorSpec, TopicDesired
from tanist.domain.state_view import StateView
from tanist.domain.states import DesiredState
from tanist.domain.tails import FindingKind, FindingsAccepted, PartitionTail, TailStage, TailVerdict, TopicTails

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


def view(*records: TopicLineage | TopicTails | FindingsAccepted | TopicDesired | MirrorSpec) -> StateView:
    return StateView({each.key: each for each in records})


def test_each_finding_counts_the_offsets_that_it_is_about() -> None:
    found = {each.finding: each.offsets for each in findings_of(view(LINEAGE, TAILS), DR)}
    assert found == {FindingKind.OVERLAP: 3, FindingKind.DIVERGED: 2, FindingKind.EXPIRED: 4}
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
    assert found[FindingKind.OVERLAP] == 8


UNDECIDED = replace(
    TAILS,
    tails=(PartitionTail(partition=0, verdict=TailVerdict.TAIL, common_end=10, end=14, records=3),),
    stage=TailStage.SURVEYED,
)


def mirror(source: str, destination: str) -> MirrorSpec:
    return MirrorSpec(
        mirror=DR,
        source=source,
        destination=destination,
        source_cluster_id=source,
        destination_cluster_id=destination,
        data_id=ProducerId(1),
        marker_id=ProducerId(2),
        start_id=ProducerId(3),
        created_at=EpochMs(0),
    )


def topic(desired: DesiredState) -> TopicDesired:
    return TopicDesired(
        mirror=DR, topic="orders", source_topic_id="id", partitions=3, desired=desired, changed_at=EpochMs(0)
    )


def test_a_tail_that_was_accepted_as_undecided_at_a_reversal_is_still_counted() -> None:
    """It was in no check afterwards."""
    now = (mirror("w", "e"), topic(DesiredState.MIRRORING), LINEAGE, UNDECIDED)
    found = undecided(view(*now), DR)
    assert [(each.topic, each.promotion_epoch, each.offsets) for each in found] == [("orders", 1, 4)]
    check = tails_check(tails_of(view(*now), DR), found)
    assert check.verdict is Verdict.FAIL
    assert "1 undecided since a reversal" in check.observed
    assert "`tanist failback accept NAME --finding TAIL_UNDECIDED" in check.reason
    known = replace(accepted(), findings=(FindingKind.UNDECIDED,), amounts=(4,))
    assert undecided(view(*now, known), DR) == ()
    assert findings_check(findings_of(view(*now, known), DR)).verdict is Verdict.PASS


def test_a_tail_stays_undecided_over_the_next_failovers() -> None:
    """The mirror has failed back, and copies from the cluster with the tail, though not from its beginning."""
    back = replace(LINEAGE, promotion_epoch=2, old_cluster_id="w", new_cluster_id="e")
    after = (mirror("w", "e"), topic(DesiredState.REMOVED), LINEAGE, back, UNDECIDED)
    assert len(undecided(view(*after), DR)) == 1
    first = (mirror("e", "w"), topic(DesiredState.MIRRORING), LINEAGE, back, UNDECIDED)
    assert len(undecided(view(*first), DR)) == 1


def test_before_a_reversal_a_tail_is_pending_and_after_its_replay_it_is_done() -> None:
    before = (mirror("e", "w"), topic(DesiredState.REMOVED), LINEAGE, UNDECIDED)
    assert undecided(view(*before), DR) == ()
    assert [each.stage for each in tails_of(view(*before), DR)] == [TailStage.SURVEYED]
    done = replace(UNDECIDED, stage=TailStage.DONE)
    assert undecided(view(mirror("w", "e"), topic(DesiredState.MIRRORING), LINEAGE, done), DR) == ()
    again = (mirror("e", "w"), topic(DesiredState.MIRRORING), LINEAGE, UNDECIDED)
    assert undecided(view(*again), DR) == (), "it is copied from its beginning again"


def test_a_topic_that_a_reversal_left_behind_unsurveyed_is_counted() -> None:
    found = undecided(view(mirror("w", "e"), LINEAGE), DR)
    assert [(each.topic, each.offsets) for each in found] == [("orders", 15)]
