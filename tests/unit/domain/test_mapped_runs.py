"""The ranges of a mapped copy against a copy that is made record by record."""

from __future__ import annotations

from random import Random

import pytest

from tanist.domain.mapped_runs import UnreadableRanges, appended, decoded, encoded, extended, first_runs
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
        batches, wrote = [], False
        for _ in range(dice.randrange(4)):
            self.position += dice.choice([0, 0, 1, 5])  # markers, and aborted records of the source
            batches.append(run(self.position, self.end))
            for _ in range(dice.randrange(1, 6)):
                self.at[self.position] = self.end
                self.position, self.end, wrote = self.position + 1, self.end + 1, True
        self.position += dice.choice([0, 0, 2])
        self.end += wrote
        self.runs = extended(appended(self.runs, batches), run(self.position, self.end))


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


def test_a_range_takes_some_three_bytes() -> None:
    runs = tuple(run(1_000_000 + 120 * n, 2_000_000 + 121 * n) for n in range(1_000))
    assert decoded(encoded(runs)) == runs
    assert len(encoded(runs)) < 3 * 1_000 * 4 / 3


@pytest.mark.parametrize("text", ["AA", "gA", "not base 64", "AAA*"], ids=["one number", "cut", "spaces", "a sign"])
def test_damaged_ranges_have_a_name(text: str) -> None:
    with pytest.raises(UnreadableRanges):
        decoded(text)
