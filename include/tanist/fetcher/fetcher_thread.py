"""A fetcher thread: copies many partitions of one source broker, with sockets and buffers of its own.

Each round: apply the assignment, recover partitions, send the next fetch, append the batches of the previous one
meanwhile, take the answer. Two buffers, one being filled, one being sent; no queue: TCP is the back-pressure. Nothing
is sent again from a buffer: after any unexpected answer both logs are read. The engine reads and appends partitions;
only this thread changes their phase.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.records import Engine
from tanist.fetcher.engines.batches.engine import BatchEngine
from tanist.fetcher.engines.engine import Phase
from tanist.fetcher.fetch_state import PartitionFetchState
from tanist.fetcher.gate import Gate
from tanist.fetcher.rounds import RoundThread
from tanist.kafka.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.fetcher.assignment import Assigned, FetcherThreadKey, MirrorPartition, Report
    from tanist.fetcher.engines.engine import CopyEngine
    from tanist.fetcher.tools import FetcherThreadTools

ENGINES: Final[Mapping[Engine, Callable[..., CopyEngine[Any]]]] = MappingProxyType({Engine.BATCHES: BatchEngine})
"""How a fetcher thread creates its engine: from its routers (source, destination), its broker and its tools."""
IDLE_SECONDS: Final = 0.1
GATE_SECONDS: Final = 5.0
"""Timeout for reading both state topics."""


class FetcherThread(RoundThread):
    """Set `assignment` from any thread; read `reports` from any thread; `stop` it, then join."""

    def __init__(self, key: FetcherThreadKey, tools: FetcherThreadTools) -> None:
        super().__init__(f"lane-{key.mirror}-{key.broker}-{key.number}")
        self.key = key
        self.assignment: Mapping[MirrorPartition, Assigned] = {}
        self.adopted: Mapping[MirrorPartition, Assigned] = {}
        """The assignment in force here; if it is `assignment` itself, no other partition is held any more."""
        self.reports: Mapping[MirrorPartition, Report] = {}
        self.stale_leaders = False
        """Whether leaders of the source have moved, so that partitions should be assigned again."""
        self._claims = tools.claims
        self._clock = tools.clock
        self._states: dict[MirrorPartition, PartitionFetchState[Any]] = {}
        pinned = tools.spec.source_cluster_id or None, tools.spec.destination_cluster_id or None
        self._source = Router(tools.source, tools.client_id, pinned[0])
        self._destination = Router(tools.destination, tools.client_id, pinned[1])
        self._gate = Gate(self._source, tools)
        self._engine = ENGINES[tools.spec.engine]((self._source, self._destination), key.broker, tools)

    def may_hold(self, copied: MirrorPartition) -> bool:
        """Whether this thread may be writing to a partition; callable from other threads."""
        return self.is_alive() and (copied in self.assignment or self.adopted is not self.assignment)

    def stop(self, *, at_once: bool = False) -> None:
        """End after this round; `at_once`: also interrupt what it waits for."""
        super().stop()
        if at_once:
            self._source.interrupt()
            self._destination.interrupt()

    def _finish(self) -> None:
        """Complete batches in flight."""
        self._engine.append((), until=_never)

    def _close(self) -> None:
        self._source.close()
        self._destination.close()

    # ── one round ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _round(self) -> None:
        self._adopt()
        states = list(self._states.values())
        self._recover(states)
        waiting = any(state.phase in {Phase.RECOVER, Phase.FILL_START} for state in states)
        partitions = [state.partition for state in states]
        incoming = self._engine.read([state.partition for state in states if state.fetchable], hurry=waiting)
        self._engine.append(partitions, until=incoming.ready if incoming else _never)
        if incoming:
            incoming.take()
        elif not any(state.phase is Phase.FILL_START for state in states):
            self._stopping.wait(IDLE_SECONDS)
        self._engine.idle(partitions)
        self._look_for_halts(states)
        self._publish()

    def _recover(self, states: Sequence[PartitionFetchState[Any]]) -> None:
        now = self._clock.monotonic()
        due = [state for state in states if state.due(now)]
        ready = [*self._admitted(due), *(state for state in states if state.phase is Phase.FILL_START)]
        if ready:
            outcomes = self._engine.recover([state.partition for state in ready])
            now = self._clock.monotonic()
            for state, outcome in zip(ready, outcomes, strict=True):
                state.recovered(outcome, now)

    def _admitted(self, due: Sequence[PartitionFetchState[Any]]) -> list[PartitionFetchState[Any]]:
        """The partitions that may still be copied; reads both state topics again before every recovery."""
        if not due:
            return []
        try:
            barred = self._gate.look(self._clock.deadline(GATE_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            for state in due:
                state.recovered(why, self._clock.monotonic())
            return []
        admitted = []
        for state in due:
            if broken := barred(state.partition.assigned.partition.topic):
                state.recovered(broken, self._clock.monotonic())
            else:
                admitted.append(state)
        return admitted

    def _look_for_halts(self, states: Sequence[PartitionFetchState[Any]]) -> None:
        for state in states:
            if state.phase is Phase.COPY and (halt := state.partition.halted):
                state.halted(halt)

    def _adopt(self) -> None:
        wanted = self.assignment
        for copied in self._states.keys() - wanted.keys():
            leaving = self._states[copied].partition
            if leaving.in_flight:  # it lands first: whoever is next must find it in the log
                leaving.assign(replace(leaving.assigned, draining=True))
            else:
                del self._states[copied]
        for copied, assigned in wanted.items():
            held = self._states.get(copied)
            if held is None:
                first_use = self._claims.first_use(assigned)
                self._states[copied] = PartitionFetchState(self._engine.begin(assigned, first_use=first_use))
            elif held.partition.assigned is not assigned:
                held.partition.assign(assigned)
        if self._states.keys() <= wanted.keys():
            self.adopted = wanted

    def _publish(self) -> None:
        now = self._clock.monotonic()
        self.reports = {copied: self._report(state, now) for copied, state in self._states.items()}
        self.stale_leaders = self._engine.stale_leaders

    def _report(self, state: PartitionFetchState[Any], now: float) -> Report:
        report = self._engine.report(state.partition, state)
        return self._engine.report(state.partition, state) if state.noticed(report.position, now) else report


def _never() -> bool:
    return False
