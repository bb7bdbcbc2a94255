"""Mapped copies that are made record by record, with what is on record of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.anchors import OffsetAnchorsWritten, PlacedRecords, Walked, expanded, known
from tanist.domain.fake_group import CopiedPosition, published
from tanist.domain.mapped_runs import (
    OffsetRangesWritten,
    extended,
    first_runs,
    moved,
    without_records,
)
from tanist.domain.names import DestinationOffset, ProducerId, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.records import OffsetMode
from tanist.domain.state_view import StateView
from tanist.domain.thinning import MapOnRecord, ThinningStep, next_step
from tests.builders import AT, DR, a_mirror

if TYPE_CHECKING:
    from random import Random

    from tanist.domain.offset_map import AnchoredSpan, OffsetMap

SPEC: Final = a_mirror(
    mirror_id="m-1",
    offsets=OffsetMode.MAPPED,
    transactional_id="tanist-dr-m",
    data_id=ProducerId(-1),
    marker_id=ProducerId(-1),
    start_id=ProducerId(-1),
)


class CopiedLog:
    """`at`: where each record of the source is. `log`: the offsets of the copy, True: of a committed record.

    `stored`: by key, what is published of its map, a piece for each `every` ranges; `begin`: where the copy began.
    """

    def __init__(self, position: int = 0, end: int = 0, every: int = 3) -> None:
        self.begin, self.every, self.log_start = end, every, 0
        runs = first_runs(SourceOffset(position), DestinationOffset(end))
        self.last = CopiedPosition(SourceOffset(position), SPEC.id, "t", DestinationOffset(end), 0, runs)
        self.end = end
        self.at: dict[int, int] = {}
        self.log: dict[int, bool] = {}
        self.stored: dict[str, OffsetRangesWritten | OffsetAnchorsWritten] = {}
        self.looked_until = SourceOffset(0)

    def aborted(self, count: int) -> None:
        """An attempt that has left so many offsets, its marker among them."""
        self.log |= dict.fromkeys(range(self.end, self.end + count), False)
        self.end += count

    def transaction(self, batches: list[tuple[int, int]], rest: int = 0) -> None:
        """Batches: how many source offsets are left out before each, and how many records it has; `rest`: behind."""
        runs, position, size = self.last.runs, self.last.position, self.last.size
        for left_out, count in batches:
            position = SourceOffset(position + left_out)
            runs = extended(runs, OffsetRange(position, DestinationOffset(self.end)), count)
            self.at |= {position + n: self.end + n for n in range(count)}
            self.log |= dict.fromkeys(range(self.end, self.end + count), True)
            position, self.end, size = SourceOffset(position + count), self.end + count, size + 100 * count
        position = SourceOffset(position + rest)
        if batches:
            self.log[self.end] = False
            self.end += 1
        end = DestinationOffset(self.end)
        runs = moved(runs, OffsetRange(position, end))
        self.last = replace(self.last, position=position, end=end, count=self.last.count + 1, runs=runs, size=size)
        if len(runs) > self.every:
            self.publish()

    def publish(self) -> OffsetRangesWritten:
        """All ranges that ride with the position."""
        piece = published(DR, AT, self.last, SPEC.mirror_id)
        self.stored[piece.key] = piece
        self.last = replace(self.last, runs=without_records(self.last.runs), size=0)
        return piece

    def at_random(self, dice: Random, transactions: int) -> None:
        """Transactions with everything that can happen to them."""
        for _ in range(transactions):
            if dice.random() < 0.2:
                self.aborted(dice.randrange(1, 9))
            batches = [(dice.choice([0, 0, 1, 5]), dice.randrange(1, 6)) for _ in range(dice.randrange(4))]
            self.transaction(batches, dice.choice([0, 0, 2]))

    def next(self, anchor_bytes: int, *, thins: bool = True) -> ThinningStep:
        """What a worker would do now."""
        pieces = self.stored.values()
        step = next_step(
            MapOnRecord(
                ranges=[each for each in pieces if isinstance(each, OffsetRangesWritten)],
                anchors=[each for each in pieces if isinstance(each, OffsetAnchorsWritten)],
                log_start=DestinationOffset(self.log_start),
                unpublished=self.last.size,
                thins=thins,
                looked_until=self.looked_until,
                anchor_bytes=anchor_bytes,
            )
        )
        self.looked_until = max(self.looked_until, step.looked_until)
        return step

    def write(self, step: ThinningStep) -> None:
        """The first half of a step."""
        self.stored |= {each.key: each for each in step.written}

    def delete(self, step: ThinningStep) -> None:
        """The second half of it."""
        for key in step.deleted:
            self.stored.pop(key, None)

    def thinned(self, anchor_bytes: int) -> int:
        """Do all steps that are due; how many."""
        for done in range(1_000):
            step = self.next(anchor_bytes)
            if not step.written and not step.deleted:
                return done
            self.write(step)
            self.delete(step)
        raise AssertionError("it never ends")

    def map(self) -> OffsetMap:
        """As readers have it before any walk."""
        return OffsetPolicy.of(StateView(dict(self.stored)), SPEC, {AT: self.last}).map_of(AT)

    def walk(self, start: int, until: int) -> Walked:
        """As a broker would tell it."""
        places: list[PlacedRecords] = []
        for offset in range(start, until):
            if offset not in self.log:
                return Walked(tuple(places), DestinationOffset(offset))
            if self.log[offset]:
                places.append(PlacedRecords(DestinationOffset(offset), 1))
        return Walked(tuple(places))

    def expanded(self, span: AnchoredSpan) -> tuple[OffsetRange, ...] | str:
        """What a walk of a span says."""
        if span.is_lost:
            return "lost"
        if span.is_known:
            return known(span)
        start = DestinationOffset(max(span.start.destination, self.log_start))
        if start >= span.until.destination:
            return "gone"
        return expanded(span, self.walk(start, span.until.destination), start)

    def detailed(self) -> OffsetMap:
        """The map after a walk of every span."""
        found = self.map()
        return found.walked({span: self.expanded(span) for span in found.unwalked})
