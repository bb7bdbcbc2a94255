"""Where the records of a mirror are in its copy now, by what is published and by the mirror's own positions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.anchors import anchored
from tanist.domain.broker_errors import GroupAuthorizationFailed
from tanist.domain.detached_record import TopicDetached
from tanist.domain.fake_group import group_of
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import LOST, OffsetMap, OffsetRange
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, PromotionEpoch
from tanist.domain.state_record import Tombstone
from tanist.domain.translation import Conservative, Exact
from tanist.domain.translators.by_map import translate
from tanist.ports.positions import CommittedPosition
from tanist.usecases.offset_policy import offset_policy
from tests.builders import AT, DR, a_mirror
from tests.fakes.state import WORKER, MemoryStateStore
from tests.unit.usecases.mapped import RUNS, SPEC, MappedMirror

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import CommittedOf

EVERY: Final = range(45)
WHOLE: Final = Span(DestinationOffset(0), DestinationOffset(36))
RIGHT: Final = dict(enumerate(OffsetMap.of(RUNS, SourceOffset(30)).locate(SourceOffset(n)) for n in EVERY))
"""Where the next record is behind each source offset."""


def places(found: OffsetMap) -> list[int]:
    return [found.locate(SourceOffset(n)) for n in EVERY]


@pytest.mark.parametrize("published", range(5))
def test_the_map_is_the_same_wherever_its_ranges_are(published: int) -> None:
    mirror = MappedMirror()
    mirror.copy(published=published)
    found = mirror.map_now()
    assert (found.runs, found.until, found.unread) == (RUNS, 30, "")
    assert [found.locate(SourceOffset(n)) for n in (0, 9, 10, 19, 20, 29, 30, 44)] == [0, 9, 11, 20, 23, 32, 34, 34]
    assert found.origin(DestinationOffset(36)) == 30


def test_ranges_that_leave_the_position_while_it_is_read_are_read_where_they_went() -> None:
    """The view of `__mirror_offsets` that the caller has is from before they were published."""
    mirror = MappedMirror()
    mirror.copy()
    before = mirror.west.view(OFFSETS_TOPIC)
    mirror.copy(published=3)
    policy = offset_policy(SPEC, mirror.destination(), mirror.state(), before, mirror.west.clock.deadline(10))
    assert policy.map_of(AT).runs == RUNS


def test_an_open_transaction_has_not_moved_the_position_yet() -> None:
    mirror = MappedMirror()
    mirror.copy(RUNS[:3])
    epoch = mirror.groups.init("tanist-dr-m-7")
    new = CommittedPosition(30, mirror.proof(RUNS[3], RUNS).metadata)
    mirror.groups.send("tanist-dr-m-7", epoch, group_of(DR), {AT: new})
    assert mirror.map_now().until == 20
    mirror.groups.end("tanist-dr-m-7", epoch, commit=True)
    assert mirror.map_now().until == 30


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        pytest.param("a consumer's", "POSITION_NOT_OURS", id="somebody else's"),
        pytest.param("tanist m-1 id-of-orders 34 1 A*", "UNREADABLE_RANGES", id="damaged"),
        pytest.param(None, "has no position", id="missing"),
    ],
)
def test_without_a_position_of_ours_what_was_published_is_all_that_is_known(metadata: str | None, why: str) -> None:
    mirror = MappedMirror()
    mirror.copy(published=3)
    if metadata is None:
        mirror.groups.groups.clear()
    else:
        mirror.commit(30, metadata)
    found = mirror.map_now()
    assert (found.runs, found.until) == (RUNS[:3], 20)
    assert why in found.unread
    assert found.locate(SourceOffset(44)) == 23


@pytest.mark.parametrize(
    "others", [{"mirror_id": "m-0"}, {"source_topic_id": "id-of-an-earlier-one"}], ids=["mirror", "topic"]
)
def test_the_position_of_another_mirror_or_topic_of_that_name_is_not_used(others: Mapping[str, str]) -> None:
    mirror = MappedMirror()
    mirror.copy()
    mirror.commit(30, mirror.proof(RUNS[3], RUNS, **others).metadata)
    found = mirror.map_now()
    assert (found.runs, found.until) == ((), 0)
    assert "POSITION_NOT_OURS" in found.unread


def test_a_group_that_may_not_be_described_leaves_what_was_published() -> None:
    class Refused:
        def committed(
            self, groups: list[str], _by: Deadline, *, stable: bool
        ) -> Mapping[str, CommittedOf | TanistError]:
            assert not stable
            return {group: GroupAuthorizationFailed("DESCRIBE on group") for group in groups}

    mirror = MappedMirror()
    mirror.copy(published=2)
    there = replace(mirror.destination(), positions=lambda _: Refused())  # type: ignore[arg-type, return-value]
    stored = mirror.west.view(OFFSETS_TOPIC)
    found = offset_policy(SPEC, there, mirror.state(), stored, mirror.west.clock.deadline(10)).map_of(AT)
    assert (found.until, "DESCRIBE on group" in found.unread) == (10, True)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_ranges_that_were_lost_with_the_state_topics_are_missed(left: int) -> None:
    """Restored from an older export they lack what was published since: a position in between would be a guess."""
    mirror = MappedMirror()
    mirror.publish(RUNS[:left])
    mirror.copy()
    mirror.commit(30, mirror.proof(RUNS[3], RUNS[2:]).metadata)
    must_lack(mirror.map_now(), left)
    mirror.publish(RUNS[max(0, left - 1) : 3])
    assert (mirror.map_now().runs, mirror.map_now().unwalked) == (RUNS, ())


@pytest.mark.parametrize("left", [0, 1, 2])
def test_ranges_that_were_lost_before_a_later_piece_are_missed_too(left: int) -> None:
    """What has ridden with the position is published later: nothing that rides on shows the hole then."""
    mirror = MappedMirror()
    mirror.publish(RUNS[:left])
    mirror.copy()
    mirror.publish(RUNS[2:])
    mirror.commit(30, mirror.proof(RUNS[3], RUNS[3:]).metadata)
    must_lack(mirror.map_now(), left)


def must_lack(found: OffsetMap, left: int) -> None:
    """Ranges between the first ones and the third."""
    known = RUNS[left - 1].source if left else -1
    answers = {position: translate(SourceOffset(position), found, WHOLE) for position in EVERY[:31]}
    assert {position for position, each in answers.items() if isinstance(each, Conservative)} == {*range(known + 1, 20)}
    assert all(each.offset <= RIGHT[position] for position, each in answers.items() if isinstance(each, Conservative))
    assert all(each.offset == RIGHT[position] for position, each in answers.items() if isinstance(each, Exact))
    assert (found.until, found.unread) == (30, "")
    (span,) = found.unwalked
    assert span.is_lost
    assert LOST in str(answers[19])
    assert found.origin(DestinationOffset(25)) == 22
    assert found.origin(DestinationOffset(22)) == max(0, known), "what is certainly copied before it"


def test_an_aborted_attempt_behind_what_was_published_is_no_gap() -> None:
    """The next record lies behind what it has left: the range that rides on begins there now, at the same source."""
    mirror = MappedMirror()
    mirror.copy(published=3)
    moved = OffsetRange(SourceOffset(20), DestinationOffset(24))
    mirror.commit(30, mirror.proof(OffsetRange(SourceOffset(30), DestinationOffset(35)), (moved,)).metadata)
    found = mirror.map_now()
    assert (found.until, found.unread) == (30, "")
    assert [found.locate(SourceOffset(n)) for n in (10, 19, 20, 29)] == [11, 20, 24, 33]


@pytest.mark.parametrize("known", [True, False])
def test_between_anchors_and_the_position_no_range_may_be_missing_either(known: bool) -> None:
    mirror = MappedMirror()
    mirror.copy()
    mirror.west.write(OFFSETS_TOPIC, anchored(DR, SPEC.mirror_id, AT, RUNS[:3], (RUNS[0], RUNS[2])))
    mirror.commit(30, mirror.proof(RUNS[3], RUNS[2:] if known else RUNS[3:]).metadata)
    found = mirror.map_now()
    spans = [(RUNS[0], RUNS[2], False), *([] if known else [(RUNS[2], RUNS[3], True)])]
    assert [(span.start, span.until, span.is_lost) for span in found.unwalked] == spans
    assert (found.until, found.unread) == (30, "")


def test_what_a_failover_has_published_outlives_the_positions() -> None:
    """Nobody commits them again after it, so they expire."""
    mirror = MappedMirror()
    mirror.copy(published=4)
    mirror.groups.groups.clear()
    mirror.west.write(STATE_TOPIC, PromotionEpoch(mirror=DR, topic=AT.topic, count=1))
    found = mirror.map_now()
    assert (found.runs, found.until, found.unread) == (RUNS, 30, "")


def test_a_detached_topic_keeps_its_map() -> None:
    mirror = MappedMirror()
    mirror.copy()
    kept = mirror.state().topic(DR, AT.topic)
    assert kept is not None
    gone = TopicDetached(
        mirror=DR, topic=AT.topic, cluster_id="id-west", kept=kept, at=kept.changed_at, mirror_id=SPEC.mirror_id
    )
    store = MemoryStateStore(mirror.west, STATE_TOPIC, WORKER)
    store.append([Tombstone(kept.key), gone], mirror.west.clock.deadline(1))
    assert mirror.state().topic(DR, AT.topic) is None
    assert mirror.map_now().until == 30


def test_identical_offsets_ask_no_group() -> None:
    mirror, spec = MappedMirror(), a_mirror()
    there = replace(mirror.destination(), positions=None)  # type: ignore[arg-type]
    stored = mirror.west.view(OFFSETS_TOPIC)
    policy = offset_policy(spec, there, mirror.state(), stored, mirror.west.clock.deadline(10))
    assert places(policy.map_of(AT)) == list(EVERY)
