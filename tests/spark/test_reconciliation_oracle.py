"""Random histories of a log and its copy, each held against the truth of every record: no unsafe position at all."""

from __future__ import annotations

from random import Random

import pytest

from tanist.domain.translation import Precision
from tests.spark.histories import DAMAGES, a_history
from tests.spark.oracle import Entry, Fate, History, faults, reconciled
from tests.spark.planted import PLANTED

EACH = 150


@pytest.mark.parametrize("name", DAMAGES)
def test_nothing_that_is_told_of_a_random_history_is_untrue(name: str) -> None:
    """No position leaves a record out, exact ones are, no more comes again than is told; every count is true."""
    exact = asked = 0
    for seed in range(EACH):
        rng = Random(f"{name} {seed}")
        history = a_history(rng, rng.randint(0, 30), DAMAGES[name])
        told = reconciled(history, parts=rng.choice((1, 1, 3)))
        assert not faults(history, told), (seed, history)
        known = [each for each in told.positions if each.destination is not None]
        exact += sum(each.precision is Precision.EXACT for each in known)
        asked += len(known)
    assert exact > asked / 20
    assert name != "nothing" or exact == asked


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_told_by_its_name(name: str) -> None:
    """And nothing else is."""
    planted = PLANTED[name]
    known = {record: n for n, record in enumerate({*planted.source, *planted.copy})}
    history = History(
        source={offset: Entry(known[record], Fate.COMMITTED) for offset, record in enumerate(planted.source)},
        end=len(planted.source),
        destination={offset: known[record] for offset, record in enumerate(planted.copy)},
        destination_end=len(planted.copy),
    )
    told = reconciled(history)
    assert not faults(history, told)
    counts = {each: getattr(told.counts, each) for each in ("copied", "moved", "lost", "behind", "repeated")}
    counts["foreign"] = len(planted.copy) - counts["copied"] - counts["repeated"]
    assert {each: count for each, count in counts.items() if count} == planted.counts
