"""Where a group goes on, and what may be committed: every way to say no has its reason."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.rewinds import OnRewind
from tanist.domain.translation import (
    Commit,
    Conservative,
    Exact,
    GroupThere,
    Inputs,
    Present,
    Proof,
    Rules,
    Stays,
    Unknown,
    Withheld,
    decide,
    objection,
)
from tanist.domain.translators.by_map import MAP, translate
from tests.unit.domain.test_mapped_runs import Copied

if TYPE_CHECKING:
    from tanist.domain.translation import Decision

SPAN = Span(DestinationOffset(10), DestinationOffset(100))
IDENTICAL = OffsetMap()


def at(offset: int) -> DestinationOffset:
    return DestinationOffset(offset)


@pytest.mark.parametrize("position", [10, 55, 100])
def test_identical_offsets_are_exact_at_every_lag(position: int) -> None:
    """The end itself is a position too."""
    assert translate(SourceOffset(position), IDENTICAL, SPAN) == Exact(at(position))


def test_bounds() -> None:
    """Ahead of the copy: clamped. Before its start: the start. Never anything in between."""
    ahead = translate(SourceOffset(103), IDENTICAL, SPAN)
    assert isinstance(ahead, Conservative)
    assert (ahead.offset, ahead.ahead) == (100, 3)
    early = translate(SourceOffset(9), IDENTICAL, SPAN)
    assert isinstance(early, Conservative)
    assert (early.offset, early.ahead) == (10, 0)


def test_nothing_is_invented() -> None:
    assert isinstance(translate(SourceOffset(5), IDENTICAL, None), Unknown)
    assert isinstance(translate(SourceOffset(-1), IDENTICAL, SPAN), Unknown)


def test_a_translation_is_never_ahead_of_the_record_that_comes_next() -> None:
    """Random shifted copies: whoever goes on at the translated position gets all records from the position on."""
    rng = random.Random(7)
    for _ in range(300):
        records: list[tuple[int, int]] = []
        runs, source, destination, shift = [], 0, 0, 0
        for _ in range(rng.randrange(1, 30)):
            gap, surplus = rng.choice([(0, 0), (rng.randrange(4), rng.randrange(3))])
            source, destination = source + gap, max(destination, source + gap + shift) + surplus
            if destination - source != shift:
                shift = destination - source
                runs.append(OffsetRange(SourceOffset(source), at(destination)))
            records.append((source, destination))
            source, destination = source + 1, destination + 1
        end = rng.randrange(destination + 1)
        span = Span(at(0), at(end))
        for position in range(source + 3):
            answer = translate(SourceOffset(position), OffsetMap.of(runs), span)
            assert not isinstance(answer, Unknown)
            following = next((d for s, d in records if s >= position), None)
            assert answer.offset <= min(end, following if following is not None else end)
            read_twice = [s for s, d in records if d >= answer.offset and d < end and s < position]
            assert not read_twice or isinstance(answer, Conservative)


@pytest.mark.parametrize("seed", range(200))
def test_of_a_mapped_copy_every_position_is_exact_up_to_where_the_copy_goes_on(seed: int) -> None:
    """Against the copy itself, read committed: markers and what aborted attempts have left are no records."""
    dice = random.Random(seed)
    copied = Copied(dice)
    offsets = OffsetMap.of(copied.runs, SourceOffset(copied.position))
    surplus = dice.choice([0, 0, 4])  # of an attempt that was aborted, or is open
    for end in {copied.end + surplus, dice.randrange(copied.end + 1)}:
        span = Span(at(dice.randrange(end + 1)), at(end))
        before = span.start
        for position in range(copied.position + 5):
            answer = translate(SourceOffset(position), offsets, span)
            assert not isinstance(answer, Unknown)
            assert span.start <= before <= answer.offset <= span.end
            before = answer.offset
            unread = [place for source, place in copied.at.items() if source >= position and place < span.end]
            assert answer.offset <= min((each for each in unread if each >= span.start), default=span.end)
            again = [s for s, place in copied.at.items() if s < position and answer.offset <= place < span.end]
            gone = any(place < span.start for place in unread)
            if isinstance(answer, Exact):
                assert not again
                assert not gone, "records that it has not read are gone"
            elif end >= copied.end and position > copied.position:
                assert answer.ahead == position - copied.position
            elif end >= copied.end:
                assert offsets.locate(SourceOffset(position)) < span.start


def test_a_position_behind_a_mapped_copy_is_clamped_and_counted_in_offsets_of_the_source() -> None:
    offsets = OffsetMap.of(
        [OffsetRange(SourceOffset(0), at(0)), OffsetRange(SourceOffset(30), at(41))], SourceOffset(30)
    )
    ahead = translate(SourceOffset(35), offsets, Span(at(0), at(44)))
    assert isinstance(ahead, Conservative)
    assert (ahead.offset, ahead.ahead) == (41, 5)
    shorter = translate(SourceOffset(30), offsets, Span(at(0), at(20)))
    assert isinstance(shorter, Conservative)
    assert (shorter.offset, shorter.ahead) == (20, 10)


def test_where_nobody_knows_how_far_a_mapped_copy_is_a_position_is_a_lower_bound_and_no_group_was_ahead() -> None:
    offsets = OffsetMap.of([OffsetRange(SourceOffset(0), at(3))], SourceOffset(20), "nobody may read it")
    assert translate(SourceOffset(20), offsets, SPAN) == Exact(at(23))
    answer = translate(SourceOffset(21), offsets, SPAN)
    assert answer == Conservative(at(23), "the copy is known up to source offset 20: nobody may read it")


@pytest.mark.parametrize(
    ("position", "unread", "said"),
    [
        (5, "", "map: range 1 of 2: source 0 up to 20 is at destination 3 (+3)"),
        (20, "", "map: copied up to source 20, which is at destination 25"),
        (29, "", "map: copied up to source 20, which is at destination 25"),
        (29, "nobody may read it", "map: known up to source 20 (nobody may read it), which is at destination 25"),
    ],
)
def test_a_mapped_range_is_never_explained_as_identical(position: int, unread: str, said: str) -> None:
    runs = [OffsetRange(SourceOffset(0), at(3)), OffsetRange(SourceOffset(20), at(25))]
    read = Inputs(copy=SPAN, map=OffsetMap.of(runs, SourceOffset(20), unread))
    assert MAP.explain(SourceOffset(position), read) == said


@pytest.mark.parametrize(
    ("there", "rules", "expected"),
    [
        (None, Rules(), None),
        (GroupThere(kind="classic", state="Empty", members=0, synced=True), Rules(), None),
        (GroupThere(kind="classic", state="Empty", members=0, synced=False), Rules(), "existed"),
        (GroupThere(kind="classic", state="Empty", members=0, synced=False), Rules(existing=True), None),
        (GroupThere(kind="consumer", state="Stable", members=2, synced=True), Rules(existing=True), "2 member"),
        (GroupThere(kind="classic", state="PreparingRebalance", members=None, synced=True), Rules(), "has members"),
        (GroupThere(kind="classic", state="", members=1, synced=True), Rules(), "1 member"),
        (GroupThere(kind="share", state="Empty", members=0, synced=True), Rules(existing=True), "share group"),
    ],
)
def test_groups_that_are_left_alone(there: GroupThere | None, rules: Rules, expected: str | None) -> None:
    found = objection(there, rules)
    assert (found is None) if expected is None else (found is not None and expected in found)


OURS, THEIRS = Present(at(50), "tanist m east@50"), Present(at(50), "")
OUTDATED = Present(at(50), "", outdated=True)


@pytest.mark.parametrize(
    ("offset", "present", "rules", "kind"),
    [
        (60, None, Rules(), Commit),
        (60, OURS, Rules(), Commit),
        (50, OURS, Rules(), Commit),  # renews its retention
        (40, OURS, Rules(), Withheld),
        (40, OURS, Rules(existing=True), Withheld),
        (40, OURS, Rules(backwards=True), Commit),
        (60, OUTDATED, Rules(), Commit),
        (50, OUTDATED, Rules(), Commit),
        (40, OUTDATED, Rules(), Withheld),
        (50, THEIRS, Rules(), Stays),
        (60, THEIRS, Rules(), Withheld),
        (60, THEIRS, Rules(existing=True), Commit),
        (40, THEIRS, Rules(existing=True), Withheld),
        (40, THEIRS, Rules(existing=True, backwards=True), Commit),
    ],
)
def test_what_is_committed(offset: int, present: Present | None, rules: Rules, kind: type) -> None:
    assert isinstance(decide(Exact(at(offset)), present, Proof.NONE, rules), kind)
    assert isinstance(decide(Exact(at(offset)), present, Proof.MISMATCH, rules), Withheld), "a mismatch never is"


def test_what_is_unknown_is_never_committed() -> None:
    assert decide(Unknown("why"), None, Proof.NONE, Rules(existing=True, backwards=True)) == Withheld("why")


HELD, ASKED, FOLLOWED = (Rules(on_rewind=each) for each in (OnRewind.HOLD, OnRewind.ASK, OnRewind.FOLLOW))
REWOUND = replace(OURS, rewound_from=50)
GUESS = Exact(at(40), (SourceOffset(40), at(40)))


@pytest.mark.parametrize(
    ("decision", "kept"),
    [
        (decide(Exact(at(40)), REWOUND, Proof.MATCH, HELD), True),
        (decide(Exact(at(40)), REWOUND, Proof.MATCH, ASKED), True),
        (decide(Exact(at(40)), OURS, Proof.MATCH, HELD), True),
        (decide(Unknown("why"), REWOUND, Proof.NONE, HELD), True),
        (decide(GUESS, REWOUND, Proof.NONE, HELD, trusted=False), True),
        (decide(Unknown("why"), OURS, Proof.NONE, HELD), False),
        (decide(Exact(at(40)), REWOUND, Proof.MISMATCH, HELD), False),
        (decide(Exact(at(40)), OUTDATED, Proof.MATCH, HELD), False),
        (decide(Exact(at(40)), THEIRS, Proof.MATCH, HELD), False),
        (decide(Exact(at(40)), THEIRS, Proof.MATCH, Rules(existing=True)), False),
    ],
)
def test_what_stays_is_kept_alive_if_it_is_ours(decision: Decision, kept: bool) -> None:
    assert isinstance(decision, Withheld)
    assert decision.keeps is kept


def test_what_follows_a_rewind_is_not_kept() -> None:
    assert decide(Exact(at(40)), REWOUND, Proof.MATCH, FOLLOWED) == Commit(at(40))
