"""Runs and positions, against logs and copies of which every record's history is known."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from tanist.domain.exclusive import ExclusiveRange
from tanist.domain.reconciled.placements import Standing
from tanist.domain.translation import Precision
from tanist.spark.reconciliation.digests import Bucket, sort_out
from tanist.spark.reconciliation.exclusive import Counts, cuts_of, explained
from tanist.spark.reconciliation.occurrences import NOWHERE, Log
from tanist.spark.reconciliation.pairing import Pairs, pair
from tanist.spark.reconciliation.positions import Ends, translate
from tanist.spark.reconciliation.runs import Runs, compress, compress_extras, join, merge, merge_extras
from tests.spark.copied_logs import Copied, Fate, a_copy, bounds, largest_in_order, skipped, too_few

if TYPE_CHECKING:
    from collections.abc import Sequence

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


FAR: Final = 1 << 40
"""Behind the end of every log here."""


def paired(done: Copied, parts: int = 1) -> tuple[Runs, Runs]:
    """Runs and extras as Spark finds them: records of one identity in one part."""
    source, destination = done.logs()
    found: list[Pairs] = []
    runs: list[Runs] = []
    for part in range(parts):
        ours, theirs = source.identities % parts == part, destination.identities % parts == part
        s = Log(source.offsets[ours], source.identities[ours])
        d = Log(destination.offsets[theirs], destination.identities[theirs])
        found.append(pair(s, d))
        runs.append(join(compress(s.offsets, found[-1].copies)))
    return merge(runs), merge_extras(map(compress_extras, found))


def translated(done: Copied, runs: Runs, extras: Runs) -> list[Translated]:
    return list(told(runs, extras, range(max(done.source, default=0) + 5)))


def told(runs: Runs, extras: Runs, positions: Sequence[int]) -> Sequence[Translated]:
    """Of a log that ends far behind, without transactions."""
    return translate(runs, extras, Ends(FAR, FAR), positions)


def between(source: Log, destination: Log) -> tuple[Runs, Runs]:
    found = pair(source, destination)
    return merge([compress(source.offsets, found.copies)]), compress_extras(found)


@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
@pytest.mark.parametrize("parts", [1, 3])
def test_each_record_is_found_and_no_position_leaves_one_out(fate: Fate, parts: int) -> None:
    """Whatever happened to the copy: the truth for every record, the bounds of the truth for every other position."""
    rng = Random(f"{fate} {parts}")
    for _ in range(300):
        done = a_copy(rng, rng.randint(0, 40), fate)
        runs, extras = paired(done, parts)
        truth = done.last_copies()
        assert runs.copied.records.sum() == len(truth)
        assert runs.records.sum() == len(done.source)
        for found in translated(done, runs, extras):
            if found.destination is None:
                assert not truth
                continue
            assert not skipped(done, found.source, found.destination)
            behind, ahead = bounds(done, found.source)
            if found.source in truth:
                assert found.destination == ahead
                assert truth[found.source] == ahead or not found.exact
            assert min(behind + 1, ahead) <= found.destination <= ahead


@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
def test_of_records_that_look_alike_never_fewer_are_delivered_than_are_to_come(fate: Fate) -> None:
    """Who cannot tell two records apart counts them."""
    rng = Random(f"alike {fate}")
    for _ in range(300):
        done = a_copy(rng, rng.randint(0, 40), Fate(**{k: getattr(fate, k) for k in Fate.__slots__} | {"alike": 0.4}))
        for found in translated(done, *paired(done)):
            if found.destination is not None:
                assert not too_few(done, found.source, found.destination)


def test_records_that_look_alike_come_in_their_order_and_no_earlier_than_needed() -> None:
    """A copy that goes back but gets to the end: the position is the largest that keeps the order."""
    rng = Random(5)
    checked = 0
    for _ in range(1500):
        done = a_copy(rng, rng.randint(1, 30), Fate(alike=0.4, rewinds=4, gaps=0.1))
        found = {t.source: t.destination for t in translated(done, *paired(done))}
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
    assert told(*between(same, without_head), [300])[0].destination == 300
    without_tail = Log(same.offsets[:600], same.identities[:600])
    assert told(*between(same, without_tail), [500])[0].destination == 100


@pytest.mark.parametrize(
    ("ours", "theirs", "copies"),
    [
        ("UAAV", "VUA", [1, NOWHERE, 2, 0]),
        ("AAUV", "VxxAxU", [NOWHERE, 3, 5, 0]),
    ],
)
def test_alike_records_beside_one_that_is_alone(ours: str, theirs: str, copies: list[int]) -> None:
    """Who is alone gets the copy, wherever it lies; what copies of those alike must lie before never moves forward."""
    source, destination = (log(*((n, ord(letter)) for n, letter in enumerate(side))) for side in (ours, theirs))
    assert pair(source, destination).copies.tolist() == copies


def test_where_a_position_lies_is_told() -> None:
    """Each standing, with its precision; nothing is said of what has nothing in common."""
    source = log(*((offset, offset) for offset in (10, 11, 12, 20, 21, 22, 23, 24, 25)))
    destination = log((3, 99), (5, 11), (6, 12), (8, 22), (9, 23), (10, 20), (11, 21), (12, 22))
    runs, extras = between(source, destination)
    positions = (10, 11, 13, 20, 23, 24, 25, 27, -1)
    answers = translate(runs, extras, Ends(26, 26), positions)
    found = {t.source: (t.destination, t.placement, t.precision) for t in answers}
    conservative = Precision.CONSERVATIVE
    assert found == {
        10: (3, Standing.BEFORE_FIRST_RUN, conservative),
        11: (5, Standing.REPEATED, conservative),
        13: (7, Standing.IN_A_GAP, conservative),
        20: (9, Standing.REORDERED, conservative),
        23: (9, Standing.REPEATED, conservative),
        24: (13, Standing.CAUGHT_UP, Precision.EXACT),
        25: (13, Standing.BEYOND_TAIL, conservative),
        27: (None, Standing.BEYOND_END, Precision.UNKNOWN),
        -1: (None, Standing.NO_POSITION, Precision.UNKNOWN),
    }
    assert {t.source: t.again for t in answers if t.again} == {10: 2, 11: 1, 13: 1, 23: 3, 25: 1}
    assert {t.placement for t in told(Runs.none(), Runs.none(), [0])} == {Standing.NOTHING_IN_COMMON}


def test_a_marker_at_one_end_alone_costs_no_precision() -> None:
    """A group behind a transaction stands on the marker's offset; a copy without markers goes on at the next record."""
    source, destination = log((0, 1), (1, 2), (3, 3)), log((0, 1), (1, 2), (2, 3))
    answers = told(*between(source, destination), [2, 3])
    assert [(t.destination, t.exact) for t in answers] == [(2, True), (2, True)]


def test_parts_of_a_log_become_one_run_again() -> None:
    """A healthy copy is one line, in however many parts it was compared, markers at both ends included."""
    done = a_copy(Random(1), 500, Fate(gaps=0.1))
    done.destination = dict(done.source)
    runs, _ = paired(done, parts=7)
    assert (len(runs), int(runs.records[0])) == (1, 500)
    assert NOWHERE not in runs.destination


def identities(*numbers: int) -> Log:
    return log(*enumerate(numbers))


def counted(source: Log, destination: Log) -> Counts:
    return Counts.of(*between(source, destination), FAR, FAR)


def exclusive(*, at_source: bool, start: int, until: int | None) -> ExclusiveRange:
    return ExclusiveRange(partition=0, at_source=at_source, start=start, until=until, reason="reserved")


def test_records_of_a_range_that_only_one_cluster_can_have_are_neither_lost_nor_foreign() -> None:
    """Of one run of lost records, and of one run of extras, each range has its part, also across gaps."""
    source = log(*((offset, offset) for offset in (*range(20), 22, 23, 24)))
    destination = log(*((offset, offset) for offset in range(10)), *((offset, 99 + offset) for offset in range(10, 30)))
    ranges = (exclusive(at_source=True, start=12, until=23), exclusive(at_source=False, start=25, until=None))
    found = pair(source, destination)
    runs = merge([compress(source.offsets, found.copies)], None, cuts_of(ranges, at_source=True))
    extras = merge_extras([compress_extras(found)], cuts_of(ranges, at_source=False))
    counts = Counts.of(runs, extras, FAR, FAR, ranges)
    assert (counts.copied, counts.lost, counts.behind, counts.only_source, counts.only_destination) == (10, 4, 4, 9, 5)
    assert [(each.range, each.records) for each in explained(ranges, runs.lost, extras, FAR)] == [
        (ranges[0], 9),
        (ranges[1], 5),
    ]
    assert not list(explained([exclusive(at_source=True, start=100, until=None)], runs.lost, extras, FAR))


def test_a_bucket_without_copies_that_reaches_across_the_end_of_a_range_is_paired() -> None:
    """Its digest does not tell how many of its records lie on either side; one without gaps, or beside it, does."""
    gaps = Bucket(0, 0, 5, 10, 30, 0, 0, None, None, 0, 0, equal=False)
    dense = gaps._replace(source_records=21)
    for bucket, cuts, paired_too in ((gaps, (20,), True), (gaps, (10, 31), False), (dense, (20,), False)):
        assert bool(sort_out([bucket], {0: cuts}).to_pair) is paired_too


def test_no_record_is_lost_that_the_copy_has() -> None:
    """In order or not: as many have a copy as there are on either side, the fewer."""
    found = counted(identities(7, 1, 1, 1, 1, 9), identities(9, 1, 1, 1, 1, 1, 7))
    assert (found.copied, found.lost, found.repeated) == (6, 0, 1)
    many = Random(3).choices(range(2000), k=20_000)
    repeated = counted(identities(*many), identities(*many, *many[5000:15_000]))
    assert (repeated.copied, repeated.lost, repeated.repeated) == (20_000, 0, 10_000)
    late = counted(identities(*many), identities(*many[1:-18], many[0]))
    assert (late.copied, late.lost) == (20_000 - 18, 18)


def test_one_record_that_comes_late_is_the_one_that_is_moved() -> None:
    """Not all the others, that come before it."""
    found = counted(identities(*range(20)), identities(*range(1, 20), 0))
    assert (found.copied, found.moved, found.lost) == (20, 1, 0)


def test_a_position_whose_records_come_again_is_not_exact_and_says_how_many() -> None:
    """The next record is the right one, and what was read follows: repeated, or late, or maybe what is deleted now."""
    repeated = between(identities(*range(10)), identities(*range(10), 2, 3, 4))
    assert [(t.destination, t.exact, t.again) for t in told(*repeated, [1, 5])] == [(1, True, 0), (5, False, 3)]
    late = between(identities(*range(6)), identities(0, 2, 3, 4, 5, 1))
    assert [(t.destination, t.exact, t.again) for t in told(*late, [0, 1, 3])] == [
        (0, True, 0),
        (1, False, 0),
        (2, False, 1),
    ]
    deleted = between(log(*((n, n) for n in range(5, 10))), identities(*range(10), 2, 3))
    assert [(t.destination, t.exact, t.again) for t in told(*deleted, [7])] == [(7, False, 2)]


def test_a_position_at_a_record_that_was_lost_is_not_exact() -> None:
    """What comes is not what would have come next."""
    found = told(*between(identities(*range(10)), identities(0, 1, 2, 5, 6, 7, 8, 9)), [2, 3, 5])
    assert [(t.destination, t.exact) for t in found] == [(2, True), (3, False), (3, True)]


def test_a_position_before_an_open_transaction_leaves_out_no_record_that_was_copied_beyond() -> None:
    """r0..r99, an open transaction, r100..r199; all copied, as MirrorMaker does, and after a restart r90..r99 again."""
    source = identities(*range(201))
    destination = identities(*range(201), *range(90, 100))
    found = pair(source, destination)
    runs, extras = merge([compress(source.offsets, found.copies)], 100), compress_extras(found)
    answers = translate(runs, extras, Ends(100, 201), [50, 95, 100, 150, 201, 99_999])
    told_of = [(t.destination, t.precision.value, t.again) for t in answers]
    assert told_of == [
        (50, "exact", 0),
        (100, "conservative", 5),
        (100, "conservative", 10),
        (150, "conservative", 10),
        (211, "exact", 0),
        (None, "unknown", 0),
    ]


def test_a_bucket_that_is_paired_lies_between_two_that_agree_and_is_no_part_of_them() -> None:
    """Runs of what is known so far are no proof of what lies in the gap between them."""
    outer = join(compress(log((0, 0), (1, 0), (8, 0), (9, 0)).offsets, np.array([0, 1, 8, 9])))
    inner = join(compress(np.arange(2, 8), np.array([20, 21, 22, NOWHERE, 23, 24])))
    runs = merge([outer, inner])
    assert [*runs.source.tolist()] == [0, 2, 5, 6, 8]
    assert (runs.ends[:-1] <= runs.source[1:]).all()
