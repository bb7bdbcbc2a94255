"""What runs tell of a partition, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tanist.spark.reconciliation.runs import moved

if TYPE_CHECKING:
    from typing import Self

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

    @classmethod
    def of(cls, runs: Runs, extras: Runs, source_end: int, destination_end: int) -> Self:
        """The numbers up to the last stable offsets of both."""
        committed = runs.where(runs.source < source_end)
        copied, lost, again = committed.copied, committed.lost, extras.again
        last = copied.ends[-1] if len(copied) else 0
        return cls(
            copied=int(copied.records.sum()),
            moved=int(copied.records[moved(copied)].sum()),
            lost=int(lost.records.sum()),
            behind=int(lost.records[lost.source >= last].sum()),
            repeated=int(np.clip(destination_end - again.destination, 0, again.length).sum()),
            runs=len(copied),
        )
