"""Which topics --topic and --exclude select."""

from __future__ import annotations

import pytest

from tanist.domain.errors import Misconfigured, TanistError, TopicNotInMirror
from tanist.domain.selection import EVERY_TOPIC, Selection

TOPICS = ("orders", "orders.eu", "payments")


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (EVERY_TOPIC, TOPICS),
        (Selection((".*",)), TOPICS),
        (Selection((), ("payments",)), ("orders", "orders.eu")),
        (Selection(("orders.*",), (r"orders\.eu",)), ("orders",)),
    ],
)
def test_topics_are_those_that_match_without_the_excluded_ones(selection: Selection, expected: tuple[str, ...]) -> None:
    assert selection.chosen(reversed(TOPICS), "topic") == expected


@pytest.mark.parametrize(
    "selection",
    [Selection(("refunds",)), Selection((), ("refunds",)), Selection((), (".*",))],
)
def test_an_expression_that_matches_nothing_or_leaves_nothing_is_a_typing_error(selection: Selection) -> None:
    """Each of them is named: the error of one, or several in one."""
    with pytest.raises(TanistError, match=TopicNotInMirror.name):
        selection.chosen(TOPICS, "topic of mirror 'dr'")


def test_what_is_no_expression_is_refused_before_anything_is_matched() -> None:
    with pytest.raises(Misconfigured):
        Selection((), ("(",)).chosen(TOPICS, "topic")


def test_of_no_topics_all_are_none() -> None:
    assert EVERY_TOPIC.chosen((), "topic") == ()
