"""What a person reads of many problems."""

from __future__ import annotations

from tanist.domain.errors import TopicAlreadyInMirror, TopicMismatch
from tanist.domain.problems import Problems, lines


def taken(count: int) -> list[TopicAlreadyInMirror]:
    return [TopicAlreadyInMirror(f"'t-{n}' is in mirror 'm': leave t-{n}") for n in range(count)]


def test_fifteen_hundred_equal_errors_are_one_line() -> None:
    """With a count and the first names; what is different stays a line of its own."""
    other = TopicMismatch("'t-7' is in mirror 'm': leave t-7")
    first, reported = lines(Problems([*taken(1500), other]))
    assert (
        "'t-0' is in mirror 'm': leave t-0; the same for 1499 more: t-1, t-2, t-3, t-4, ... (a destination topic can"
        in first
    )
    assert reported == str(other)


def test_a_few_problems_are_a_line_each() -> None:
    assert lines(Problems(taken(4))) == tuple(str(problem) for problem in taken(4))
    assert lines(taken(1)[0]) == (str(taken(1)[0]),)


def test_problems_that_differ_in_more_than_the_name_are_not_the_same() -> None:
    """Nor are those that differ somewhere else than the others."""
    more = [TopicAlreadyInMirror(f"'t-{n}' is in mirror 'm-{n}': leave t-{n}") for n in range(9)]
    assert len(lines(Problems(more))) == 9
    elsewhere = [TopicAlreadyInMirror(f"'t-0' is in mirror 'n-{n}': leave t-0") for n in range(5)]
    assert len(lines(Problems([*taken(9), *elsewhere]))) == 2
