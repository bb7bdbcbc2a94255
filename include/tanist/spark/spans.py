"""How reading is spread over tasks: few and large, for a Python task costs 0.12 CPU-seconds before its first byte."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from tanist.domain.names import SourceOffset
from tanist.domain.offset_map import OffsetMap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from uuid import UUID

    from tanist.domain.names import ProducerId, TopicPartition
    from tanist.spark.columns import Numbers

_IDENTICAL: Final = OffsetMap()
WORTH_A_TASK: Final = 250_000
"""Offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """Offsets of one log, from `start` up to, not including, `until`: the batches that begin there.

    `first`: the one that `start` lies inside of as well. `map`: where a batch lies in the copy. `only`: the producer
    whose batches count from `only_from` on, None: anybody's; before it lies history, where all count. `skipped`:
    offsets at which no batch counts. `end`: of the copy; what would lie behind it is `pending`. `edge`: where the
    copy's log begins, as an offset of this one; a batch that it cuts is two rows. `whole`: where the span ends that
    this is a part of, None: it is no part. `topic_id`: the topic that is meant; one of that name that was created
    later is another. `undecided`: it lies behind the last stable offset, to be read all the same.
    """

    partition: TopicPartition
    start: int
    until: int
    first: bool = True
    map: OffsetMap = _IDENTICAL
    only: ProducerId | None = None
    only_from: int = 0
    skipped: tuple[tuple[int, int], ...] = ()
    end: int | None = None
    edge: int = 0
    whole: int | None = None
    topic_id: UUID | None = None
    undecided: bool = False
    copy: TopicPartition | None = None
    """Its name at the copy; None: the same."""

    @property
    def at(self) -> TopicPartition:
        """By which name rows of either side tell it: that of the copy."""
        return self.copy or self.partition

    @property
    def ends(self) -> int:
        """The offset behind the last record that counts: a batch that begins before `until` may reach beyond it."""
        return self.until if self.whole is None else self.whole

    def counts(self, offset: int, producer_id: int) -> bool:
        """Whether a batch that begins at `offset` and has this producer is compared."""
        ours = self.only in {None, producer_id} or offset < self.only_from
        return ours and not any(start <= offset < until for start, until in self.skipped)

    def place(self, offset: int) -> int:
        """Where in the copy the batch or record at `offset` lies, or must lie."""
        return self.map.locate(SourceOffset(offset)) if self.map.runs else offset

    def places(self, offsets: Numbers) -> Numbers:
        """Where in the copy the records at `offsets` lie, or must lie."""
        if not self.map.runs:
            return offsets
        sources = np.array([run.source for run in self.map.runs], np.int64)
        shifts = np.array([0, *(run.shift for run in self.map.runs)], np.int64)
        return offsets + shifts[np.searchsorted(sources, offsets, side="right")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """What is read of both sides, one span a partition, in the same order."""

    source: tuple[LogSpan, ...]
    destination: tuple[LogSpan, ...]

    def of(self, partitions: Collection[TopicPartition]) -> Spans:
        """Those of `partitions`, by their names at the copy."""
        ours, theirs = (
            tuple(each for each in side if each.at in partitions) for side in (self.source, self.destination)
        )
        return Spans(source=ours, destination=theirs)

    def __str__(self) -> str:
        ours, theirs = (sum(span.until - span.start for span in side) for side in (self.source, self.destination))
        return f"{ours:,} offsets of the source, {theirs:,} of the copy"


def cut(spans: Iterable[LogSpan], most: int) -> tuple[tuple[LogSpan, ...], ...]:
    """At most `most` tasks of about the same number of offsets; empty spans are nobody's task."""
    todo = [span for span in spans if span.start < span.until]
    total = sum(span.until - span.start for span in todo)
    tasks = max(1, min(most, -(-total // WORTH_A_TASK)))
    piece = max(1, -(-total // tasks))
    pieces = [part for span in todo for part in _pieces(span, piece)]
    return tuple(tuple(task) for task in _spread(pieces, tasks) if task)


def _pieces(span: LogSpan, size: int) -> Iterable[LogSpan]:
    """`span` in equal parts of about `size`."""
    length = span.until - span.start
    parts = max(1, round(length / size))
    edges = [span.start + length * n // parts for n in range(parts + 1)]
    for start, until in pairwise(edges):
        yield replace(span, start=start, until=until, first=span.first and start == span.start, whole=span.ends)


def _spread(pieces: Sequence[LogSpan], tasks: int) -> list[list[LogSpan]]:
    """The largest first, each to whoever has the least."""
    loads = [0] * tasks
    spread: list[list[LogSpan]] = [[] for _ in range(tasks)]
    for piece in sorted(pieces, key=lambda each: each.start - each.until):
        least = loads.index(min(loads))
        loads[least] += piece.until - piece.start
        spread[least].append(piece)
    return spread
