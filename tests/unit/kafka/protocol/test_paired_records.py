"""Both logs of a copy that was made at random: where each record is in both, and what cannot be told."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.mapped_runs import first_runs
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap
from tanist.domain.restored_ranges import RestoredRanges
from tanist.kafka.protocol.batch import header_of
from tanist.kafka.protocol.paired_records import pair
from tests.unit.kafka.protocol.test_refilling import BASE_TIME, StoredBatch, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.kafka.protocol.batch import BatchHeader

SEEDS: Final = range(60)


class BothLogs:
    """Batches of the source, and what a worker has made of them: `at` has the place of each record in the copy."""

    def __init__(self, dice: Random) -> None:
        self.begin, self.at, self.dice = dice.choice([0, 25]), dict[int, int](), dice
        self.source: list[StoredBatch] = []
        self.copy: list[StoredBatch] = []
        self.end, self.copy_end = 0, self.begin
        for _ in range(dice.randrange(1, 25)):
            self._transaction()

    def _transaction(self) -> None:
        taken: list[Written] = []
        for _ in range(self.dice.randrange(1, 4)):
            count, aborted = self.dice.randrange(1, 6), self.dice.random() < 0.3
            records = [
                Written(n, BASE_TIME + n, b"k", b"%d" % self.dice.randrange(1 << 40))
                for n in range(self.end, self.end + count)
            ]
            self.source.append(StoredBatch(self.end, self.end + count, records, aborted=aborted))
            self.end += count
            if aborted or self.dice.random() < 0.2:
                self.source.append(StoredBatch(self.end, self.end + 1, [], aborted=True))
                self.end += 1
            taken += [] if aborted else records
            if taken and self.dice.random() < 0.7:  # else they are merged
                self._appended(taken)
                taken = []
        if taken:
            self._appended(taken)
        self.copy.append(StoredBatch(self.copy_end, self.copy_end + 1, [], aborted=True))
        self.copy_end += 1

    def _appended(self, records: list[Written]) -> None:
        base = self.copy_end
        moved = [each._replace(offset=base + n) for n, each in enumerate(records)]
        self.at |= {each.offset: base + n for n, each in enumerate(records)}
        self.copy_end += len(records)
        self.copy.append(StoredBatch(base, self.copy_end, moved))

    def begun(self) -> RestoredRanges:
        return RestoredRanges(first_runs(SourceOffset(0), DestinationOffset(self.begin)))


def judged(batches: list[StoredBatch], begin: int = 0) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
    for each in batches:
        if each.until > begin:
            stored = memoryview(each.bytes())
            header = header_of(stored)
            yield (
                header if each.records or not each.aborted else header._replace(record_count=each.until - each.base),
                stored,
                not each.aborted,
            )


def must_be_right(logs: BothLogs, found: RestoredRanges) -> None:
    offsets = OffsetMap.of(found.runs(DestinationOffset(logs.copy_end)), found.position)
    assert {each: offsets.locate(SourceOffset(each)) for each in logs.at} == logs.at
    assert found.position == max(logs.at, default=-1) + 1
    assert found.records == len(logs.at)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_of_the_copy_is_found_at_the_source(seed: int) -> None:
    logs = BothLogs(Random(seed))
    found = logs.begun()
    assert not pair(judged(logs.source), logs.end, judged(logs.copy), found)
    must_be_right(logs, found)


@pytest.mark.parametrize("seed", SEEDS)
def test_reading_goes_on_where_it_has_stopped_in_either_log(seed: int) -> None:
    dice = Random(seed)
    logs = BothLogs(dice)
    found = logs.begun()
    for _ in range(200):
        source = islice(judged(logs.source, found.read.source), dice.randrange(1, 6))
        copy = islice(judged(logs.copy, found.read.destination), dice.randrange(1, 6))
        assert not pair(source, logs.end, copy, found)
        if found.records == len(logs.at):
            break
    must_be_right(logs, found)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_record_that_is_missing_or_differs_is_never_passed_over(seed: int) -> None:
    """A cleaner has removed it, or somebody else has written it: what was found before is right."""
    dice = Random(seed)
    logs = BothLogs(dice)
    whose = dice.choice([logs.source, logs.copy])
    chosen = dice.choice([each for each in whose if each.records and not each.aborted] or [None])
    if chosen is None:
        return
    if dice.random() < 0.5:
        chosen.records.pop(dice.randrange(len(chosen.records)))
    else:
        chosen.records[-1] = chosen.records[-1]._replace(value=b"another one")
    found = logs.begun()
    needed = whose is logs.copy or chosen.base <= max(logs.at, default=-1)
    assert bool(pair(judged(logs.source), logs.end, judged(logs.copy), found)) is needed
    places = OffsetMap.of(found.runs(found.read.destination), found.position)
    assert all(places.locate(SourceOffset(n)) == at for n, at in logs.at.items() if n < found.position)


def test_more_records_than_the_source_has_are_somebody_elses() -> None:
    logs = BothLogs(Random(1))
    logs._appended([Written(0, BASE_TIME, b"k", b"foreign")])
    why = pair(judged(logs.source), logs.end, judged(logs.copy), logs.begun())
    assert why == f"the source has no record for the one at offset {logs.copy_end - 1} of the copy"
