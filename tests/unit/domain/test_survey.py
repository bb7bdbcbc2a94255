"""What is said of a partition of an old source, from where both logs end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.errors import Refused
from tanist.domain.failback.reversal import limitations, problems
from tanist.domain.failback.survey import PartitionSurvey, TailCounts, new_words, stage_of, tail_on_record
from tanist.domain.names import MirrorPartition
from tanist.domain.tails import PartitionTail, TailStage, TailVerdict
from tanist.usecases.failback.survey import exit_code

L, H = 100, 150
RESCUED = PartitionTail(
    partition=0, verdict=TailVerdict.TAIL, common_end=L, end=L + 4, records=4, copied_from=0, copied_to=4, digest="d"
)


def survey(common: int | None, end: int | None, records: int | None, *reasons: str) -> PartitionSurvey:
    return PartitionSurvey(
        partition=MirrorPartition("orders", 0),
        promotion_epoch=1,
        old_end=L,
        reserve_end=H,
        end=end,
        common_end=common,
        tail=None if records is None else TailCounts(records=records),
        reasons=reasons,
    )


@pytest.mark.parametrize(
    ("common", "end", "records", "verdict", "code"),
    [
        (L, L, 0, TailVerdict.NONE, 0),
        (L, L + 3, 0, TailVerdict.NONE, 0),  # markers only
        (L, L + 3, 2, TailVerdict.TAIL, 0),
        (L, H, 50, TailVerdict.TAIL, 0),
        (L, H + 1, 51, TailVerdict.OVERLAP, 1),
        (L, H + 1, None, TailVerdict.OVERLAP, 1),
        (60, 60, 0, TailVerdict.SHORTER, 0),
        (60, 61, 1, TailVerdict.DIVERGED, 1),
        (60, H + 9, 1, TailVerdict.DIVERGED, 1),
        (L, L + 3, None, TailVerdict.UNKNOWN, 3),
        (None, L, 0, TailVerdict.UNKNOWN, 3),
        (L, None, None, TailVerdict.UNKNOWN, 3),
    ],
)
def test_each_verdict(
    common: int | None, end: int | None, records: int | None, verdict: TailVerdict, code: int
) -> None:
    found = survey(common, end, records)
    assert found.verdict is verdict
    assert found.final == (verdict is not TailVerdict.UNKNOWN)
    assert exit_code([found]) == code


def test_a_source_that_may_still_get_records_has_no_final_verdict() -> None:
    found = survey(L, L, 0, "its source fence is not in force")
    assert (found.verdict, found.final) == (TailVerdict.NONE, False)
    assert exit_code([found, survey(L, H + 1, 1)]) == 3


@pytest.mark.parametrize(
    ("start", "end", "records", "known", "verdict", "expired"),
    [
        (L, L, 0, None, TailVerdict.NONE, 0),
        (L, L + 4, 4, None, TailVerdict.TAIL, 0),
        (L + 1, L + 4, 3, None, TailVerdict.TAIL, 1),
        (L + 4, L + 4, 0, None, TailVerdict.EXPIRED, 4),
        (L + 4, L + 4, 0, RESCUED, TailVerdict.NONE, 0),
        (L + 6, L + 7, 1, RESCUED, TailVerdict.TAIL, 2),  # what has come after the rescue
        (L + 3, L + 4, 1, replace(RESCUED, copied_to=-1), TailVerdict.TAIL, 3),
        (L + 4, L + 4, 0, replace(RESCUED, records=0, copied_to=-1, expired=4), TailVerdict.EXPIRED, 4),
        (H + 5, H + 5, 0, None, TailVerdict.OVERLAP, H + 5 - L),
    ],
)
def test_offsets_that_were_deleted_before_their_rescue_are_counted(
    start: int, end: int, records: int, known: PartitionTail | None, verdict: TailVerdict, expired: int
) -> None:
    found = replace(survey(L, end, records), source_start=start, primary_start=0, on_record=known)
    assert (found.verdict, found.expired) == (verdict, expired)
    assert exit_code([found]) == (1 if expired else 0)
    assert ("had deleted" in str(found.warnings)) == (expired > 0)


@pytest.mark.parametrize(
    ("end", "grown", "decided"),
    [(L + 4, None, True), (L + 3, None, True), (L + 9, 0, True), (L + 9, 1, False), (L + 9, None, False)],
)
def test_markers_behind_a_decided_tail_leave_it_decided_and_records_do_not(
    end: int, grown: int | None, decided: bool
) -> None:
    found = replace(survey(L, end, 4), on_record=RESCUED, done=True, grown=grown)
    assert found.decided is decided
    assert not replace(found, done=False).decided
    assert not replace(found, on_record=None).decided


def test_what_is_on_record_of_a_tail_is_counted_once() -> None:
    first = tail_on_record(replace(survey(L, L + 4, 4), source_start=L))
    assert (first.common_end, first.end, first.records, first.expired) == (L, L + 4, 4, 0)
    vanished = replace(survey(L, L + 4, 1), source_start=L + 3, on_record=first)
    assert tail_on_record(vanished) == first, "the rescue finds that 3 of 4 records are lost"
    assert stage_of([first], TailStage.SURVEYED) is TailStage.SURVEYED


@pytest.mark.parametrize("stage", [TailStage.RESCUED, TailStage.DONE])
def test_a_rescued_tail_that_gets_markers_stays_rescued_and_one_that_gets_records_does_not(stage: TailStage) -> None:
    grown = replace(survey(L, L + 7, 4), source_start=L, on_record=RESCUED, grown=0)
    assert tail_on_record(grown) == RESCUED
    assert stage_of([RESCUED], stage) is stage
    now = tail_on_record(replace(grown, grown=2, source_start=L + 5))
    assert (now.end, now.records, now.expired, now.copied_from, now.copied_to) == (L + 7, 6, 1, 0, -1)
    assert stage_of([now], stage) is TailStage.SURVEYED


def test_markers_beyond_the_reserve_are_an_overlap_on_record() -> None:
    found = replace(survey(L, H + 1, 4), source_start=L, on_record=RESCUED, grown=0)
    now = tail_on_record(found)
    assert (now.verdict, now.end, now.is_rescued) == (TailVerdict.OVERLAP, H + 1, True)


@pytest.mark.parametrize(("old", "new", "warned"), [(0, 0, False), (L - 1, 7, False), (0, L, True), (L, 0, True)])
def test_a_survey_that_has_nothing_left_to_compare_says_so(old: int, new: int, warned: bool) -> None:
    found = replace(survey(L, L, 0), source_start=old, primary_start=new)
    assert ("no copied record is left" in str(found.warnings)) == warned


@pytest.mark.parametrize(("old", "new", "warned"), [(7, 7, False), (3, 7, False), (9, 7, True), (9, None, False)])
def test_an_old_source_that_begins_later_than_the_new_primary_is_named(old: int, new: int | None, warned: bool) -> None:
    found = replace(survey(L, L, 0), source_start=old, primary_start=new)
    assert ("begins 2 offset(s) later" in str(found.warnings)) == warned


@pytest.mark.parametrize("found", [survey(L, H + 1, 51), survey(60, 61, 1)], ids=["overlap", "diverged"])
def test_a_log_that_cannot_be_continued_is_refused_with_its_topic(found: PartitionSurvey) -> None:
    """So that the command that the refusal advises names it."""
    assert {each.topic for each in problems([found], ("TAIL_UNDECIDED",)) if isinstance(each, Refused)} == {"orders"}


def test_a_decided_tail_that_has_grown_says_what_is_decided_and_what_is_new() -> None:
    """4 more records were "2102 records that nobody has decided about"; before and after they are on record."""
    decided = replace(RESCUED, records=2098)
    before = replace(survey(L, L + 20, 2102), on_record=decided, done=True, grown=4)
    grown = replace(decided, end=L + 20, records=2102, copied_to=-1)
    after = replace(survey(L, L + 20, 2102), on_record=grown, decided_before=2098)
    for found in (before, after):
        words = "4 new record(s) (beside 2098 that are decided)"
        assert new_words([found]) == words
        (refusal,) = problems([found], ())
        assert refusal.reason == f"orders-0 has {words} of a tail that nobody has decided about"
        (undecided,) = (each for each in limitations([found], {}, {}) if each.name == "TAIL_UNDECIDED")
        assert undecided.detail.startswith(f"nobody has decided about {words}: ")
    assert new_words([survey(L, L + 20, 7)]) == "7 record(s)"
