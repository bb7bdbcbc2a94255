"""Runs and positions, against logs and copies of which every record's history is known."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tanist.domain.translation import Precision
from tanist.spark.reconciliation.pairing import NOWHERE, Log, last_copies
from tanist.spark.reconciliation.positions import Standing, translate
from tanist.spark.reconciliation.runs import Runs, compress, merge
from tests.spark.copied_logs import Copied, Fate, a_copy, bounds, largest_in_order, skipped, too_few

if TYPE_CHECKING:
    from tanist.spark.reconciliation.positions import Translated

FATES = {
    "nothing": Fate(),
    "markers": Fate(gaps=0.2, surplus=0.2),
    "losses": Fate(lost=0.2, gaps=0.1),
    "rewinds": Fate(rewinds=4, gaps=0.1),
    "deleted": Fate(compacted=0.3, trimmed=0.5),
    "lag": Fate(lag=0.6, surplus=0.1),
    "everything": Fate(gaps=0.1, surplus=0.1, lost=0.1, rewinds=3, compacted=0.1, trimmed=0.3, lag=0.3),
}


def runs_of(done: Copied, parts: int = 1) -> Runs:
    """As Spark finds them: records of one identity in one part."""
    source, destination = done.logs()
    found = []
    for part in range(parts):
        ours, theirs = source.identities % parts == part, destination.identities % parts == part
        s = Log(source.offsets[ours], source.identities[ours])
        d = Log(destination.offsets[theirs], destination.identities[theirs])
        found.append(compress(s.offsets, last_copies(s, d)))
    return merge(found)


def translated(done: Copied, runs: Runs) -> list[Translated]:
    positions = range(max(done.source, default=0) + 5)
    return list(translate(runs, min(done.destination, default=None), positions))


@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
@pytest.mark.parametrize("parts", [1, 3])
def test_each_record_is_found_and_no_position_leaves_one_out(fate: Fate, parts: int) -> None:
    """Whatever happened to the copy: the truth for every record, the bounds of the truth for every other position."""
    rng = Random(f"{fate} {parts}")
    for _ in range(300):
        done = a_copy(rng, rng.randint(0, 40), fate)
        runs, truth = runs_of(done, parts), done.last_copies()
        assert runs.copied.records.sum() == len(truth)
        assert runs.records.sum() == len(done.source)
        for found in translated(done, runs):
            if found.destination is None:
                assert not truth
                continue
            assert not skipped(done, found.source, found.destination)
            behind, ahead = bounds(done, found.source)
            if found.source in truth:
                assert found.destination == ahead
                assert found.exact == (truth[found.source] == ahead)
            assert min(behind + 1, ahead) <= found.destination <= ahead


@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
def test_of_records_that_look_alike_never_fewer_are_delivered_than_are_to_come(fate: Fate) -> None:
    """Who cannot tell two records apart counts them."""
    rng = Random(f"alike {fate}")
    for _ in range(300):
        done = a_copy(rng, rng.randint(0, 40), Fate(**{k: getattr(fate, k) for k in Fate.__slots__} | {"alike": 0.4}))
        for found in translated(done, runs_of(done)):
            if found.destination is not None:
                assert not too_few(done, found.source, found.destination)


def test_records_that_look_alike_come_in_their_order_and_no_earlier_than_needed() -> None:
    """A copy that goes back but gets to the end: the position is the largest that keeps the order."""
    rng = Random(5)
    checked = 0
    for _ in range(1500):
        done = a_copy(rng, rng.randint(1, 30), Fate(alike=0.4, rewinds=4, gaps=0.1))
        found = {t.source: t.destination for t in translated(done, runs_of(done))}
        for position in done.source:
            assert found[position] == largest_in_order(done, position)
            checked += 1
    assert checked > 10_000


def log(*records: tuple[int, int]) -> Log:
    return Log(np.array([r[0] for r in records], np.int64), np.array([r[1] for r in records], np.int64))


def test_alike_records_are_counted_from_the_end() -> None:
    """Counted from the start, a copy without its head would be entered too late: 200 records would be left out."""
    same = log(*((offset, 7) for offset in range(1000)))
    without_head = Log(same.offsets[200:], same.identities[200:])
    runs = compress(same.offsets, last_copies(same, without_head))
    assert translate(runs, 200, [300])[0].destination == 300
    without_tail = Log(same.offsets[:600], same.identities[:600])
    runs = compress(same.offsets, last_copies(same, without_tail))
    assert translate(runs, 0, [500])[0].destination == 100


@pytest.mark.parametrize(
    ("ours", "theirs", "copies"),
    [
        ("UAAV", "VUA", [1, NOWHERE, NOWHERE, 0]),
        ("AAUV", "VxxAxU", [NOWHERE, NOWHERE, 5, 0]),
    ],
)
def test_alike_records_beside_one_that_is_alone(ours: str, theirs: str, copies: list[int]) -> None:
    """Who is alone gets the copy, wherever it lies; what copies of those alike must lie before never moves forward."""
    source, destination = (log(*((n, ord(letter)) for n, letter in enumerate(side))) for side in (ours, theirs))
    assert last_copies(source, destination).tolist() == copies


def test_where_a_position_lies_is_told() -> None:
    """Each standing, with its precision; nothing is said of what has nothing in common."""
    source = log(*((offset, offset) for offset in (10, 11, 12, 20, 21, 22, 23, 24, 25)))
    destination = log((3, 99), (5, 11), (6, 12), (8, 22), (9, 23), (10, 20), (11, 21), (12, 22))
    runs = compress(source.offsets, last_copies(source, destination))
    positions = (10, 11, 13, 20, 23, 24, 25, -1)
    found = {t.source: (t.destination, t.placement, t.precision) for t in translate(runs, 3, positions)}
    conservative = Precision.CONSERVATIVE
    assert found == {
        10: (3, Standing.BEFORE_FIRST_RUN, conservative),
        11: (5, Standing.EXACT, Precision.EXACT),
        13: (7, Standing.IN_A_GAP, conservative),
        20: (9, Standing.REORDERED, conservative),
        23: (9, Standing.EXACT, Precision.EXACT),
        24: (13, Standing.CAUGHT_UP, Precision.EXACT),
        25: (13, Standing.BEYOND_TAIL, conservative),
        -1: (None, Standing.NO_POSITION, Precision.UNKNOWN),
    }
    assert {t.placement for t in translate(Runs.none(), 3, [0])} == {Standing.NOTHING_IN_COMMON}


def test_a_marker_at_one_end_alone_costs_no_precision() -> None:
    """A group behind a transaction stands on the marker's offset; a copy without markers goes on at the next record."""
    source, destination = log((0, 1), (1, 2), (3, 3)), log((0, 1), (1, 2), (2, 3))
    runs = compress(source.offsets, last_copies(source, destination))
    assert [(t.destination, t.exact) for t in translate(runs, 0, [2, 3])] == [(2, True), (2, True)]


def test_parts_of_a_log_become_one_run_again() -> None:
    """A healthy copy is one line, in however many parts it was compared, markers at both ends included."""
    done = a_copy(Random(1), 500, Fate(gaps=0.1))
    done.destination = dict(done.source)
    runs = runs_of(done, parts=7)
    assert (len(runs), int(runs.records[0])) == (1, 500)
    assert NOWHERE not in runs.destination
