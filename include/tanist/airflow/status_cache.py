"""The cache behind the status page: clusters are read at most every few seconds, however many users look.

Each destination is read in a thread of its own: one that does not answer neither delays the others nor blocks a page,
which waits `PATIENCE_SECONDS` and then shows the last result with its age.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tanist.airflow import connections
from tanist.airflow.connections import DESTINATIONS, destinations, evidence
from tanist.domain.envelope import envelope, error_items
from tanist.domain.errors import Misconfigured, NoStateTopic, TanistError, TimedOut
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.clock import Clock
from tanist.usecases.command import CommandContext
from tanist.usecases.status.status_view import aged, board_item
from tanist.wiring.registry import ClusterRegistry
from tanist.wiring.status import look

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 6.0
"""Longer than an observation takes if one source does not answer."""
READ_SECONDS: Final = 20.0

Items = Sequence[Mapping[str, Any]]


def read(destination: str) -> Items:
    """Observe all mirrors of a destination.

    Raises:
        TanistError: it cannot be read.
    """
    clock = SystemClock()
    with ClusterRegistry(connections.settings()) as world:
        run = CommandContext(clock=clock, by=clock.deadline(READ_SECONDS))
        found = look(world, world.connect(destination), None, run)
        return [board_item(seen, clock.now(), _evidence) for seen in found]


def _evidence(plan: str) -> str | None:
    """The evidence folder of the DAG; None: the failover was not run by Airflow."""
    folder = evidence() / plan
    return str(folder) if folder.is_dir() else None


@dataclass(slots=True)
class _Destination:
    """The last observation of one destination, and the one under way."""

    name: str
    items: Items = ()
    errors: Items = ()
    ended: float | None = None
    """When the last observation ended, successful or not (monotonic seconds)."""
    under_way: Future[Items] | None = None

    def collect(self, now: float) -> None:
        """Store a finished observation. If it failed, the previous one stays."""
        if self.under_way is None or not self.under_way.done():
            return
        done, self.under_way, self.ended = self.under_way, None, now
        try:
            self.items, self.errors = done.result(), ()
        except TanistError as refusal:
            self.errors = self._error_items(refusal)
        except Exception as bug:
            log.exception("reading failed", extra={"destination": self.name})
            self.errors = self._error_items(
                TanistError(f"reading {self.name!r} ended in {type(bug).__name__}: see the log")
            )

    def fresh(self, now: float) -> bool:
        return self.ended is not None and now - self.ended < FRESH_SECONDS

    def problems(self) -> Items:
        """Problems of the destination itself."""
        if self.ended is None:
            return self._error_items(
                TimedOut(f"{self.name!r} has not answered yet; the request times out after {READ_SECONDS:.0f} s")
            )
        return self.errors

    def is_only_source(self, sources: Container[str]) -> bool:
        """Whether it answers, has no mirror and never had one here, and is the source of one: that is no problem."""
        named = {problem["name"] for problem in self.errors}
        return not self.items and named == {NoStateTopic.name} and self.name in sources

    def _error_items(self, refusal: TanistError) -> Items:
        return [{**error, "destination": self.name} for error in error_items(refusal)]


class StatusCache:
    """`answer` may be called from any event loop."""

    def __init__(
        self,
        read: Callable[[str], Items] = read,
        names: Callable[[], Sequence[str]] = destinations,
        clock: Clock | None = None,
    ) -> None:
        self._read, self._names, self._clock = read, names, clock or SystemClock()
        self._seen: dict[str, _Destination] = {}

    async def answer(self) -> dict[str, Any]:
        """The one object that the page and its JSON are: what is known of every destination now.

        `only_source` of an item: its source is configured as a destination, too, and has no mirror of its own.
        """
        names = await asyncio.to_thread(self._names)
        seen = [self._seen.setdefault(name, _Destination(name)) for name in names]
        begun = [asyncio.wrap_future(future) for each in seen if (future := self._begun(each))]
        if begun:
            await asyncio.wait(begun, timeout=PATIENCE_SECONDS)
        for each in seen:
            each.collect(self._clock.monotonic())
        now = self._clock.now()
        sources = {str(item["source"]) for each in seen for item in each.items}
        only_sources = [each.name for each in seen if each.is_only_source(sources)]
        errors = [problem for each in seen if each.name not in only_sources for problem in each.problems()]
        shown = [aged(item, now) for each in seen for item in each.items]
        items = [item | {"only_source": item["source"] in only_sources} for item in shown]
        return envelope(items, now, errors if names else _NONE_NAMED)

    def _begun(self, seen: _Destination) -> Future[Items] | None:
        """The observation to wait for; None: the last one is recent enough."""
        now = self._clock.monotonic()
        seen.collect(now)
        if seen.under_way is None and not seen.fresh(now):
            seen.under_way = _in_background(partial(self._read, seen.name))
        return seen.under_way


_NONE_NAMED: Final = error_items(
    Misconfigured(f"no destination is configured: set {DESTINATIONS} in the environment or as an Airflow Variable")
)


def _in_background(call: Callable[[], Items]) -> Future[Items]:
    """Run in a daemon thread."""
    future: Future[Items] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as why:  # noqa: BLE001 -- raised again by whoever asks for the result
            future.set_exception(why)

    threading.Thread(target=run, name="tanist-reading", daemon=True).start()
    return future
