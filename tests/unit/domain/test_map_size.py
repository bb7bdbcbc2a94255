"""How much `__mirror_offsets` has of a copy, by the real encoders: the figures of docs/concepts.md."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tanist.domain.fake_group import published
from tanist.domain.mapped_runs import extended, moved, without_records
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.kafka.protocol.stored import encode
from tests.builders import AT, DR
from tests.unit.domain.copied_logs import SPEC, CopiedLog

if TYPE_CHECKING:
    from collections.abc import Iterable


class Figures(CopiedLog):
    """A copy of which only the map is kept. A piece is published when the engine would; anchors are 16 MiB apart."""

    def append(self, batches: Iterable[tuple[int, int]], size: int) -> None:
        """A transaction of so many bytes: how many source offsets are left out before each batch, and its records."""
        last, runs = self.last, self.last.runs
        position = last.position
        for left_out, count in batches:
            batch = OffsetRange(SourceOffset(position + left_out), DestinationOffset(self.end))
            runs = extended(runs, batch, count)
            position, self.end = SourceOffset(batch.source + count), self.end + count
        self.end += 1
        end = DestinationOffset(self.end)
        runs = moved(runs, OffsetRange(position, end))
        self.last = replace(last, position=position, end=end, runs=runs, size=last.size + size)
        if len(runs) > 90:  # some 256 characters
            piece = published(DR, AT, self.last, SPEC.mirror_id)
            self.stored[piece.key] = piece
            self.last = replace(self.last, runs=without_records(runs), size=0)

    @property
    def stored_bytes(self) -> int:
        """Keys and values."""
        return sum(len(part or b"") for each in self.stored.values() for part in encode(each))


def test_of_ten_million_records_in_ten_thousand_transactions_a_few_kilobytes_stay() -> None:
    """Of 1 KB each: 10 GB."""
    copied = Figures()
    for n in range(10_000):
        copied.append([(0, 1_000)], 1_024_000)
        if n % 500 == 499:
            copied.thinned(16 << 20)
    assert copied.last.position == 10_000_000
    before = Figures()
    for _ in range(10_000):
        before.append([(0, 1_000)], 1_024_000)
    assert round(before.stored_bytes, -3) == 74_000
    assert round(copied.stored_bytes, -3) == 6_000


def test_of_a_hundred_gigabytes_without_source_transactions_some_tens_of_kilobytes_stay() -> None:
    """In transactions of a megabyte, a hundred thousand."""
    copied = Figures()
    for n in range(100_000):
        copied.append([(0, 1_000)], 1_024_000)
        if n % 5_000 == 4_999:
            copied.thinned(16 << 20)
    assert round(copied.stored_bytes, -4) == 40_000


def test_of_a_source_that_a_cleaner_left_half_full_the_map_stays_as_large_as_it_is() -> None:
    """What the source left out is in no log but its own: nothing can be spared."""
    copied, dice = Figures(), Random(1)
    for n in range(1_000):
        batches = [(dice.choice([0, 1, 2]), dice.choice([1, 1, 2])) for _ in range(75)]
        copied.append(batches, 100 * 1_024)
        if n % 100 == 99:
            copied.thinned(16 << 20)
    records = copied.end - 1_000
    assert round(copied.stored_bytes / records, 1) == 1.5
