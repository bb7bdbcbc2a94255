"""The map, against a copy that was made record by record."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange


class Copied(NamedTuple):
    pairs: list[tuple[SourceOffset, DestinationOffset]]
    runs: list[OffsetRange]


def a_copy(rng: Random) -> Copied:
    """Gaps of the source, surplus markers of the copy, and surplus that is worked off; a run ahead of every change."""
    pairs, runs = [], []
    source = destination = shift = 0
    for _ in range(rng.randint(1, 60)):
        if rng.random() < 0.3:
            gap = rng.randint(1, 6)
            destination, source = max(destination, source + gap), source + gap
        if rng.random() < 0.2:
            destination += rng.randint(1, 4)
        if destination - source != shift:
            shift = destination - source
            runs.append(OffsetRange(SourceOffset(source), DestinationOffset(destination)))
        pairs.append((SourceOffset(source), DestinationOffset(destination)))
        source, destination = source + 1, destination + 1
    return Copied(pairs, runs)


def stale(rng: Random, copy: Copied) -> list[OffsetRange]:
    """Runs of workers that died before the first record came: the copy's end was lower then, never higher."""
    return [
        OffsetRange(run.source, DestinationOffset(max(run.source, run.destination - rng.randint(1, 3))))
        for run in copy.runs
        if run.shift > 0 and rng.random() < 0.5
    ]


@pytest.mark.parametrize("seed", range(100))
def test_a_record_is_found_where_it_lies_and_its_origin_is_itself(seed: int) -> None:
    """In whatever order runs are read, however often they were written, with those that came to nothing."""
    rng = Random(seed)
    copy = a_copy(rng)
    written = copy.runs * 2 + stale(rng, copy)
    rng.shuffle(written)
    offsets = OffsetMap.of(written)
    assert offsets == OffsetMap.of(offsets.runs), "the map of a map is another one"
    for source, destination in copy.pairs:
        assert offsets.locate(source) == destination
        assert offsets.origin(destination) == source
        assert offsets.shift_at(source) == destination - source


@pytest.mark.parametrize("seed", range(100))
def test_a_position_goes_to_the_record_that_a_group_would_have_read_next(seed: int) -> None:
    """Monotonic, and never ahead of the truth: what lies between two runs may be read again, never left out."""
    rng = Random(seed)
    copy = a_copy(rng)
    offsets = OffsetMap.of(copy.runs)
    last, previous = copy.pairs[-1][0], -1
    for position in map(SourceOffset, range(last + 1)):
        found = offsets.locate(position)
        read_next = next(destination for source, destination in copy.pairs if source >= position)
        skipped = [d for s, d in copy.pairs if s < position and d >= found]
        assert previous <= found <= read_next
        assert not skipped, "a record comes twice"
        previous = found


@pytest.mark.parametrize("seed", range(30))
def test_a_map_that_lags_is_behind_the_truth_never_ahead_of_it(seed: int) -> None:
    """A translation by the runs known so far may deliver a record again; it loses none (surplus only ever adds)."""
    rng = Random(seed)
    shift, runs, truth = 0, [], []
    for source in range(80):
        if rng.random() < 0.1:
            shift += rng.randint(1, 3)
            runs.append(OffsetRange(SourceOffset(source), DestinationOffset(source + shift)))
        truth.append(source + shift)
    known = OffsetMap.of(runs[: rng.randint(0, len(runs))])
    assert all(known.locate(SourceOffset(source)) <= destination for source, destination in enumerate(truth))


def test_without_runs_both_logs_are_the_same_and_with_a_stale_one_the_larger_wins() -> None:
    """A run is written again with the end of that time; the end never moves back, so the largest was the last."""
    assert OffsetMap().locate(SourceOffset(7)) == DestinationOffset(7)
    assert OffsetMap().origin(DestinationOffset(7)) == SourceOffset(7)
    early = OffsetRange(SourceOffset(5), DestinationOffset(6))
    late = OffsetRange(SourceOffset(5), DestinationOffset(9))
    assert OffsetMap.of([late, early]).runs == OffsetMap.of([early]).with_range(late).runs == (late,)
