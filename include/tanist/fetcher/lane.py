"""One lane: a thread that copies many partitions of one source broker, with sockets and buffers of its own.

Each round: adopt the assignment, recover what must be recovered, post the next fetch, append what the last one brought
while the next is on its way, receive it. Two buffers, one being filled, one being sent; no queue: TCP is the
back-pressure. Nothing is ever sent again from a buffer: after any unexpected answer both logs are read.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped
from tanist.fetcher.appending import Appending
from tanist.fetcher.copy import PartitionCopy, Phase
from tanist.fetcher.gate import Gate
from tanist.fetcher.reading import Reading
from tanist.fetcher.recovery import Recovery
from tanist.fetcher.runs import OffsetRuns
from tanist.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.fetcher.assignment import Assigned, Copied, LaneKey, Report
    from tanist.fetcher.tools import LaneTools

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 0.1


class Lane(threading.Thread):
    """Set `assignment` from any thread; read `reports` from any thread; `stop` it, then join."""

    def __init__(self, key: LaneKey, tools: LaneTools) -> None:
        super().__init__(name=f"lane-{key.mirror}-{key.broker}-{key.number}", daemon=True)
        self.key = key
        self.assignment: Mapping[Copied, Assigned] = {}
        self.adopted: Mapping[Copied, Assigned] = {}
        """The assignment that this lane acts upon; when it is `assignment` itself, nothing else is held any more."""
        self.reports: Mapping[Copied, Report] = {}
        self.stale_leaders = False
        """The source's leaders have moved: whoever assigns lanes should look."""
        self.died: BaseException | None = None
        self._tools = tools
        self._copies: dict[Copied, PartitionCopy] = {}
        self._stopping = threading.Event()
        self._source = Router(tools.source, tools.client_id)
        self._destination = Router(tools.destination, tools.client_id)
        runs = OffsetRuns(tools.spec, tools.maps, tools.claims)
        self._recovery = Recovery((self._source, self._destination), runs, tools.clock, Gate(self._source, tools).look)
        self._reading = Reading(self._source, key.broker, tools.clock)
        self._appending = Appending(self._destination, runs, tools)

    def may_hold(self, copied: Copied) -> bool:
        """Whether this lane may be writing to a partition, as far as another thread can tell."""
        return self.is_alive() and (copied in self.assignment or self.adopted is not self.assignment)

    def stop(self, *, at_once: bool = False) -> None:
        """End after this round; `at_once`: end whatever it waits for, too."""
        self._stopping.set()
        if at_once:
            self._source.interrupt()
            self._destination.interrupt()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._round()
            self._appending.append((), until=lambda: False)  # what is in flight lands
        except Stopped:
            pass
        except BaseException as bug:
            log.exception("lane died", extra={"lane": self.name})
            self.died = bug
        finally:
            self._source.close()
            self._destination.close()

    # ── one round ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _round(self) -> None:
        self._adopt()
        copies = list(self._copies.values())
        self._recovery.recover([copy for copy in copies if self._due(copy)])
        self._appending.align([copy for copy in copies if copy.phase is Phase.ALIGN and not copy.in_flight])
        waiting = any(copy.phase in {Phase.RECOVER, Phase.ALIGN} for copy in copies)
        posted = self._reading.post([copy for copy in copies if copy.fetchable], hurry=waiting)
        self._appending.append(copies, until=self._reading.readable)
        if posted:
            self._reading.receive()
        elif not any(copy.phase is Phase.ALIGN for copy in copies):
            self._stopping.wait(IDLE_SECONDS)
        self._appending.tend(copies)
        self._publish(copies)

    def _due(self, copy: PartitionCopy) -> bool:
        return (
            copy.phase is Phase.RECOVER
            and not copy.in_flight
            and not copy.assigned.draining
            and copy.retry_at <= self._tools.clock.monotonic()
        )

    def _adopt(self) -> None:
        wanted = self.assignment
        for copied in self._copies.keys() - wanted.keys():
            leaving = self._copies[copied]
            if leaving.in_flight:  # it lands first: whoever is next must find it in the log
                leaving.assigned = replace(leaving.assigned, draining=True)
            else:
                del self._copies[copied]
        for copied, assigned in wanted.items():
            held = self._copies.get(copied)
            if held is None:
                spent = not self._tools.claims.first_use(assigned)
                self._copies[copied] = PartitionCopy(assigned, filler_epoch=assigned.claim_epoch, filler_spent=spent)
            elif held.assigned is not assigned:
                held.assigned = assigned
                held.filler_epoch = max(held.filler_epoch, assigned.claim_epoch)
        if self._copies.keys() <= wanted.keys():
            self.adopted = wanted

    def _publish(self, copies: list[PartitionCopy]) -> None:
        self.reports = {copy.assigned.copied: copy.report() for copy in copies}
        self.stale_leaders = self._reading.stale
