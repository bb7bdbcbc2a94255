"""Old pieces of offset maps against copies that are made record by record: whatever is thinned, and whoever dies."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain import thinning
from tanist.domain.anchors import OffsetAnchorsWritten, expanded
from tanist.domain.log_ends import Span
from tanist.domain.mapped_runs import OffsetRangesWritten
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.translation import Conservative, Exact
from tanist.domain.translators.by_map import translate
from tests.unit.domain.copied_logs import CopiedLog

if TYPE_CHECKING:
    from tanist.domain.offset_map import OffsetMap


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of small pieces, of which these tests have many."""
    monkeypatch.setattr(thinning, "WORTH_PERCENT", 10_000)


def must_be_exact(copied: CopiedLog, found: OffsetMap) -> None:
    """At every position; of records that are gone it is only said that they are."""
    assert not found.unread
    copy = Span(DestinationOffset(copied.log_start), copied.last.end)
    assert all(span.until.destination <= copied.log_start for span in found.unwalked), (
        "of what is gone nothing is known"
    )
    places = sorted(copied.at.items())
    for position in range(copied.last.position + 1):
        before, following = neighbours(copied, places, position)
        answer = translate(SourceOffset(position), found, copy)
        assert isinstance(answer, Exact | Conservative)
        if following >= copied.log_start:
            assert before < answer.offset <= max(following, copied.log_start), (position, answer)
        assert isinstance(answer, Conservative) or following >= copied.log_start, "records are gone"
        if isinstance(answer, Conservative):
            assert before < copied.log_start
            assert answer.offset == copied.log_start
    for source, at in places:
        assert found.locate(SourceOffset(source)) == at or at < copied.log_start
        if at >= copied.log_start:
            assert found.origin(DestinationOffset(at)) == source


def neighbours(copied: CopiedLog, places: list[tuple[int, int]], position: int) -> tuple[int, int]:
    """Where the last record before a position is in the copy, and the first one at or behind it."""
    i = bisect_left(places, (position,))
    before = places[i - 1][1] if i else copied.begin - 1
    return before, places[i][1] if i < len(places) else copied.last.end


def a_copy(dice: Random) -> CopiedLog:
    copied = CopiedLog(dice.choice([0, 40]), dice.choice([0, 25]), every=dice.choice([3, 6, 12]))
    copied.at_random(dice, dice.randrange(5, 60))
    return copied


def a_size(dice: Random) -> int:
    return dice.choice([100, 700, 2_000, 5_000])


@pytest.mark.parametrize("seed", range(40))
def test_every_position_is_exact_after_a_walk_whatever_was_thinned(seed: int) -> None:
    dice = Random(seed)
    copied, size = a_copy(dice), a_size(dice)
    for _ in range(3):
        copied.thinned(size)
        must_be_exact(copied, copied.detailed())
        copied.at_random(dice, dice.randrange(20))
    must_be_exact(copied, copied.detailed())


@pytest.mark.parametrize("seed", range(40))
def test_a_map_that_lacks_pieces_never_skips_a_record_and_says_where_it_does_not_know(seed: int) -> None:
    """State topics that were restored lack what was published since their export; thinning goes on over that."""
    dice = Random(seed)
    copied, size = a_copy(dice), a_size(dice)
    if dice.random() < 0.5:
        copied.thinned(size)
    lost = dice.sample(sorted(copied.stored), min(len(copied.stored), dice.randrange(1, 4)))
    for key in lost:
        del copied.stored[key]
    for _ in range(3):
        must_not_skip(copied, copied.detailed())
        copied.at_random(dice, dice.randrange(30))
        copied.thinned(size)
    must_not_skip(copied, copied.detailed())


def must_not_skip(copied: CopiedLog, found: OffsetMap) -> None:
    """Exact positions are; others lie before, and within what is lost."""
    copy, places = Span(DestinationOffset(0), copied.last.end), sorted(copied.at.items())
    for position in range(copied.last.position + 1):
        before, following = neighbours(copied, places, position)
        answer = translate(SourceOffset(position), found, copy)
        assert isinstance(answer, Exact | Conservative)
        assert answer.offset <= following, (position, answer)
        if isinstance(answer, Exact):
            assert before < answer.offset, (position, answer)
        else:
            span = found.unwalked_at(SourceOffset(position))
            assert span is not None
            assert span.is_lost
    for source, at in places:
        assert found.origin(DestinationOffset(at)) <= source


@pytest.mark.parametrize("seed", range(30))
def test_a_worker_that_dies_in_a_step_or_wakes_after_one_does_no_harm(seed: int) -> None:
    """It ends between writing and deleting, or within the deletion; another one repeats its last writes later."""
    dice = Random(seed)
    copied, size = a_copy(dice), a_size(dice)
    seen = dict(copied.stored)
    for _ in range(12):
        step = copied.next(size)
        copied.write(step)
        must_be_exact(copied, copied.detailed())
        for key in [key for key in step.deleted if dice.random() < 0.6]:
            copied.stored.pop(key, None)
        must_be_exact(copied, copied.detailed())
        late = dice.sample(sorted(seen), min(2, len(seen)))
        seen |= copied.stored
        copied.stored |= {key: seen[key] for key in late if dice.random() < 0.5}
        must_be_exact(copied, copied.detailed())
        copied.at_random(dice, dice.randrange(6))
        seen |= copied.stored
    copied.looked_until = SourceOffset(0)
    copied.thinned(size)
    must_be_exact(copied, copied.detailed())
    anchors = [each for each in copied.stored.values() if isinstance(each, OffsetAnchorsWritten)]
    ranges = [each for each in copied.stored.values() if isinstance(each, OffsetRangesWritten)]
    assert not [(r, a) for r in ranges for a in anchors if a.source <= r.source < a.until]
    assert len({each.source for each in ranges}) == len(ranges)


@pytest.mark.parametrize("seed", range(30))
def test_pieces_below_the_log_start_are_deleted_and_all_others_stay_true(seed: int) -> None:
    dice = Random(seed)
    copied, size = a_copy(dice), a_size(dice)
    copied.thinned(size)
    for _ in range(3):
        copied.log_start = dice.randrange(copied.log_start, copied.end + 1)
        must_be_exact(copied, copied.detailed())
        copied.thinned(size)
        must_be_exact(copied, copied.detailed())
        assert len([each for each in copied.stored.values() if each.first.destination < copied.log_start]) <= 2
        copied.at_random(dice, 10)


@pytest.mark.parametrize("seed", range(30))
def test_after_a_cleaner_a_position_is_conservative_with_the_reason_and_never_behind_its_record(seed: int) -> None:
    dice = Random(seed)
    copied, size = a_copy(dice), a_size(dice)
    copied.thinned(size)
    cleaned = {offset for offset in copied.log if dice.random() < 0.05}
    for offset in cleaned:
        del copied.log[offset]
    found = copied.detailed()
    copy = Span(DestinationOffset(0), copied.last.end)
    places = sorted(copied.at.items())
    for position in range(copied.last.position + 1):
        _, following = neighbours(copied, places, position)
        answer = translate(SourceOffset(position), found, copy)
        assert isinstance(answer, Exact | Conservative)
        assert answer.offset <= following
        assert found.locate(SourceOffset(position)) <= following
        if isinstance(answer, Conservative):
            span = found.unwalked_at(SourceOffset(position))
            assert span is not None
            assert answer.offset == span.start.destination
            assert "a cleaner has removed records" in answer.why
            assert any(span.start.destination <= each < span.until.destination for each in cleaned)


def test_records_of_somebody_else_are_noticed() -> None:
    copied = CopiedLog()
    for _ in range(60):
        copied.transaction([(0, 5)])
    copied.thinned(2_000)
    (span, *_) = copied.map().unwalked
    copied.log[5] = True  # where a marker was
    found = copied.expanded(span)
    assert isinstance(found, str)
    assert "somebody else was there" in found


def test_records_in_no_transaction_may_be_there_twice_so_they_are_not_counted() -> None:
    """Where the log begins within the span, a repeated record would pass for one before it."""
    copied = CopiedLog()
    for _ in range(60):
        copied.transaction([(0, 5)])
    copied.thinned(2_000)
    (span, *_) = copied.map().unwalked
    walk = copied.walk(span.start.destination, span.until.destination)
    assert not isinstance(expanded(span, walk, span.start.destination), str)
    found = expanded(span, replace(walk, plain=DestinationOffset(3)), DestinationOffset(3))
    assert isinstance(found, str)
    assert "the record at offset 3 of the copy is in no transaction" in found


def test_a_compacted_copy_keeps_all_ranges() -> None:
    copied = CopiedLog()
    for _ in range(60):
        copied.transaction([(0, 5)])
    assert not copied.next(100, thins=False).written
    assert copied.next(100).written


def test_what_is_near_the_end_stays_in_detail() -> None:
    copied = CopiedLog()
    for _ in range(200):
        copied.transaction([(0, 5)])
    copied.thinned(10_000)
    anchors = [each for each in copied.stored.values() if isinstance(each, OffsetAnchorsWritten)]
    assert anchors
    records = sum(1 for source in copied.at if source >= max(each.until for each in anchors))
    assert 10_000 <= records * 100 < 25_000


def test_many_records_of_anchors_become_one() -> None:
    copied = CopiedLog()
    for _ in range(3_000):
        copied.transaction([(0, 5)])
        if copied.end % 120 == 0:
            copied.thinned(1_000)
    copied.thinned(1_000)
    anchors = [each for each in copied.stored.values() if isinstance(each, OffsetAnchorsWritten)]
    assert sum(len(each.spans) for each in anchors) > 500
    assert len(anchors) < 40
    found = copied.detailed()
    assert all(found.locate(SourceOffset(source)) == at for source, at in copied.at.items())
