"""A fetcher thread: copies many partitions of one source broker, with sockets and buffers of its own.

Each round: apply the assignment, recover partitions, send the next fetch, append the batches of the previous one
meanwhile, take the answer. Two buffers, one being filled, one being sent; no queue: TCP is the back-pressure. Nothing
is sent again from a buffer: after any unexpected answer both logs are read. The engine reads and appends partitions;
only this thread changes their phase.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell, PartitionBroken, SourceTruncated, Stopped, TanistError
from tanist.domain.promotions import copy_blocked_reason
from tanist.domain.records import STATE_TOPIC, OffsetMode
from tanist.domain.recovery import SourceBehind
from tanist.domain.state_view import NOTHING_YET
from tanist.domain.states import Finding
from tanist.fetcher.engines.batches.engine import BatchEngine
from tanist.fetcher.engines.engine import P, Phase
from tanist.fetcher.engines.transactions.engine import TransactionEngine
from tanist.fetcher.rounds import RoundThread
from tanist.kafka.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tanist.domain.appending import Halt
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import Assigned, FetcherThreadKey, PartitionKey, Report
    from tanist.fetcher.engines.engine import CopyEngine
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.ports.clock import Deadline


class Gate:
    """Owned by the fetcher thread."""

    def __init__(self, source: Router, tools: FetcherThreadTools) -> None:
        self._source, self._tools = source, tools

    def look(self, by: Deadline) -> Callable[[str], PartitionBroken | None]:
        """Why each topic must not be copied.

        Raises:
            TanistError: a cluster does not answer, or we lack READ on its state topic; then nothing is copied.
        """
        reported, view = self._source_state(by), self._tools.state(by)
        return lambda topic: copy_blocked_reason(view, reported, self._tools.spec.mirror, topic)

    def _source_state(self, by: Deadline) -> StateView:
        """The source's view; most sources have no state topic, which one request shows."""
        self._source.refresh([STATE_TOPIC], by)
        error = self._source.topics()[STATE_TOPIC].error
        if isinstance(error, UnknownTopicOrPartition):
            return NOTHING_YET
        if error is not None:
            raise error
        return self._tools.source_state(by)


FIRST_BACK_OFF: Final = 0.05  # seconds; doubled after each failure in a row
LAST_BACK_OFF: Final = 5.0
SETTLED_AFTER_SECONDS: Final = 6.0
"""Copying without a halt for longer than the longest pause: what halted it before has passed."""
TRUNCATED_AFTER_SECONDS: Final = 30.0
"""A source that ends before the copied position for longer than this has lost records; a new leader may briefly."""


@dataclass(slots=True)
class PartitionFetchState(Generic[P]):
    """Only the fetcher's thread changes this. All times are monotonic seconds."""

    partition: P
    phase: Phase = Phase.RECOVER
    error: TanistError | None = None
    """The error that prevents copying; after a recovery, the one that halted it, until copying has made progress."""
    failing_since: float | None = None
    failures: int = 0
    """Consecutive failures."""
    retry_at: float = 0.0
    behind_since: float | None = None
    """Since when the source has been shorter than the copy; None: it is not."""
    copying_since: float | None = None
    resumed_at: int | None = None
    """Where copying resumed; None: not yet, as far as is reported."""
    _halted: bool = False
    """`error` has halted copying; else it prevented a recovery."""

    def due(self, now: float) -> bool:
        """Whether it is time to recover."""
        return (
            self.phase is Phase.RECOVER
            and not self.partition.in_flight
            and not self.partition.assigned.draining
            and self.retry_at <= now
        )

    @property
    def fetchable(self) -> bool:
        """Whether more may be fetched."""
        partition = self.partition
        return self.phase is Phase.COPY and partition.halted is None and not partition.assigned.draining

    @property
    def finding(self) -> Finding | None:
        """The finding for the state machine."""
        if self.phase is Phase.BROKEN:
            return Finding.BROKEN
        if self.partition.assigned.draining and self.partition.quiet:
            return Finding.QUIET
        return Finding.ALIGNED if self.phase is Phase.COPY else None

    def recovered(self, outcome: Phase | TanistError, now: float) -> None:
        """A recovery has ended."""
        if isinstance(outcome, TanistError):
            self._halted = False
            self._failed(self._lasting(outcome, now), now)
            return
        self.phase = outcome
        if outcome is Phase.COPY:
            self.behind_since, self.copying_since, self.resumed_at, self.failures = None, now, None, 0
            if not self._halted:
                self._clear()

    def halted(self, halt: Halt) -> None:
        """The engine has stopped copying it."""
        self.phase = Phase.RECOVER
        self._halted = halt.why is not None
        if halt.why is not None:
            self._failed(halt.why, halt.at)

    def noticed(self, position: int | None, now: float) -> bool:
        """Whether what halted copying before has passed. `position`: the source is copied up to here.

        Both logs can be compared although nothing can be appended, for example without WRITE. So a recovery alone is
        no success: something must have been copied since, or nothing has gone wrong for a while.
        """
        if self.phase is not Phase.COPY or self.error is None or self.copying_since is None:
            return False
        self.resumed_at = position if self.resumed_at is None else self.resumed_at
        moved = position is not None and self.resumed_at is not None and position > self.resumed_at
        if not moved and now - self.copying_since < SETTLED_AFTER_SECONDS:
            return False
        self._clear()
        return True

    def _clear(self) -> None:
        self.error, self.failing_since, self.failures, self._halted = None, None, 0, False

    def _failed(self, why: TanistError, now: float) -> None:
        self.phase = Phase.BROKEN if isinstance(why, PartitionBroken) else Phase.RECOVER
        self.retry_at = now + min(LAST_BACK_OFF, FIRST_BACK_OFF * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self.failing_since = now if self.error is None else self.failing_since
        self.error = why

    def _lasting(self, why: TanistError, now: float) -> TanistError:
        if isinstance(why, SourceBehind):
            self.behind_since = now if self.behind_since is None else self.behind_since
            seconds = now - self.behind_since
            if seconds > TRUNCATED_AFTER_SECONDS:
                return SourceTruncated(f"{why.reason}, for {seconds:.0f} s")
        elif not isinstance(why, CouldNotTell):
            self.behind_since = None
        return why


ENGINES: Final[Mapping[OffsetMode, Callable[..., CopyEngine[Any]]]] = MappingProxyType(
    {OffsetMode.IDENTICAL: BatchEngine, OffsetMode.MAPPED: TransactionEngine}
)
"""How a fetcher thread creates its engine: from its routers (source, destination), its broker and its tools."""
IDLE_SECONDS: Final = 0.1
WHOLE_SECONDS: Final = 5.0
"""How often something is done for each partition, also for those that rest: their reports are as old as that."""
GATE_SECONDS: Final = 5.0
"""Timeout for reading both state topics."""


class FetcherThread(RoundThread):
    """Set `assignment` from any thread; read `reports` from any thread; `stop` it, then join."""

    def __init__(self, key: FetcherThreadKey, tools: FetcherThreadTools) -> None:
        super().__init__(f"lane-{key.mirror}-{key.broker}-{key.number}")
        self.key = key
        self.assignment: Mapping[PartitionKey, Assigned] = {}
        self.adopted: Mapping[PartitionKey, Assigned] = {}
        """The assignment in force here; if it is `assignment` itself, no other partition is held any more."""
        self.reports: Mapping[PartitionKey, Report] = {}
        self.stale_leaders = False
        """Whether leaders of the source have moved, so that partitions should be assigned again."""
        self._claims = tools.claims
        self._clock = tools.clock
        self._states: dict[PartitionKey, PartitionFetchState[Any]] = {}
        self._active: dict[PartitionKey, PartitionFetchState[Any]] = {}
        """Those of them that something has to be done for in each round."""
        self._whole_at = float("-inf")
        pinned = tools.spec.source_cluster_id or None, tools.spec.destination_cluster_id or None
        self._source = Router(tools.source, tools.client_id, pinned[0], tools.totals.source)
        self._destination = Router(tools.destination, tools.client_id, pinned[1], tools.totals.destination)
        self._gate = Gate(self._source, tools)
        self._engine = ENGINES[tools.spec.offsets]((self._source, self._destination), key.broker, tools)

    def may_hold(self, copied: PartitionKey) -> bool:
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
        whole = self._adopt() or self._clock.monotonic() >= self._whole_at
        if whole:
            self._whole_at, self._active = self._clock.monotonic() + WHOLE_SECONDS, dict(self._states)
        states = list(self._active.values())
        self._recover(states)
        waiting = any(state.phase in {Phase.RECOVER, Phase.FILL_START} for state in states)
        partitions = [state.partition for state in states]
        self._engine.leave([state.partition for state in states if not state.fetchable])
        incoming = self._engine.read([state.partition for state in states if state.fetchable], hurry=waiting)
        self._engine.append(partitions, until=incoming.ready if incoming else self._idled())
        if incoming:
            incoming.take()
        elif not any(state.phase is Phase.FILL_START for state in states):
            self._stopping.wait(IDLE_SECONDS)
        self._engine.idle(partitions, whole=whole)
        self._follow_news()
        self._look_for_halts(self._active.values())
        self._publish(whole=whole)
        self._active = {copied: state for copied, state in self._active.items() if not self._rests(state)}

    def _follow_news(self) -> None:
        for partition in self._engine.news():
            state = self._states.get(partition.assigned.key)
            if state is not None and state.partition is partition:
                self._active[partition.assigned.key] = state

    def _rests(self, state: PartitionFetchState[Any]) -> bool:
        """Whether nothing has to be done for it before it has news, or all are looked at again."""
        if state.phase is Phase.BROKEN:
            return not state.partition.in_flight
        return state.fetchable and state.error is None and self._engine.rests(state.partition)

    def _idled(self) -> Callable[[], bool]:
        """Whether `IDLE_SECONDS` have passed since this was called: nothing was fetched, and others may be due."""
        until = self._clock.monotonic() + IDLE_SECONDS
        return lambda: self._clock.monotonic() >= until

    def _recover(self, states: Sequence[PartitionFetchState[Any]]) -> None:
        now = self._clock.monotonic()
        due = [state for state in states if state.due(now)]
        self._engine.prepare([state.partition for state in due])
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

    def _look_for_halts(self, states: Iterable[PartitionFetchState[Any]]) -> None:
        for state in states:
            if state.phase is Phase.COPY and (halt := state.partition.halted):
                state.halted(halt)

    def _adopt(self) -> bool:
        """Apply the assignment; False: it was in force already."""
        wanted = self.assignment
        if wanted is self.adopted:
            return False
        for copied in self._states.keys() - wanted.keys():
            leaving = self._states[copied].partition
            if leaving.in_flight:  # it lands first: whoever is next must find it in the log
                leaving.assign(replace(leaving.assigned, draining=True))
            else:
                self._engine.leave([leaving])
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
        return True

    def _publish(self, *, whole: bool) -> None:
        """Of what rests the report stays: the same object."""
        now = self._clock.monotonic()
        fresh = {copied: self._report(state, now) for copied, state in self._active.items()}
        if whole or fresh:
            self.reports = fresh if whole else {**self.reports, **fresh}
        self.stale_leaders = self._engine.stale_leaders

    def _report(self, state: PartitionFetchState[Any], now: float) -> Report:
        report = self._engine.report(state.partition, state)
        return self._engine.report(state.partition, state) if state.noticed(report.position, now) else report


def _never() -> bool:
    return False
