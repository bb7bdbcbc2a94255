"""Equal records that were copied more than once, held against every attribution of copies that is possible."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.translation import Precision
from tanist.spark.reconciliation.attribution import earliest_copies
from tanist.spark.reconciliation.positions import Ends, translate
from tests.spark.histories import Damage, a_history, passes
from tests.spark.oracle import Entry, Fate, History, faults, log, reconciled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOBODY: Final = -1


def copied(rng: Random, size: int, kinds: int) -> tuple[History, list[int]]:
    """A log whose records are of few kinds, equal neighbours among them, and its copy; of each copy its source offset.

    The copier goes back now and then and leaves nothing out. Both logs have holes.
    """
    history, truth, at = History(), list[int](), 0
    for _ in range(size):
        at += rng.choice((0, 0, 0, 2))
        before = [entry.identity for entry in history.source.values()][-1:]
        identity = before[0] if before and rng.random() < 0.3 else rng.randrange(kinds)
        history.source[at] = Entry(identity, Fate.COMMITTED)
        at += 1
    history.end, there = at, rng.choice((0, 3))
    every = list(history.source)
    for begin, until in passes(rng, len(every) if rng.random() < 0.7 else rng.randint(0, len(every)), 3):
        for offset in every[begin:until]:
            there += rng.choice((0, 0, 0, 1))
            history.destination[there] = history.source[offset].identity
            truth.append(offset)
            there += 1
    history.destination_end = there
    return history, truth


def attributions(history: History) -> Iterator[list[int]]:
    """Each way in which a copier that leaves nothing out can have written the copy, by source offsets."""
    there = set(history.destination.values())
    records = [(offset, entry.identity) for offset, entry in history.source.items() if entry.identity in there]
    copies = list(history.destination.values())

    def further(so_far: list[int]) -> Iterator[list[int]]:
        if len(so_far) == len(copies):
            yield [records[each][0] for each in so_far]
            return
        for each in range(min(len(records), so_far[-1] + 2) if so_far else 1):
            if records[each][1] == copies[len(so_far)]:
                yield from further([*so_far, each])

    return further([])


def skipped(position: int, there: int, copies: Sequence[int], attributed: Sequence[int]) -> set[int]:
    """The records at or behind `position` whose copies all lie before `there`."""
    after = {offset for copy, offset in zip(copies, attributed, strict=True) if copy >= there}
    return {offset for offset in attributed if offset >= position} - after


def test_no_position_skips_a_record_however_equal_copies_are_attributed() -> None:
    """All attributions of some hundred small logs; the last of equal copies alone would skip some."""
    rng, ways, coarse = Random(28), 0, 0
    for _ in range(250):
        history, _ = copied(rng, rng.randint(1, 6), rng.choice((1, 2, 3, 5)))
        copies = list(history.destination)
        if not copies or len(copies) > 11:
            continue
        told = reconciled(history)
        assert not faults(history, told), history
        by_content = translate(told.runs, told.extras, Ends(history.end, history.end), range(history.end + 1))
        for attributed in attributions(history):
            ways += 1
            for each in told.positions:
                if each.destination is not None:
                    assert not skipped(each.source, each.destination, copies, attributed), (history, attributed, each)
            coarse += any(skipped(each.source, each.destination or 0, copies, attributed) for each in by_content)
    assert ways > 1500
    assert coarse > 50, "these logs prove nothing about it"


@pytest.mark.parametrize("parts", [1, 3])
def test_no_position_skips_the_true_copies_of_longer_logs(parts: int) -> None:
    """Also where Spark's workers see a third of the records each, by identity."""
    rng, exact, asked = Random(parts), 0, 0
    for _ in range(300):
        history, truth = copied(rng, rng.randint(1, 60), rng.choice((2, 5, 20, 1000)))
        told = reconciled(history, parts)
        assert not faults(history, told), history
        for each in told.positions:
            if each.destination is not None:
                assert not skipped(each.source, each.destination, list(history.destination), truth), (history, each)
                asked += 1
                exact += each.precision is Precision.EXACT
    assert exact > asked / 10


def test_the_copier_of_the_example_goes_on_at_the_last_copy_of_each() -> None:
    """For a b c d c d e: no two records are equal, so that each copy is known; nothing is read twice."""
    history = History(
        source={n: Entry(n, Fate.COMMITTED) for n in range(5)},
        end=5,
        destination=dict(enumerate((0, 1, 2, 3, 2, 3, 4))),
        destination_end=7,
    )
    found = [
        (each.destination, each.precision.value) for each in reconciled(history).positions if 0 <= each.source <= 5
    ]
    exact = "exact"
    assert found == [(0, exact), (1, exact), (4, exact), (5, exact), (6, exact), (7, exact)]


def test_neighbours_tell_equal_records_apart() -> None:
    """A x x B, copied twice: what lies between A and B is known both times, and the second time counts."""
    ours, theirs = log(dict(enumerate((1, 7, 7, 2)))), log(dict(enumerate((1, 7, 7, 2, 1, 7, 7, 2))))
    assert earliest_copies(ours, theirs).tolist() == [NOBODY, 5, 6, NOBODY]


def test_what_nothing_tells_apart_is_taken_as_early_as_can_be() -> None:
    """X A x A x B of x A x B: the x in the middle is the first one again, or the second one for the first time."""
    ours, theirs = log(dict(enumerate((7, 1, 7, 2)))), log(dict(enumerate((7, 1, 7, 1, 7, 2))))
    assert earliest_copies(ours, theirs).tolist() == [0, NOBODY, 4, NOBODY]


def test_a_copier_that_leaves_records_out_gets_the_first_copies() -> None:
    """B was left out the first time: no rule says more of the three x than their order."""
    ours, theirs = log(dict(enumerate((7, 1, 7, 2, 3)))), log(dict(enumerate((7, 1, 7, 3, 7, 2))))
    assert earliest_copies(ours, theirs).tolist() == [0, NOBODY, 2, NOBODY, NOBODY]


def test_a_head_that_retention_has_deleted_does_not_move_a_position() -> None:
    """Bounds of the whole log also hold where the copy begins later."""
    for seed in range(200):
        rng = Random(seed)
        history, truth = copied(rng, rng.randint(1, 30), rng.choice((2, 5, 20)))
        if not history.destination:
            continue
        start = rng.choice(list(history.destination))
        left = [copy for copy in history.destination if copy >= start]
        trimmed = replace(history, destination={copy: history.destination[copy] for copy in left})
        attributed = truth[-len(left) :]
        told = reconciled(trimmed)
        assert not faults(trimmed, told)
        for each in told.positions:
            if each.destination is not None:
                assert not skipped(each.source, each.destination, left, attributed), (trimmed, each)


def test_bounds_only_lower_positions() -> None:
    for seed in range(100):
        rng = Random(seed)
        history = a_history(rng, rng.randint(0, 30), Damage(alike=0.5, uniform=0.5, rewinds=3, lost=0.1, late=0.1))
        told = reconciled(history)
        without = translate(told.runs, told.extras, Ends(history.last_stable, history.end), range(-1, history.end + 4))
        for lower, higher in zip(told.positions, without, strict=True):
            assert (lower.destination is None) == (higher.destination is None)
            assert (lower.destination or 0) <= (higher.destination or 0)
