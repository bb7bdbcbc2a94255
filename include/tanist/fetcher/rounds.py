"""The base of all threads of the fetcher: a loop that runs until it is stopped, and keeps a fatal exception."""

from __future__ import annotations

import logging
import threading

from tanist.domain.errors import Stopped

log = logging.getLogger(__name__)


class RoundThread(threading.Thread):
    """Calls `_round` in a loop. `stop` it from any thread, then join.

    `Stopped` ends it regularly. Any other exception of a round is a bug: `died` keeps it, and the owner of the thread
    starts another one or ends the service.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.died: BaseException | None = None
        self.rounds = 0
        """The number of completed rounds; if it does not grow, the thread hangs."""
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def ended(self) -> str:
        """That it does not run, and what it died of; empty: it runs, however slowly."""
        return "" if self.is_alive() else f"thread {self.name} does not run: {self.died!r}"

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
        """Complete what was begun before `stop`."""

    def _close(self) -> None:
        """Release resources, however the thread ends."""
