"""Validation of compacted topics: what two cleaners have left proves nothing but that which both logs still have."""

from __future__ import annotations

from tanist.domain.names import TopicPartition
from tanist.domain.validation.job import PartitionRequest
from tanist.domain.validation.result import (
    Comparison,
    Difference,
    DifferenceKind,
    LogSummary,
    ValidatedPartition,
    ValidationVerdict,
)

EMPTY = LogSummary()
AT = PartitionRequest(partition=TopicPartition("t", 0), compacted=True)


def difference(kind: DifferenceKind) -> Difference:
    return Difference(kind=kind, source=1, destination=1, offsets=1, records=(1, 1))


def validated(unequal: int, counts: dict[DifferenceKind, int]) -> ValidatedPartition:
    raw = Comparison(
        source=EMPTY,
        destination=EMPTY,
        unequal=unequal,
        counts=counts,
        differences=tuple(map(difference, counts)),
    )
    return ValidatedPartition(request=AT, compared=raw.of_cleaned_logs())


def test_records_that_only_one_log_has_are_no_difference_and_no_equality() -> None:
    found = validated(2, {DifferenceKind.REPEATED: 40, DifferenceKind.MISSING: 2, DifferenceKind.MOVED: 1})
    assert found.verdict is ValidationVerdict.UNKNOWN
    assert found.certain_differences == ()
    assert found.reason.startswith("43 records are in one log only")
    assert found.differences == ()


def test_a_record_that_both_have_and_that_differs_is_a_difference_among_the_others() -> None:
    found = validated(3, {DifferenceKind.REPEATED: 40, DifferenceKind.CHANGED: 1})
    assert found.verdict is ValidationVerdict.DIFFERENT
    assert found.certain_differences == ("1 changed",)
    assert [each.kind for each in found.differences] == [DifferenceKind.CHANGED]


def test_what_is_unequal_without_a_name_is_not_called_equal() -> None:
    assert validated(1, {}).verdict is ValidationVerdict.UNKNOWN


def test_logs_that_do_not_differ_are_equal() -> None:
    assert validated(0, {}).verdict is ValidationVerdict.EQUAL
