"""The trigger that runs the fetcher: while its DAG is unpaused exactly one triggerer runs it.

Copying happens in the child process; this event loop only starts it, reads from it, and ends it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from tanist.airflow.connections import serve_connection
from tanist.airflow.fetcher_process import Ended, FetcherProcess

FIRST_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 30.0
"""After a child has run this long, the next one is started without a longer pause."""
HUNG_SECONDS: Final = 120.0
"""A child says every few seconds that it goes round. A round that asks clusters which do not answer takes long; a child
that waits for us to look up a connection is one that waits for us."""


def pause_after(ended: Ended, before: float | None) -> float:
    """Seconds until the next start; `before`: the last pause."""
    if before is None or ended.seconds >= STEADY_SECONDS:
        return FIRST_SECONDS
    return min(2 * before, LONGEST_SECONDS)


_NEXT_STEPS: Final = {
    0: "it was told to stop: nothing to do",
    1: "read the error in its last log lines and fix the cause",
    2: "correct the connection or the Variable named in its last log lines",
    3: "check the cluster that did not answer",
    70: "this is a bug in Tanist: report it with the last log lines",
    -signal.SIGKILL: (
        "its last log line says whether it was unresponsive; if not, check the host for the out-of-memory killer"
    ),
}
_TAKEN: Final = frozenset({"self", "event", "exc_info", "stack_info"})
"""Field names that are reserved by the logger."""
_OTHERWISE: Final = "read its last log lines"


def describe_events(events: Any) -> list[str]:
    """Describes asset events (by asset) that this trigger has fired: exit code, lifetime, next start."""
    payloads = [event.extra["payload"] for each in (events or {}).values() for event in each]
    return [line for payload in payloads for line in _story(payload)] or ["no fetcher has ended: nothing to report"]


def _story(payload: Mapping[str, Any]) -> list[str]:
    code = payload["exit_code"]
    end = f"The fetcher of {payload['destination']} ended with exit code {code} after {payload['lived_seconds']} s"
    then = f"it restarts after {payload['again_in_seconds']:.0f} s"
    step = f"Next step: {_NEXT_STEPS.get(code, _OTHERWISE)}."
    return [f"{end}; {then}. {step}", *(f"    {line}" for line in payload["last_lines"])]


class FetcherHost(BaseEventTrigger):
    """Runs one fetcher of `destination` until it is cancelled; fires whenever a fetcher has ended by itself.

    `metrics_port`: where it serves its metrics, on the host of the triggerer; empty: nowhere.
    """

    def __init__(self, destination: str, metrics_port: str = "") -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow has no annotation there
        self.destination, self.metrics_port = destination, metrics_port
        self._child: FetcherProcess | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        given = {"destination": self.destination, "metrics_port": self.metrics_port}
        return f"{FetcherHost.__module__}.{FetcherHost.__qualname__}", given

    def command(self) -> list[str]:
        """The command to start; it must end when its last argument, a process, ends."""
        port = [self.metrics_port] if self.metrics_port else []
        return [sys.executable, "-m", "tanist.airflow.worker", self.destination, *port, str(os.getpid())]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        pause: float | None = None
        try:
            while True:
                self._child = await FetcherProcess.start(self.command(), self._log_event, serve_connection)
                ended = await self._child.ended(HUNG_SECONDS)
                pause = pause_after(ended, pause)
                yield TriggerEvent(self._payload(ended, pause))  # type: ignore[no-untyped-call]  # Airflow has no annotation there
                await asyncio.sleep(pause)
        finally:
            await self.cleanup()

    async def cleanup(self) -> None:
        """Whatever ends the trigger ends its child."""
        if self._child:
            await self._child.stop()

    def _payload(self, ended: Ended, pause: float) -> dict[str, Any]:
        return {
            "destination": self.destination,
            "exit_code": ended.code,
            "lived_seconds": round(ended.seconds, 1),
            "again_in_seconds": pause,
            "last_lines": list(ended.last),
        }

    def _log_event(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        reported = {"destination": self.destination, **fields}
        getattr(self.log, level)(event, **{name: value for name, value in reported.items() if name not in _TAKEN})
