"""Anchors of a mapped copy: every now and then where a record lies, and which source offsets have none in between.

Between two anchors the log of the copy gives back the rest: its records in their order are those of the source. A walk
over it says where they are; the n-th of them is at the n-th source offset that has a record. So nothing is stored of
our own markers and aborted attempts, only what the source left out: that is in no log but its own.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.mapped_runs import OF_ONE_RANGE, decoded, encoded, records_of
from tanist.domain.names import DestinationOffset, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.offset_map import AnchoredSpan, OffsetRange
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@stored("anchors", "mirror", "partition", "source", "until", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAnchorsWritten(MirrorRecord):
    """Anchors of a mapped copy that follow each other, from `source` to `until`. In `__mirror_offsets`.

    `anchors`: as `encoded` has them, at least two. `numbers`: the same of ranges that relate source offsets to how many
    records of the copy lie between the first anchor and them; a range begins behind offsets that the source left out.
    The key has both ends, so that no record ever replaces one that says more.
    """

    mirror: MirrorName
    partition: MirrorPartition
    source: SourceOffset
    until: SourceOffset
    anchors: str
    numbers: str
    mirror_id: str = ""

    @property
    def first(self) -> OffsetRange:
        """The first of them. Raises UnreadableRanges."""
        return decoded(self.anchors[:OF_ONE_RANGE], most=1)[0]

    @property
    def spans(self) -> tuple[AnchoredSpan, ...]:
        """What lies between the anchors. Raises UnreadableRanges."""
        anchors, numbers = decoded(self.anchors), decoded(self.numbers)
        begins = [each.source for each in numbers]
        spans = []
        for start, until in pairwise(anchors):
            first, behind = bisect_right(begins, start.source) - 1, bisect_right(begins, until.source - 1)
            inside = numbers[max(0, first) : behind + 1]
            spans.append(AnchoredSpan(start, until, _from(inside, start.source, until.source)))
        return tuple(spans)


class PlacedRecords(NamedTuple):
    """So many records of a copy that follow each other without a gap, the first at `first`."""

    first: DestinationOffset
    records: int


@dataclass(frozen=True, slots=True)
class Walked:
    """What was read of a span of a copy: where the records lie that a reader of committed records sees.

    `gap`: the first offset that neither a record nor a marker nor an aborted batch has, which a cleaner has removed;
    None: all are there. `plain`: the first record that is in no transaction, and so may be there again; None: none is.
    """

    places: tuple[PlacedRecords, ...]
    gap: DestinationOffset | None = None
    plain: DestinationOffset | None = None


def anchored(
    mirror: MirrorName, mirror_id: str, at: MirrorPartition, runs: Sequence[OffsetRange], anchors: Sequence[OffsetRange]
) -> OffsetAnchorsWritten:
    """`anchors` in place of `runs`, of which they are some; the first and the last are among them."""
    numbers: list[OffsetRange] = []
    count = 0
    for run, following in pairwise(runs):
        if not numbers or numbers[-1].shift != count - run.source:
            numbers.append(OffsetRange(run.source, DestinationOffset(count)))
        count += records_of(run, following)
    numbers.append(OffsetRange(runs[-1].source, DestinationOffset(count)))
    return OffsetAnchorsWritten(
        mirror=mirror,
        mirror_id=mirror_id,
        partition=at,
        source=runs[0].source,
        until=runs[-1].source,
        anchors=encoded(anchors),
        numbers=encoded(numbers),
    )


def joined(pieces: Sequence[OffsetAnchorsWritten]) -> OffsetAnchorsWritten:
    """One record of several, each of which begins where the one before ends. Raises UnreadableRanges."""
    anchors: list[OffsetRange] = []
    numbers: list[OffsetRange] = []
    for each in pieces:
        before = numbers.pop().destination if numbers else 0
        anchors += decoded(each.anchors)[1 if anchors else 0 :]
        for one in decoded(each.numbers):
            there = OffsetRange(one.source, DestinationOffset(one.destination + before))
            if not numbers or numbers[-1].shift != there.shift or one.source == each.until:
                numbers.append(there)
    first = pieces[0]
    return OffsetAnchorsWritten(
        mirror=first.mirror,
        mirror_id=first.mirror_id,
        partition=first.partition,
        source=first.source,
        until=pieces[-1].until,
        anchors=encoded(anchors),
        numbers=encoded(numbers),
    )


def expanded(span: AnchoredSpan, walked: Walked, start: DestinationOffset) -> tuple[OffsetRange, ...] | str:
    """The ranges of a span; or why they cannot be told. `walked`: from `start` on, where its log began later.

    Of records before that it is only said that they are.
    """
    found = sum(each.records for each in walked.places)
    lost = span.records - found
    if walked.gap is not None:
        return f"offset {walked.gap} of the copy is gone: a cleaner has removed records"
    if walked.plain is not None:
        return f"the record at offset {walked.plain} of the copy is in no transaction: it may be there more than once"
    if lost < 0 or (lost > 0 and start <= span.start.destination):
        there = f"from offset {span.start.destination} up to {span.until.destination}"
        return f"the copy has {found} record(s) {there}, of {span.records} copied ones: somebody else was there"
    if lost > start - span.start.destination:
        return f"{lost} record(s) are missing behind offset {start} of the copy"
    before = (PlacedRecords(span.start.destination, lost),) if lost > 0 else ()
    return tuple(_related(span, (*before, *walked.places)))


def known(span: AnchoredSpan) -> tuple[OffsetRange, ...]:
    """The ranges of a span that `is_known`."""
    return tuple(_related(span, (PlacedRecords(span.start.destination, span.records),) if span.records else ()))


def _from(
    numbers: Sequence[OffsetRange], start: SourceOffset, until: SourceOffset
) -> tuple[tuple[SourceOffset, int], ...]:
    """`numbers`, cut at both ends and counted from `start` on."""
    first = _number(numbers, start)
    inside = ((each.source, each.destination - first) for each in numbers if start < each.source < until)
    return ((start, 0), *inside, (until, _number(numbers, until) - first))


def _number(numbers: Sequence[OffsetRange], at: SourceOffset) -> int:
    i = bisect_right(numbers, at, key=lambda each: each.source) - 1
    inside = numbers[i].destination + at - numbers[i].source
    return min(inside, numbers[i + 1].destination) if i + 1 < len(numbers) else inside


def _related(span: AnchoredSpan, places: Iterable[PlacedRecords]) -> Iterator[OffsetRange]:
    """The n-th record of the source is the n-th of the copy."""
    yield span.start
    sources, place = pairwise(span.numbers), iter(places)
    (source, number), (_, behind) = next(sources)
    first, count = next(place, (span.until.destination, 0))
    passed = 0
    while passed < span.records:
        while behind <= passed:
            (source, number), (_, behind) = next(sources)
        while count == 0:
            first, count = next(place)
        yield OffsetRange(SourceOffset(source + passed - number), DestinationOffset(first))
        taken = min(count, behind - passed)
        passed, first, count = passed + taken, DestinationOffset(first + taken), count - taken
    yield span.until
