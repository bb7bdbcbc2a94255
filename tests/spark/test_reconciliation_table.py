"""The table that is published of a log, and translation by it, held against what a job answers for each position."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.reconciled.placements import Standing
from tanist.domain.reconciled.published import Reconciled
from tanist.domain.reconciled.steps import MOST_STEPS, packed, unpacked
from tanist.domain.translation import Conservative, Exact, Inputs
from tanist.domain.translators.by_reconciliation import RECONCILED
from tanist.spark.reconciliation.positions import Ends, Translated
from tanist.spark.reconciliation.table import published
from tests.spark.histories import DAMAGES, a_history
from tests.spark.oracle import reconciled, wrong_positions

if TYPE_CHECKING:
    from tanist.domain.reconciled.steps import Steps
    from tests.spark.oracle import History, Told

EACH = 60


def copy_of(history: History) -> Span[DestinationOffset]:
    """From the first record on: where a log begins is not what a job looks at."""
    both = {**history.destination, **history.undecided}
    return Span(DestinationOffset(0), DestinationOffset(max(both, default=history.destination_end - 1) + 1))


def table(history: History, told: Told, most: int = MOST_STEPS) -> Steps:
    ends = Ends(history.last_stable, history.end)
    found = published(told.runs, told.extras, told.bounds, ends, copy_of(history).end, most)
    assert unpacked(packed(found.steps)) == found.steps
    return found.steps


def inputs(history: History, steps: Steps) -> Inputs:
    copy = copy_of(history)
    until = SourceOffset(history.end)
    return Inputs(copy=copy, reconciled=Reconciled(run="r", age_ms=1000, until=until, copy=copy, steps=steps))


def answered(steps: Steps, position: int) -> Translated:
    """As a job would say it."""
    number = steps.find(position)
    assert number is not None
    step = steps[number]
    return Translated(position, step.at(position), step.placement, step.exact, step.again)


@pytest.mark.parametrize("name", DAMAGES)
def test_the_table_and_the_translation_by_it_say_what_the_job_says(name: str) -> None:
    """Of every position of random logs: with holes, repeats, late and equal records, open transactions."""
    exact = 0
    for seed in range(EACH):
        rng = Random(f"{name} {seed}")
        history = a_history(rng, rng.randint(1, 30), DAMAGES[name])
        told = reconciled(history, parts=rng.choice((1, 3)))
        if not len(told.runs.copied):
            continue
        steps = table(history, told)
        read = inputs(history, steps)
        for each in told.positions:
            if each.destination is None:
                continue
            found = answered(steps, each.source)
            assert (found.destination, found.exact) == (each.destination, each.exact), (history, each, found)
            assert each.again <= found.again
            assert each.exact or found.placement == each.placement
            translated = RECONCILED.translate(SourceOffset(each.source), read)
            assert not isinstance(translated, Exact) or each.exact
            assert isinstance(translated, Exact | Conservative)
            assert (translated.offset, isinstance(translated, Exact)) == (each.destination, each.exact)
            exact += each.exact
        assert not list(wrong_positions(history, [answered(steps, n) for n in range(history.end + 1)]))
    assert exact > EACH


@pytest.mark.parametrize("most", [2, 3, 7])
def test_a_table_with_too_many_steps_is_made_coarser_and_skips_nothing(most: int) -> None:
    """Its later half is as it was."""
    merged = 0
    for seed in range(200):
        rng = Random(seed)
        history = a_history(rng, rng.randint(10, 40), DAMAGES["everything"])
        told = reconciled(history)
        if not len(told.runs.copied):
            continue
        whole, coarse = table(history, told), table(history, told, most)
        assert len(coarse) <= max(most, 1)
        found = [answered(coarse, n) for n in range(history.end + 1)]
        assert not list(wrong_positions(history, found)), history
        there = [each.destination or 0 for each in found]
        assert there == sorted(there)
        merged += any(each.placement is Standing.MERGED for each in found)
        if len(whole) > most:
            late = whole.source[-(most // 2)]
            assert [answered(whole, n) for n in range(late, history.end + 1)] == found[late:]
    assert merged > 50


def test_a_log_that_is_its_copy_has_one_step() -> None:
    """With markers at the source alone it has one for each."""
    rng = Random(1)
    history = a_history(rng, 30, DAMAGES["nothing"])
    assert len(table(history, reconciled(history))) == 1
    history.source = {offset * 2: entry for offset, entry in history.source.items()}
    history.end *= 2
    assert len(table(history, reconciled(history))) <= 31


def test_an_empty_copy_begins_at_its_end_for_everybody() -> None:
    history = a_history(Random(1), 5, DAMAGES["nothing"])
    history.destination, history.destination_end = {}, 7
    steps = table(history, reconciled(history))
    step = steps[0]
    assert (len(steps), step.source, step.at(3), step.exact) == (1, 0, 7, False)
