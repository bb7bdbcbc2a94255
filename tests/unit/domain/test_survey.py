"""What is said of a partition of an old source, from where both logs end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.failback.survey import PartitionSurvey, TailCounts
from tanist.domain.names import TopicPartition
from tanist.domain.tails import TailVerdict
from tanist.usecases.failback.survey import exit_code

L, H = 100, 150


def survey(common: int | None, end: int | None, records: int | None, *reasons: str) -> PartitionSurvey:
    return PartitionSurvey(
        partition=TopicPartition("orders", 0),
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
    ("start", "end", "records", "decided", "verdict", "expired"),
    [
        (L, L, 0, False, TailVerdict.NONE, 0),
        (L, L + 4, 4, False, TailVerdict.TAIL, 0),
        (L + 1, L + 4, 3, False, TailVerdict.TAIL, 1),
        (L + 4, L + 4, 0, False, TailVerdict.EXPIRED, 4),
        (L + 4, L + 4, 0, True, TailVerdict.NONE, 0),
        (H + 5, H + 5, 0, False, TailVerdict.OVERLAP, H + 5 - L),
    ],
)
def test_offsets_that_were_deleted_before_the_survey_are_counted(
    start: int, end: int, records: int, decided: bool, verdict: TailVerdict, expired: int
) -> None:
    found = replace(survey(L, end, records), source_start=start, primary_start=0, decided=decided)
    assert (found.verdict, found.expired) == (verdict, expired)
    assert exit_code([found]) == (1 if expired else 0)
    assert ("had deleted" in str(found.warnings)) == (expired > 0)


@pytest.mark.parametrize(("old", "new", "warned"), [(0, 0, False), (L - 1, 7, False), (0, L, True), (L, 0, True)])
def test_a_survey_that_has_nothing_left_to_compare_says_so(old: int, new: int, warned: bool) -> None:
    found = replace(survey(L, L, 0), source_start=old, primary_start=new)
    assert ("no copied record is left" in str(found.warnings)) == warned
