"""The fetcher as a child process under an event loop: started, read from, given connections, and ended reliably.

    its standard error     its log, one line an event: JSON of `wiring.logs`, or whatever a library prints
    its standard output    requests: {"connection": "east"}, and signs of progress: {"alive": 7}
    its standard input     answers: {"connection": "east", "extra": {...}}, or "error": "why not"

So no secret is in its arguments, its environment or a file, and it needs neither Airflow nor its database.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from tanist.domain.errors import TanistError

GRACE_SECONDS: Final = 10.0
"""Time from SIGTERM to SIGKILL, to complete batches in flight and to leave the consumer group."""
_LAST_LINES: Final = 20
_SETTLE_SECONDS: Final = 0.5
_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "critical"})

Tell = Callable[[str, str, Mapping[str, Any]], None]
"""Called with level, event and fields of every line of the child's log."""
Lend = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Looks up a connection; raises TanistError if that fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child ended. `code` is negative for a signal, as in subprocess."""

    code: int
    seconds: float
    last: tuple[str, ...]


class FetcherProcess:
    """One process in a session of its own, read from until it has ended. `stop` may be called repeatedly."""

    def __init__(self, process: asyncio.subprocess.Process, report: Tell, serve: Lend) -> None:
        self.process = process
        self._report, self._serve = report, serve
        self._started = self._alive = time.monotonic()
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str], report: Tell, serve: Lend) -> Self:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        return cls(process, report, serve)

    async def ended(self, patience: float | None = None) -> Ended:
        """Wait until the process has ended and all its output was handled.

        `patience`: one that has not said for so many seconds that it is alive does not respond and is killed.
        """
        while patience is not None and not self._listening.done():
            await asyncio.wait(
                {self._listening}, timeout=max(_SETTLE_SECONDS, self._alive + patience - time.monotonic())
            )
            await asyncio.sleep(_SETTLE_SECONDS)  # were we frozen ourselves, what it said meanwhile is read first
            if not self._listening.done() and time.monotonic() - self._alive > patience:
                self._note("error", "does not respond and is killed", {"silent_seconds": patience})
                self._signal(signal.SIGKILL)
                break
        return await asyncio.shield(self._listening)

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """SIGTERM, and after `grace` seconds SIGKILL, for its whole session."""
        self._signal(signal.SIGTERM)
        await asyncio.wait({self._listening}, timeout=grace)
        self._signal(signal.SIGKILL)
        await self.ended()

    async def _listen(self) -> Ended:
        await asyncio.gather(self._hear(), self._answer())
        code = await self.process.wait()
        return Ended(code=code, seconds=time.monotonic() - self._started, last=tuple(self._last))

    def _signal(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    async def _hear(self) -> None:
        async for line in _lines(self.process.stderr):
            self._note(*_parsed(line))

    def _note(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        self._last.append(" ".join([level.upper(), event, *(f"{name}={value}" for name, value in fields.items())]))
        self._report(level, event, fields)

    async def _answer(self) -> None:
        async for line in _lines(self.process.stdout):
            with contextlib.suppress(ValueError, KeyError, OSError):
                if "connection" in (said := json.loads(line)):
                    await self._say(await self._connection(said["connection"]))
                self._alive = time.monotonic()

    async def _connection(self, name: str) -> Mapping[str, Any]:
        try:
            return {"connection": name, "extra": dict(await self._serve(name))}
        except TanistError as refusal:
            return {"connection": name, "error": refusal.reason}

    async def _say(self, answer: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None  # noqa: S101 -- a pipe
        self.process.stdin.write(json.dumps(answer).encode() + b"\n")
        await self.process.stdin.drain()


async def _lines(stream: asyncio.StreamReader | None) -> AsyncIterator[str]:
    assert stream is not None  # noqa: S101 -- a pipe
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the reader's buffer, which nothing of ours is: what was read of it is dropped
            continue
        if not line:
            return
        if text := line.decode(errors="replace").strip():
            yield text


def _parsed(line: str) -> tuple[str, str, Mapping[str, Any]]:
    """Level, event and fields; a line of a library is an event without fields."""
    try:
        said = json.loads(line)
        level, event, fields = said["level"], said["event"], said["fields"]
    except (ValueError, KeyError, TypeError):
        return "info", line, {}
    return (level if level in _LEVELS else "info"), str(event), dict(fields)
