"""What every strategy of translation promises, over random copied logs: a new one needs a row of `SUBJECTS`."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.reconciled.placements import Standing
from tanist.domain.reconciled.published import Reconciled
from tanist.domain.reconciled.steps import Step, Steps
from tanist.domain.translation import Exact, Inputs, Proof, Rules, Translator, Unknown, Withheld, decide
from tanist.domain.translators.choice import STRATEGIES
from tanist.usecases.groups.strategies import TRANSLATORS
from tests.fakes.times import MemoryLog, timed
from tests.unit.domain.mm2_histories import of_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.translation import Translation


@dataclass(frozen=True, slots=True)
class History:
    """A partition and its copy. `records`: the offsets of each record, at the source and at the destination.

    Those outside `copy` are deleted, or not copied yet.
    """

    records: tuple[tuple[int, int], ...]
    copy: Span[DestinationOffset]

    @classmethod
    def drawn(cls, rng: random.Random) -> History:
        """Each side has offsets without a record now and then, so the copy may be ahead or behind."""
        source, destination, records = 0, 0, []
        for _ in range(rng.randrange(30)):
            source += rng.choice([0, 0, 0, rng.randrange(5)])
            destination += rng.choice([0, 0, 0, rng.randrange(5)])
            records.append((source, destination))
            source, destination = source + 1, destination + 1
        start, end = sorted(rng.randrange(destination + 1) for _ in range(2))
        return cls(tuple(records), Span(DestinationOffset(start), DestinationOffset(end)))

    def unread(self, position: int) -> list[int]:
        """Where the destination has the records that a group at `position` has not consumed."""
        return [d for s, d in self.records if s >= position and self.copy.start <= d < self.copy.end]

    def again(self, position: int, offset: int) -> list[int]:
        """Where it has those that the group has consumed, and consumes again from `offset` on."""
        return [d for s, d in self.records if s < position and offset <= d < self.copy.end]


def with_a_map(history: History) -> Inputs:
    """As a fetcher has written it: a range wherever the difference of the offsets changes."""
    shifts = [0, *(d - s for s, d in history.records)]
    changes = [of for of, before in zip(history.records, shifts, strict=False) if of[1] - of[0] != before]
    return Inputs(
        copy=history.copy, map=OffsetMap.of(OffsetRange(SourceOffset(s), DestinationOffset(d)) for s, d in changes)
    )


def with_a_reconciliation(history: History) -> Inputs:
    """Of the copy as it is, or as it was before its last records were appended; a step for each position."""
    start, end = history.copy
    until = DestinationOffset(max(start, end - len(history.records) % 3))
    copied = [(s, d) for s, d in history.records if d < until]
    reach = max((s for s, _ in copied), default=-1) + 1

    def step(position: int) -> Step:
        unread = [(s, d) for s, d in copied if s >= position]
        there = [d for _, d in unread if d >= start]
        exact = not unread or unread[0][1] >= start
        destination = max(start, min(there, default=until))
        standing = Standing.EXACT if exact else Standing.BEFORE_FIRST_RUN
        return Step(position, None, destination, slopes=False, exact=exact, placement=standing, again=0)

    told = Reconciled(
        run="r",
        age_ms=90_000,
        until=SourceOffset(reach),
        copy=Span(start, until),
        steps=Steps.of([step(position) for position in range(reach + 1)]),
    )
    return Inputs(copy=history.copy, reconciled=told)


def with_offset_syncs(history: History) -> Inputs:
    """As MirrorMaker 2 has written them."""
    return Inputs(copy=history.copy, mm2=of_records(history.records, history.copy))


def with_times(history: History) -> Inputs:
    """Several records have the same timestamp, and the copy has those that lie in it."""
    source, copy = MemoryLog(), MemoryLog(start=history.copy.start)
    for s, d in history.records:
        while source.end < s:
            source.add(1_000 + 5 * source.end)
        at = 1_000 + s - s % 3
        source.add(at, f"record {s}")
        if history.copy.start <= d < history.copy.end:
            copy.end = d
            copy.add(at, f"record {s}")
    copy.end = history.copy.end
    return Inputs(copy=history.copy, times=timed(source, copy, range(source.end + 4)))


SUBJECTS: Mapping[str, Callable[[History], Inputs]] = {
    "map": with_a_map,
    "mm2": with_offset_syncs,
    "timestamp": with_times,
    "reconciled": with_a_reconciliation,
}
"""By the name of each strategy: what it is given of a log."""


def answers(name: str) -> list[tuple[History, dict[int, Translation]]]:
    """Random logs, with the answer for every position, up to some behind the end."""
    rng, found = random.Random(11), []
    for _ in range(300):
        history = History.drawn(rng)
        read, end = SUBJECTS[name](history), max((s for s, _ in history.records), default=0) + 4
        found.append((history, {at: TRANSLATORS[name].translate(SourceOffset(at), read) for at in range(end)}))
    return found


def test_every_strategy_is_tested_here_and_can_be_stored_with_a_mirror() -> None:
    assert SUBJECTS.keys() == TRANSLATORS.keys() == set(STRATEGIES)
    assert all(name == each.name for name, each in TRANSLATORS.items())


@pytest.mark.parametrize("name", TRANSLATORS)
def test_no_record_that_a_group_has_not_read_is_skipped(name: str) -> None:
    for history, found in answers(name):
        for position, answer in found.items():
            if not isinstance(answer, Unknown):
                assert history.copy.start <= answer.offset <= history.copy.end
                assert all(answer.offset <= each for each in history.unread(position)), (history, position)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_what_is_exact_reads_nothing_twice_and_all_else_has_a_reason(name: str) -> None:
    precisions = set()
    for history, found in answers(name):
        for position, answer in found.items():
            precisions.add(answer.precision)
            if isinstance(answer, Exact):
                assert not history.again(position, answer.offset), (history, position)
            else:
                assert answer.why
    assert len(precisions) > 1, "these logs prove nothing about it"


@pytest.mark.parametrize("name", TRANSLATORS)
def test_who_has_read_more_does_not_go_on_earlier(name: str) -> None:
    for history, found in answers(name):
        known = [each.offset for each in found.values() if not isinstance(each, Unknown)]
        assert known == sorted(known), history


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_copy_that_cannot_be_read_and_a_position_that_is_none_are_unknown_for_a_reason(name: str) -> None:
    history = History(((0, 0), (1, 1)), Span(DestinationOffset(0), DestinationOffset(2)))
    read, translate = SUBJECTS[name](history), TRANSLATORS[name].translate
    for answer in (translate(SourceOffset(1), replace(read, copy=None)), translate(SourceOffset(-1), read)):
        assert isinstance(answer, Unknown)
        assert answer.why


@pytest.mark.parametrize("translator", TRANSLATORS.values(), ids=list(TRANSLATORS))
def test_each_step_is_explained_in_one_line_also_of_a_copy_that_cannot_be_read(translator: Translator) -> None:
    rng = random.Random(11)
    for _ in range(20):
        read = SUBJECTS[translator.name](History.drawn(rng))
        for said in (translator.explain(SourceOffset(3), each) for each in (read, replace(read, copy=None))):
            assert said.startswith(f"{translator.name}: ")
            assert "\n" not in said


@pytest.mark.parametrize("translator", TRANSLATORS.values(), ids=list(TRANSLATORS))
def test_a_mismatch_blames_what_it_was_translated_by(translator: Translator) -> None:
    refused = decide(Exact(DestinationOffset(1)), None, Proof.MISMATCH, Rules(), translator.basis)
    assert isinstance(refused, Withheld)
    assert f"so the {translator.basis} is wrong here" in refused.why
