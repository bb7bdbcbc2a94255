"""What is said of a partition of an old source, from where both logs end."""

from __future__ import annotations

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
