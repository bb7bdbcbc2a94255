"""Where a reversed mirror begins to copy, and what the old source's logs must be for that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.failback.reversal import OffsetsOverlap, ReturningTopic
from tanist.domain.moves import TopicBefore
from tanist.domain.names import MirrorPartition, mirror_name
from tanist.domain.problems import Problems
from tanist.ports.clock import Deadline
from tanist.usecases.failback.moving_state import LogChanged, copy_starts

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST, SECOND = (MirrorPartition("t", n) for n in range(2))
SURVEYED = {"t": TopicBefore(mirror=mirror_name("dr"), topic="t", topic_id="id", ends=(100, 50))}
RETURNING = ReturningTopic(topic="t", promotion_epoch=1, free_from=(120, 60))


def starts(
    ends: Mapping[MirrorPartition, int | TanistError],
    *markers: MirrorPartition,
    before: Mapping[str, TopicBefore] = SURVEYED,
) -> dict[MirrorPartition, int]:
    """`markers`: the partitions where only markers were added."""

    def only_control(spans: Mapping[MirrorPartition, tuple[int, int]], _by: Deadline) -> dict[MirrorPartition, bool]:
        assert all(begin < end for begin, end in spans.values())
        return {at: at in markers for at in spans}

    logs: Any = SimpleNamespace(true_ends=lambda _partitions, _by: ends, only_control=only_control)
    old: Any = SimpleNamespace(name="east", logs=logs)
    return copy_starts([RETURNING], before, old, Deadline(0))


def test_copying_begins_behind_markers_that_were_added_since_the_survey() -> None:
    assert starts({FIRST: 103, SECOND: 50}, FIRST) == {FIRST: 103, SECOND: 50}


def test_records_below_the_new_primarys_offsets_are_not_taken_for_history() -> None:
    with pytest.raises(LogChanged, match=r"t-0: producers have written to offsets 100 to 102 at 'east'"):
        starts({FIRST: 103, SECOND: 51}, SECOND)


def test_a_log_that_is_shorter_than_it_was_surveyed_is_not_continued() -> None:
    with pytest.raises(LogChanged, match=r"t-1 ends at 49 at 'east', and ended at 50 when it was surveyed"):
        starts({FIRST: 100, SECOND: 49})


def test_markers_may_not_reach_into_the_new_primarys_offsets() -> None:
    with pytest.raises(OffsetsOverlap, match="t-1 ends at 61") as refused:
        starts({FIRST: 100, SECOND: 61}, SECOND)
    assert refused.value.topic == "t", "so that the command that it advises names it"


def test_everything_that_has_changed_is_named_at_once() -> None:
    with pytest.raises(Problems) as found:
        starts({FIRST: 101, SECOND: 61})
    assert sorted(type(each).__name__ for each in found.value.problems) == [
        "LogChanged",
        "LogChanged",
        "OffsetsOverlap",
    ]


def test_a_log_that_cannot_be_read_does_not_begin_anywhere() -> None:
    with pytest.raises(CouldNotTell):
        starts({FIRST: 100, SECOND: CouldNotTell("no leader")})


def test_a_topic_whose_ends_nobody_has_stored_is_not_continued() -> None:
    with pytest.raises(LogChanged, match="t-0: producers have written to offsets 0 to 99"):
        starts({FIRST: 100, SECOND: 0}, before={})
