"""Where a group goes on, and what may be committed: every way to say no has its reason."""

from __future__ import annotations

import random

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.translation import (
    Commit,
    Conservative,
    Exact,
    GroupThere,
    Present,
    Proof,
    Rules,
    Stays,
    Unknown,
    Withheld,
    decide,
    objection,
)
from tanist.domain.translators.by_map import translate

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
