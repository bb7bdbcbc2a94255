"""The engine that copies whole batches, byte for byte, runs of small ones as one; the `CopyEngine` of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.gap_markers import MarkerEpoch
from tanist.fetcher.engines.batches.appending import Appending
from tanist.fetcher.engines.batches.partition import BatchPartition
from tanist.fetcher.engines.batches.reading import SourceReading
from tanist.fetcher.engines.batches.recovery import Recovery
from tanist.fetcher.runs import OffsetRuns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import BrokerId
    from tanist.fetcher.assignment import Assigned, Report
    from tanist.fetcher.engines.engine import Incoming, Phase, Trouble
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.wire.router import Router


class BatchEngine:
    """Owned by the fetcher thread of one source broker, as are both routers."""

    def __init__(self, routers: tuple[Router, Router], broker: BrokerId, tools: FetcherThreadTools) -> None:
        source, destination = routers
        self._totals = tools.totals
        runs = OffsetRuns(tools.spec, tools.maps, tools.claims)
        self._recovery = Recovery(routers, runs, tools)
        self._reading = SourceReading(source, broker, tools.clock)
        self._appending = Appending(destination, runs, tools)

    @property
    def stale_leaders(self) -> bool:
        return self._reading.stale

    def begin(self, assigned: Assigned, *, first_use: bool) -> BatchPartition:
        totals = self._totals.of_topic(assigned.partition.topic)
        return BatchPartition(assigned, MarkerEpoch(assigned.claim_epoch, spent=not first_use), totals=totals)

    def prepare(self, partitions: Sequence[BatchPartition]) -> None:
        """Nothing: leaders compare the epoch of this engine's producer themselves."""

    def recover(self, partitions: Sequence[BatchPartition]) -> Sequence[Phase | TanistError]:
        """Recover each partition; one that must fill up to the log start writes its first chunk at once."""
        fresh = [each for each in partitions if each.start_fill is None]
        found = dict(zip(map(id, fresh), self._recovery.recover(fresh), strict=True))
        for each in partitions:
            if each.start_fill is not None:
                found[id(each)] = self._appending.fill_start(each)
        return [found[id(each)] for each in partitions]

    def read(self, partitions: Sequence[BatchPartition], *, hurry: bool) -> Incoming | None:
        return self._reading if self._reading.post(partitions, hurry=hurry) else None

    def append(self, partitions: Sequence[BatchPartition], until: Callable[[], bool]) -> None:
        self._appending.append(partitions, until)

    def idle(self, partitions: Sequence[BatchPartition]) -> None:
        self._appending.check_idle(partitions)
        self._reading.look_at_true_ends(partitions)

    def report(self, partition: BatchPartition, trouble: Trouble) -> Report:
        return partition.report(trouble)
