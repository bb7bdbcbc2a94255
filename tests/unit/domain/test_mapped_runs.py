"""The ranges of a mapped copy against a copy that is made record by record."""

from __future__ import annotations

from random import Random

import pytest

from tanist.domain.mapped_runs import UnreadableRanges, decoded, encoded, extended, first_runs, moved, without_records
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange


def run(source: int, destination: int) -> OffsetRange:
    return OffsetRange(SourceOffset(source), DestinationOffset(destination))


class Copied:
    """Random transactions: `at` has the place of each record, `position` and `end` where the copy goes on."""

    def __init__(self, dice: Random) -> None:
        self.position, self.end = dice.choice([0, 40]), dice.choice([0, 25])
        self.begin = self.end
        self.runs = first_runs(SourceOffset(self.position), DestinationOffset(self.end))
        self.at: dict[int, int] = {}
        for _ in range(dice.randrange(1, 12)):
            self._transaction(dice)

    def _transaction(self, dice: Random) -> None:
        self.end += dice.choice([0, 0, 0, dice.randrange(9)])  # what an aborted attempt has left
        wrote = False
        for _ in range(dice.randrange(4)):
            self.position += dice.choice([0, 0, 1, 5])  # markers, and aborted records of the source
            count = dice.randrange(1, 6)
            self.runs = extended(self.runs, run(self.position, self.end), count)
            for _ in range(count):
                self.at[self.position] = self.end
                self.position, self.end, wrote = self.position + 1, self.end + 1, True
        self.position += dice.choice([0, 0, 2])
        self.end += wrote
        self.runs = moved(self.runs, run(self.position, self.end))


@pytest.mark.parametrize("seed", range(200))
def test_every_position_is_found_at_its_very_next_record(seed: int) -> None:
    copied = Copied(Random(seed))
    offsets = OffsetMap.of(decoded(encoded(copied.runs)), SourceOffset(copied.position))
    for position in range(copied.position + 5):
        following = [at for source, at in copied.at.items() if source >= position]
        found = offsets.locate(SourceOffset(position))
        before = max((at for source, at in copied.at.items() if source < position), default=copied.begin - 1)
        assert before < found <= min(following, default=copied.end), (position, copied.runs)
    for source, at in copied.at.items():
        assert offsets.locate(SourceOffset(source)) == at
        assert offsets.origin(DestinationOffset(at)) == source
    assert offsets.origin(DestinationOffset(copied.end)) == copied.position


class CopiedAgain:
    """A copy outside of transactions, whose owners die now and then: `log` has the source offset of each record.

    What was appended and not committed is appended again, behind the marker of a fence (-1). Now and then ranges leave
    the position, because they were published. `again`: what was not committed when the last owner died.
    """

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.source = sorted(dice.sample(range(60), 40))  # the others are markers, and aborted records
        self.position, self.log = 0, [-1] * dice.choice([0, 7])
        self.runs = first_runs(SourceOffset(0), DestinationOffset(len(self.log)))
        self.published: tuple[OffsetRange, ...] = ()
        self.again: set[int] = set()

    @property
    def offsets(self) -> OffsetMap:
        return OffsetMap.of((*self.published, *decoded(encoded(self.runs))), SourceOffset(self.position))

    def interval(self) -> None:
        """What is appended, and perhaps committed."""
        position = self.position
        batches: list[list[OffsetRange]] = []
        for _ in range(self.dice.randrange(4)):
            some = [each for each in self.source if each >= position][: self.dice.randrange(1, 5)]
            for n, each in enumerate(some):
                if n == 0 or each != some[n - 1] + 1:  # a batch ends where offsets are left out
                    batches.append([])
                batches[-1].append(run(each, len(self.log)))
                self.log.append(each)
                position = each + 1
        if self.dice.random() < 0.4:  # it dies, and the next owner fences it
            self.again = {each for each in self.source if self.position <= each < position}
            self.log += [-1] * self.dice.randrange(1, 3)
            return
        if position == self.position:
            return
        self.again, self.position = set(), position
        for batch in batches:
            self.runs = extended(self.runs, batch[0], len(batch))
        self.runs = moved(self.runs, run(position, len(self.log)))
        if self.dice.random() < 0.3:
            self.published, self.runs = (*self.published, *self.runs), without_records(self.runs)


@pytest.mark.parametrize("seed", range(300))
def test_no_position_skips_a_record_that_is_in_the_copy_more_than_once(seed: int) -> None:
    """The map names the last copy of a record: behind it every later record follows, and no earlier one.

    What an owner has appended and not committed before it died follows as well, until its successor has committed.
    """
    copied = CopiedAgain(Random(seed))
    for _ in range(12):
        copied.interval()
        for position in range(copied.position + 1):
            follows = copied.log[copied.offsets.locate(SourceOffset(position)) :]
            wanted = copied.again | {each for each in copied.source if each < copied.position}
            assert {each for each in wanted if each >= position} <= {*follows}, (position, copied.log)
            assert all(each >= position for each in follows if each >= 0), (position, copied.log)
        for each in (one for one in copied.source if one < copied.position):
            last = len(copied.log) - 1 - copied.log[::-1].index(each)
            assert copied.offsets.locate(SourceOffset(each)) == last


def test_a_range_takes_some_three_bytes() -> None:
    runs = tuple(run(1_000_000 + 120 * n, 2_000_000 + 121 * n) for n in range(1_000))
    assert decoded(encoded(runs)) == runs
    assert len(encoded(runs)) < 3 * 1_000 * 4 / 3


@pytest.mark.parametrize("text", ["AA", "gA", "not base 64", "AAA*"], ids=["one number", "cut", "spaces", "a sign"])
def test_damaged_ranges_have_a_name(text: str) -> None:
    with pytest.raises(UnreadableRanges):
        decoded(text)
