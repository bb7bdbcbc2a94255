"""What becomes of a partition whose source topic was deleted, or whose source deleted records before they were copied.

A record is written by a worker and folded into the view that the next round begins with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.deletion import DELETED_AFTER_LOOKS, DELETED_AFTER_SECONDS, Absence, deleted
from tanist.domain.errors import ForeignWrite, RecordTooLarge, SourceTopicRecreated, TanistError, Unreachable
from tanist.domain.losses import OnLoss, UncopiedRecordsDeleted
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.state_view import StateView, fold
from tanist.domain.states import DesiredState, Finding, MirrorState
from tanist.fetcher.assignment import NO_NEWS, Report
from tanist.fetcher.planning import TELL_AFTER_SECONDS, Moment, Owned, next_observed
from tests.builders import a_mirror, a_partition, a_topic

if TYPE_CHECKING:
    from tanist.domain.records import PartitionObserved

M, AT, S = MirrorName("m"), MirrorPartition("orders", 0), MirrorState
SPEC = a_mirror(M)
TOPIC = a_topic(AT.topic, mirror=M, source_topic_id="a", promotion_epoch=3)
DELETED = Report(finding=Finding.DELETED, error=deleted("orders", M, 3))
ALIGNED = Report(finding=Finding.ALIGNED)


def broken(why: TanistError) -> Report:
    return Report(finding=Finding.BROKEN, error=why)


class Worker:
    """One partition, from round to round."""

    def __init__(self) -> None:
        self.spec, self.topic = SPEC, TOPIC
        self.view = StateView()
        self._now = 0.0

    def rounds(self, report: Report, count: int = 4) -> tuple[MirrorState, str | None]:
        """State and error after some rounds with the same report; it must have come to rest."""
        new: PartitionObserved | None = None
        for _ in range(count):
            self._now += TELL_AFTER_SECONDS + 1
            held = self.view.observed(M, AT)
            mine = Owned(self.spec, self.topic, AT, 7)
            new = next_observed(mine, held, report, 5, Moment(EpochMs(1), self._now))
            if new is not None:
                self.view = fold(self.view, [new])
                assert self.view.observed(M, AT) == new, "it would be written again in each round"
        assert new is None, "it never rests"
        held = self.view.observed(M, AT)
        assert held is not None
        return held.state, held.error


@pytest.mark.parametrize("desired", [DesiredState.MIRRORING, DesiredState.PAUSED])
def test_a_deleted_source_topic_stops_its_partitions_for_good(desired: DesiredState) -> None:
    worker = Worker()
    worker.rounds(ALIGNED)
    worker.topic = replace(TOPIC, desired=desired)
    assert worker.rounds(DELETED) == (S.STOPPED, "SOURCE_TOPIC_DELETED")
    for silent in (NO_NEWS, ALIGNED, SILENT):
        assert worker.rounds(silent) == (S.STOPPED, "SOURCE_TOPIC_DELETED")


def test_a_topic_that_was_deleted_and_created_again_fails_until_it_was_removed_and_added() -> None:
    worker = Worker()
    worker.rounds(DELETED)
    again = broken(SourceTopicRecreated("another id"))
    assert worker.rounds(again) == (S.FAILED, "SOURCE_TOPIC_RECREATED")
    worker.topic = replace(TOPIC, source_topic_id="b", promotion_epoch=4)
    assert worker.rounds(ALIGNED) == (S.FAILED, "SOURCE_TOPIC_RECREATED"), "only a removal leads out"


def test_a_topic_that_is_added_again_after_its_deletion_is_copied() -> None:
    worker = Worker()
    worker.rounds(DELETED)
    worker.topic = replace(TOPIC, desired=DesiredState.REMOVED)
    assert worker.rounds(DELETED)[0] is S.STOPPED
    worker.topic = replace(TOPIC, source_topic_id="b", promotion_epoch=4)
    assert worker.rounds(ALIGNED) == (S.MIRRORING, None)


def test_nothing_is_written_about_a_topic_that_has_left_the_mirror_whatever_becomes_of_its_source() -> None:
    """In each round a record was written that every reader ignored."""
    held = a_partition(S.STOPPED, mirror=M, partition=AT, row=302, promotion_epoch=4)
    mine = Owned(SPEC, replace(TOPIC, desired=DesiredState.REMOVED), AT, 7)
    for report in (DELETED, broken(SourceTopicRecreated("another id")), ALIGNED):
        assert next_observed(mine, held, report, 5, Moment(EpochMs(1), 99.0)) is None


TOO_LARGE = RecordTooLarge("offset 5 at 5")
SILENT = Report(error=Unreachable("away"), failing_since=0.0)
FOREIGN = ForeignWrite("offsets 5 to 5 were written by producer id 9")


def test_a_failed_partition_continues_when_a_person_resumes_it_and_both_logs_agree() -> None:
    worker = Worker()
    worker.rounds(ALIGNED)
    assert worker.rounds(broken(TOO_LARGE)) == (S.FAILED, "RECORD_TOO_LARGE")
    assert worker.rounds(NO_NEWS) == (S.FAILED, "RECORD_TOO_LARGE")
    worker.topic = replace(TOPIC, resumes=1)
    assert worker.rounds(NO_NEWS) == (S.PREPARING, "RECORD_TOO_LARGE"), "nothing is compared yet"
    assert worker.rounds(ALIGNED) == (S.MIRRORING, None)


def test_a_request_to_resume_works_once_and_not_for_a_later_failure() -> None:
    worker = Worker()
    worker.rounds(broken(FOREIGN))
    worker.topic = replace(TOPIC, resumes=1)
    worker.rounds(NO_NEWS)
    assert worker.rounds(broken(FOREIGN)) == (S.FAILED, "FOREIGN_WRITE"), "it is still there"
    assert worker.rounds(NO_NEWS) == (S.FAILED, "FOREIGN_WRITE")
    worker.topic = replace(TOPIC, resumes=2)
    assert worker.rounds(NO_NEWS)[0] is S.PREPARING


def test_a_request_that_was_made_for_another_partition_does_not_resume_one_that_fails_later() -> None:
    worker = Worker()
    worker.rounds(ALIGNED)
    worker.topic = replace(TOPIC, resumes=1)
    worker.rounds(ALIGNED)
    assert worker.rounds(broken(TOO_LARGE)) == (S.FAILED, "RECORD_TOO_LARGE")
    assert worker.rounds(NO_NEWS) == (S.FAILED, "RECORD_TOO_LARGE")


def test_a_late_report_of_the_failure_does_not_answer_a_request_to_resume() -> None:
    """The thread has not released the partition yet: it would have failed again, and the request been used."""
    worker = Worker()
    worker.rounds(broken(TOO_LARGE))
    worker.topic = replace(TOPIC, resumes=1)
    assert worker.rounds(broken(TOO_LARGE)) == (S.FAILED, "RECORD_TOO_LARGE")
    assert worker.rounds(NO_NEWS)[0] is S.PREPARING


def test_a_partition_that_was_resumed_counts_as_failed_until_both_logs_are_compared() -> None:
    """The source dies meanwhile, or somebody pauses: a failover must still be told that it is not a copy."""
    worker = Worker()
    worker.rounds(broken(FOREIGN))
    worker.topic = replace(TOPIC, resumes=1)
    worker.rounds(NO_NEWS)
    assert worker.rounds(SILENT) == (S.PREPARING, "FOREIGN_WRITE")
    worker.topic = replace(worker.topic, desired=DesiredState.PAUSED)
    assert worker.rounds(SILENT) == (S.PREPARING, "FOREIGN_WRITE")
    held = worker.view.observed(M, AT)
    assert held is not None
    assert (held.row, held.state_of_copy) == (904, S.FAILED)
    assert "producer id 9" in held.reason
    assert worker.rounds(ALIGNED)[0] is S.PAUSING


def test_a_paused_topic_with_a_failed_partition_is_resumed_by_one_request() -> None:
    worker = Worker()
    worker.rounds(broken(TOO_LARGE))
    worker.topic = replace(TOPIC, desired=DesiredState.PAUSED)
    assert worker.rounds(NO_NEWS)[0] is S.FAILED
    worker.topic = replace(TOPIC, resumes=1)
    assert worker.rounds(ALIGNED) == (S.MIRRORING, None)


def test_how_far_a_partition_was_copied_is_known_when_it_is_resumed() -> None:
    """Its ends are not written any more while it is FAILED, but a lost leader epoch is only found by them."""
    worker = Worker()
    at = replace(broken(TOO_LARGE), position=SourceOffset(8), record_until=SourceOffset(7), record_epoch=3)
    worker.rounds(at)
    worker.topic = replace(TOPIC, resumes=1)
    worker.rounds(NO_NEWS)
    assert worker.view.progress(SPEC, 7, AT) == (8, (7, 3))
    worker.rounds(broken(TOO_LARGE))
    assert worker.view.progress(SPEC, 7, AT) == (8, (7, 3)), "it has failed again before it copied anything"
    worker.topic = replace(TOPIC, resumes=2)
    worker.rounds(NO_NEWS)
    worker.rounds(ALIGNED)
    assert worker.view.progress(SPEC, 7, AT) == (None, None)


def test_a_partition_that_failed_for_lost_records_continues_as_soon_as_the_mirror_allows_it() -> None:
    worker = Worker()
    worker.spec = replace(SPEC, on_loss=OnLoss.FAIL)
    worker.rounds(ALIGNED)
    assert worker.rounds(broken(UncopiedRecordsDeleted("10 to 19"))) == (S.FAILED, "UNCOPIED_RECORDS_DELETED")
    assert worker.rounds(NO_NEWS) == (S.FAILED, "UNCOPIED_RECORDS_DELETED")
    worker.spec = replace(SPEC, on_loss=OnLoss.CONTINUE)
    assert worker.rounds(ALIGNED) == (S.MIRRORING, None)


def test_what_else_failed_does_not_continue_because_losses_are_allowed() -> None:
    worker = Worker()
    worker.rounds(ALIGNED)
    failed = worker.rounds(broken(SourceTopicRecreated("another id")))
    assert (worker.spec.on_loss, worker.rounds(ALIGNED)) == (OnLoss.CONTINUE, failed)


def test_a_topic_counts_as_deleted_only_after_several_looks_and_some_seconds() -> None:
    seen = Absence(100.0)
    for _ in range(DELETED_AFTER_LOOKS - 2):
        seen = seen.again()
    later = 100.0 + DELETED_AFTER_SECONDS
    assert not seen.is_deleted(later), "too few looks"
    assert not seen.again().is_deleted(later - 0.1), "too soon"
    assert seen.again().is_deleted(later)


def test_the_last_mirrored_epoch_is_stored_while_a_partition_is_copied() -> None:
    """It was stored with the next transition only, mostly at a failover, and by then another worker did not know it."""
    worker = Worker()
    worker.rounds(ALIGNED)
    for epoch in (0, 4):
        worker.rounds(Report(finding=Finding.ALIGNED, last_mirrored_epoch=epoch))
        worker.rounds(ALIGNED)  # of a worker that has copied nothing yet
        held = worker.view.observed(M, AT)
        assert held is not None
        assert (held.state, held.last_mirrored_epoch) == (S.MIRRORING, epoch)
