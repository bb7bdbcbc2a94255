"""What becomes of fetched batches, against an oracle that looks at every offset alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tanist.domain.copying import Append, Fill, Refuse, Step, decide, markers_to_write
from tanist.domain.errors import CompactionHole, CorruptBatch, Diverged
from tanist.domain.names import DestinationOffset, SourceOffset
from tests.unit.domain.source_logs import SourceLog, Stored, ends_abort, write_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.domain.source_logs import Served

Steps: TypeAlias = "list[Step[Stored, Stored]]"


def steps_of(position: int, served: Served) -> Steps:
    return list(decide(SourceOffset(position), [(b, b) for b in served.batches], served.aborted, ends_abort))


def covered(position: int, steps: Steps) -> int:
    """Where `steps` end; they must follow one another without a gap, and never be empty or two gaps in a row."""
    at = position
    for n, step in enumerate(steps):
        if isinstance(step, Refuse):
            assert n == len(steps) - 1, "something follows a refusal"
            break
        assert step.start == at < step.until
        assert not (n and isinstance(step, Fill) and isinstance(steps[n - 1], Fill)), "two gaps where one would do"
        at = step.until
    return at


def fates(log: SourceLog, position: int, steps: Steps) -> None:
    """Exactly the committed records are appended, exactly the others are filled."""
    for step in steps:
        if isinstance(step, Refuse):
            continue
        expected = "committed" if isinstance(step, Append) else "hidden"
        assert {log.fate(offset) for offset in range(step.start, step.until)} == {expected}, (position, step)


def a_log(rng: Random) -> SourceLog:
    batches = write_log(rng, 40)
    return SourceLog(batches, known=len(batches))


@pytest.mark.parametrize("seed", range(150))
def test_committed_records_and_only_they_are_appended_wherever_the_fetches_are_cut(seed: int) -> None:
    """A copy that goes fetch by fetch, each of a random size, sees every offset below the LSO once, rightly."""
    rng = Random(seed)
    log = a_log(rng)
    position = 0
    while position < log.last_stable:
        steps = steps_of(position, log.fetch(position, rng.randint(1, 9), overshoot=rng.choice((0, 0, 20))))
        assert not any(isinstance(step, Refuse) for step in steps)
        fates(log, position, steps)
        before, position = position, covered(position, steps)
        assert position > before, "the copy stands still"
    assert position == log.last_stable


@pytest.mark.parametrize("seed", range(60))
def test_a_copy_that_starts_at_any_batch_decides_as_one_that_came_from_the_beginning(seed: int) -> None:
    """A transaction that began before the fetch is known from the broker's list alone."""
    rng = Random(seed)
    log = a_log(rng)
    for first in log.batches:
        if first.base_offset < log.last_stable:
            fates(log, first.base_offset, steps_of(first.base_offset, log.fetch(first.base_offset, 12)))


@pytest.mark.parametrize("seed", range(150))
def test_what_compaction_took_is_refused_by_name_at_its_offset(seed: int) -> None:
    """Oracle: the first offset that no batch spans, or the first committed batch that lacks a record."""
    rng = Random(seed)
    whole = a_log(rng)
    left = []
    for batch in whole.batches:
        if not batch.is_control and rng.random() < 0.1:
            kept = tuple(offset for offset in batch.records if rng.random() < 0.7)
            if kept != batch.records and rng.random() < 0.5:
                continue  # the whole batch
            left.append(replace(batch, records=kept))
        else:
            left.append(batch)
    served = whole.fetch(0, 1000)._replace(batches=[b for b in left if b.base_offset < whole.last_stable])
    stop: int | None = None
    at = 0
    for batch in served.batches:
        lacks = not batch.is_dense and whole.fate(batch.base_offset) == "committed"
        if batch.base_offset > at or lacks:
            stop = at
            break
        at = batch.next_offset
    steps = steps_of(0, served)
    fates(whole, 0, steps)
    assert covered(0, steps) == at
    if stop is None:
        assert not any(isinstance(step, Refuse) for step in steps)
    else:
        refused = steps[-1]
        assert isinstance(refused, Refuse)
        assert isinstance(refused.error, CompactionHole)
        assert f"offset {stop} " in str(refused.error) or f"offsets {stop} to " in str(refused.error)


@pytest.mark.parametrize("seed", range(60))
def test_a_start_inside_committed_data_is_divergence_and_inside_a_gap_it_is_none(seed: int) -> None:
    """Where retention leaves a copy that begins with fillers, its start may lie inside a batch the source aborted."""
    rng = Random(seed)
    log = a_log(rng)
    for batch in log.batches:
        for position in range(batch.base_offset + 1, batch.next_offset):
            if position >= log.last_stable:
                return
            steps = steps_of(position, log.fetch(position, 6))
            if log.fate(position) == "committed":
                (refused,) = steps
                assert isinstance(refused, Refuse)
                assert isinstance(refused.error, Diverged)
                assert str(batch.base_offset) in refused.error.reason
            else:
                fates(log, position, steps)
                assert covered(position, steps) >= batch.next_offset


def test_a_corrupt_batch_passes_through_after_what_came_before_it() -> None:
    """Nothing is appended from the damaged batch on, and the error is the one that names it."""
    good = Stored(0, 3, (0, 1, 2))

    def batches() -> Iterator[tuple[Stored, Stored]]:
        yield good, good
        raise CorruptBatch("batch at offset 3")

    steps = decide(SourceOffset(0), batches(), (), ends_abort)
    assert next(steps) == Append(good, good)
    with pytest.raises(CorruptBatch, match="offset 3"):
        next(steps)


def test_fillers_bring_the_copy_to_the_end_of_the_gap_and_never_further() -> None:
    """Partial fills, lost ones and a surplus alike: what is missing is written, what is too much is worked off."""
    for end in range(30):
        for until in range(30):
            written = markers_to_write(SourceOffset(until), DestinationOffset(end))
            assert end + written == max(until, end)
