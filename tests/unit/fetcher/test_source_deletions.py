"""When a worker believes that a topic of the source was deleted: never by one broker, or by one moment."""

from __future__ import annotations

import pytest

from tanist.domain.deletion import DELETED_AFTER_LOOKS, DELETED_AFTER_SECONDS
from tanist.fetcher.sources import DELETIONS_EVERY_SECONDS, Absent, SourceDeletions
from tests.fakes.clock import JumpingClock

GONE = frozenset({"orders"})
NONE = frozenset[str]()
ALL_SAY_SO = Absent(GONE, GONE, GONE)
ONE_IS_SILENT = Absent(GONE, GONE, None)
ONE_HAS_IT = Absent(GONE, GONE, NONE)
IT_IS_THERE = Absent(NONE)
NOT_ASKED_OF_ALL = Absent(GONE)


class Looking:
    """Looks so many seconds apart."""

    def __init__(self, apart: float = DELETED_AFTER_SECONDS) -> None:
        self.clock, self.apart = JumpingClock(), apart
        self.deletions = SourceDeletions(self.clock)

    def takes(self, *answers: Absent) -> int:
        """After these looks, how many have shown that the topic was deleted."""
        for each in answers:
            self.clock.jump(self.apart)
            self.deletions.take(each, self.clock.monotonic())
        return self.deletions.looks("orders")


def test_all_brokers_have_to_say_so_again_and_again() -> None:
    looking = Looking()
    assert looking.takes(*[ALL_SAY_SO] * (DELETED_AFTER_LOOKS - 1)) == 0
    assert looking.takes(ALL_SAY_SO) == DELETED_AFTER_LOOKS


def test_a_short_time_is_not_enough_however_often_they_say_so() -> None:
    assert Looking(apart=0.1).takes(*[ALL_SAY_SO] * 10) == 0


@pytest.mark.parametrize("answer", [ONE_HAS_IT, IT_IS_THERE])
def test_one_broker_that_has_it_begins_the_count_anew(answer: Absent) -> None:
    looking = Looking()
    assert looking.takes(ALL_SAY_SO, ALL_SAY_SO, answer, ALL_SAY_SO, ALL_SAY_SO) == 0
    assert looking.takes(ALL_SAY_SO) == DELETED_AFTER_LOOKS


@pytest.mark.parametrize("answer", [ONE_IS_SILENT, NOT_ASKED_OF_ALL])
def test_a_look_in_which_not_all_have_answered_neither_counts_nor_begins_anew(answer: Absent) -> None:
    looking = Looking()
    assert looking.takes(ALL_SAY_SO, ALL_SAY_SO, answer) == 0
    assert looking.takes(ALL_SAY_SO) == DELETED_AFTER_LOOKS


def test_a_deleted_topic_that_is_there_again_was_not_deleted() -> None:
    looking = Looking()
    assert looking.takes(*[ALL_SAY_SO] * DELETED_AFTER_LOOKS) == DELETED_AFTER_LOOKS
    assert looking.takes(NOT_ASKED_OF_ALL) == DELETED_AFTER_LOOKS, "one broker says the same, and all were asked before"
    assert looking.takes(IT_IS_THERE) == 0


def test_what_was_seen_of_another_topic_of_the_name_is_forgotten() -> None:
    looking = Looking()
    looking.takes(ALL_SAY_SO, ALL_SAY_SO)
    looking.deletions.forget(GONE)
    assert looking.takes(ALL_SAY_SO, ALL_SAY_SO) == 0
    assert looking.takes(ALL_SAY_SO) == DELETED_AFTER_LOOKS
    looking.deletions.forget(GONE)
    assert looking.deletions.looks("orders") == 0


def test_all_brokers_are_asked_from_time_to_time_and_of_what_is_known_to_be_deleted_no_more() -> None:
    looking = Looking()
    assert looking.deletions.settled() == NONE
    looking.takes(ALL_SAY_SO)
    assert looking.deletions.settled() is None
    looking.clock.jump(DELETIONS_EVERY_SECONDS)
    assert looking.deletions.settled() == NONE
    looking.takes(ALL_SAY_SO, ALL_SAY_SO)
    looking.clock.jump(DELETIONS_EVERY_SECONDS)
    assert looking.deletions.settled() == GONE
