"""What runs tell of a partition, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.spark.reconciliation.exclusive import committed, held
from tanist.spark.reconciliation.runs import moved

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from tanist.domain.exclusive import ExclusiveRange
    from tanist.spark.reconciliation.runs import Runs


@dataclass(frozen=True, slots=True)
class Counts:
    """Of committed records; of each see `tanist.domain.reconciliation.result.ReconciledPartition`."""

    copied: int
    moved: int
    lost: int
    behind: int
    repeated: int
    runs: int
    only_source: int = 0
    only_destination: int = 0

    @classmethod
    def of(
        cls, runs: Runs, extras: Runs, source_end: int, destination_end: int, ranges: Sequence[ExclusiveRange] = ()
    ) -> Self:
        """The numbers up to the last stable offsets of both. No lost run and no extra reaches across a range's end."""
        below = runs.where(runs.source < source_end)
        copied, lost = below.copied, below.lost
        here, there = held(ranges, lost.source, at_source=True), held(ranges, extras.destination, at_source=False)
        missing, again = lost.where(~here), extras.where(~there).again
        last = copied.ends[-1] if len(copied) else 0
        return cls(
            copied=int(copied.records.sum()),
            moved=int(copied.records[moved(copied)].sum()),
            lost=int(missing.records.sum()),
            behind=int(missing.records[missing.source >= last].sum()),
            repeated=committed(again, destination_end),
            runs=len(copied),
            only_source=int(lost.records[here].sum()),
            only_destination=committed(extras.where(there), destination_end),
        )
