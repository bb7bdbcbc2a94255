"""The engine that copies whole batches, byte for byte, runs of small ones as one; the `CopyEngine` of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.gap_markers import MarkerEpoch
from tanist.fetcher.engines.batches.appending import Appending
from tanist.fetcher.engines.batches.idle_checks import IdleChecks
from tanist.fetcher.engines.batches.partition import BatchPartition
from tanist.fetcher.engines.batches.reading import SourceReading
from tanist.fetcher.engines.batches.recovery import Recovery
from tanist.fetcher.engines.batches.true_ends import TrueEnds
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
        self._reading = SourceReading(source, broker, tools.clock, tools.throttle, rests=True)
        self._true_ends = TrueEnds(source, tools.clock)
        self._appending = Appending(destination, runs, tools)
        self._checks = IdleChecks(destination, tools.clock)

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
        going = [each for each in partitions if not self._appending.waits(each)]
        return self._reading if self._reading.post(going, hurry=hurry) else None

    def append(self, partitions: Sequence[BatchPartition], until: Callable[[], bool]) -> None:
        self._appending.append(partitions, until)

    def leave(self, partitions: Sequence[BatchPartition]) -> None:
        self._reading.leave(partitions)

    def rests(self, partition: BatchPartition) -> bool:
        return self._reading.rests(partition)

    def news(self) -> Sequence[BatchPartition]:
        found, self._reading.news = self._reading.news, []
        return found

    def idle(self, partitions: Sequence[BatchPartition], *, whole: bool) -> None:
        if whole:
            self._reading.settle()
            self._checks.check([each for each in partitions if not self._appending.waits(each)])
        if not self._reading.stale:
            self._true_ends.look(partitions, whole=whole)

    def report(self, partition: BatchPartition, trouble: Trouble) -> Report:
        return partition.report(trouble)
