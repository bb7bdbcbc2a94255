"""The thread that keeps a view of a state topic."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import StateLogLost, Stopped, TanistError, TimedOut
from tanist.domain.state_view import StateView, take
from tanist.kafka.adapters.tail import Tail
from tanist.kafka.protocol.stored import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.state_record import StateRecord
    from tanist.kafka.adapters.tail import Burst
    from tanist.ports.clock import Deadline

_WAIT: Final = 0.02
"""Seconds of one look into the topic: how long `close` may take."""


class Reader:
    """Folds a topic into a view in a thread of its own. All methods may be called from any thread."""

    def __init__(self, endpoint: Endpoint, topic: str, starts: Mapping[int, int], quiet_ms: int) -> None:
        self._what = f"topic {topic} of {endpoint.name}"
        self.starts = starts
        self._tail = Tail(endpoint, topic, starts, quiet_ms)
        self._changed = threading.Condition()
        self._records: dict[str, StateRecord] = {}
        self._unreadable: dict[str, Unreadable] = {}
        self._positions: dict[int, int] = {}
        self._published: StateView | None = StateView()
        self._failure: TanistError | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"tanist-{topic}", daemon=True)
        self._thread.start()

    def view(self) -> StateView:
        """The records of now, frozen. Copied once per change that somebody looks at."""
        with self._changed:
            if self._published is None:
                self._published = StateView(self._records)
            return self._published

    def ended(self) -> TanistError | None:
        """What ended the reading, if it was not `close`."""
        with self._changed:
            return None if isinstance(self._failure, Stopped) else self._failure

    def problems(self) -> tuple[Unreadable, ...]:
        """The records that this version cannot read, by key."""
        with self._changed:
            return tuple(self._unreadable[key] for key in sorted(self._unreadable))

    def reach(self, ends: Mapping[int, int], by: Deadline) -> StateView:
        """The view once every partition has been read up to its offset in `ends`.

        Raises:
            TimedOut, Unreachable, StateLogLost, Stopped, and whatever ended the reading.
        """
        with self._changed:
            while not self._reached(ends):
                if self._failure:
                    raise self._failure
                if not self._changed.wait(by.left(time.monotonic())) and not self._reached(ends):
                    raise self._tail.likely_cause() or TimedOut(f"{self._what}: {self._missing(ends)}")
        return self.view()

    def positions(self) -> Mapping[int, int]:
        """How far each partition has been read."""
        with self._changed:
            return dict(self._positions)

    def check_not_shrunk(self, positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Raises StateLogLost if the topic ends before what was read of it: it is not the topic it was.

        `positions` were taken before `ends` were asked for: what others write meanwhile is no loss.
        """
        shrunk = {n: (positions.get(n, 0), end) for n, end in ends.items() if positions.get(n, 0) > end}
        if shrunk:
            n, (position, end) = next(iter(shrunk.items()))
            raise StateLogLost(f"{self._what}: partition {n} was read up to {position} and now ends at {end}")

    def close(self) -> None:
        with self._changed:
            self._closing = True
        if self._thread is not threading.current_thread():
            self._thread.join()

    # ── the thread ────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            while not self._closing:
                self._fold(self._tail.burst(_WAIT))
            self._end(Stopped(f"{self._what}: closed"))
        except TanistError as failure:
            self._end(failure)
        finally:
            self._tail.close()

    def _fold(self, burst: Burst) -> None:
        if not burst.positions:
            return
        with self._changed:
            for record in burst.records:
                self._take(record)
            self._positions.update(burst.positions)
            self._changed.notify_all()

    def _take(self, record: StateRecord | Unreadable) -> None:
        key = record.key
        if isinstance(record, Unreadable):
            self._unreadable[key] = record
            return
        self._unreadable.pop(key, None)
        if take(self._records, record):
            self._published = None

    def _end(self, failure: TanistError) -> None:
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def _reached(self, ends: Mapping[int, int]) -> bool:
        return all(self._positions.get(n, 0) >= end for n, end in ends.items())

    def _missing(self, ends: Mapping[int, int]) -> str:
        behind = [f"partition {n} at {self._positions.get(n, 0)} of {e}" for n, e in ends.items()]
        behind = [text for text, (n, e) in zip(behind, ends.items(), strict=True) if self._positions.get(n, 0) < e]
        return f"not read to its end: {', '.join(behind[:3])}"
