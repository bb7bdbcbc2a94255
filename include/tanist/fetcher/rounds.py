"""The skeleton of a thread of the fetcher: it goes round until it is stopped, and keeps what it died of."""

from __future__ import annotations

import logging
import threading

from tanist.domain.errors import Stopped

log = logging.getLogger(__name__)


class RoundThread(threading.Thread):
    """Calls `_round` again and again. `stop` it from any thread, then join.

    `Stopped` is an end like any other. Every other exception that a round lets through is a bug: `died` keeps it, and
    whoever watches the thread starts another, or ends the service.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.died: BaseException | None = None
        self.rounds = 0
        """How often it has gone round: one that stands still hangs."""
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._round()
                self.rounds += 1
            self._finish()
        except Stopped:
            pass
        except BaseException as bug:
            log.exception("thread died", extra={"thread_name": self.name})
            self.died = bug
        finally:
            self._close()

    def _round(self) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        """What was begun before it was stopped in time."""

    def _close(self) -> None:
        """However it ends: let go of what it holds."""
