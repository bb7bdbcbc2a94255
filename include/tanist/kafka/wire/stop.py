"""How one thread ends another's wait."""

from __future__ import annotations

import contextlib
import math
import select
import socket
from typing import TYPE_CHECKING, Self

from tanist.domain.errors import Stopped

if TYPE_CHECKING:
    from types import TracebackType


class StopSignal:
    """Once set it stays set; every wait on a connection that shares it then raises Stopped, also while connecting.

    The wait polls a socket pair of the signal beside its own socket: nobody closes a socket under another thread.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)  # noqa: FBT003
        self._set = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def set(self) -> None:
        """From any thread, any number of times."""
        self._set = True
        with contextlib.suppress(OSError):  # full: it was set before; closed: nobody waits any more
            self._writer.send(b"!")

    @property
    def is_set(self) -> bool:
        return self._set

    def check(self) -> None:
        """Raise Stopped once the signal is set."""
        if self._set:
            raise Stopped("this process is stopping")

    def fileno(self) -> int:
        return self._reader.fileno()

    def wait(self, seconds: float) -> None:
        """Wait, unless the signal ends it with Stopped."""
        self.check()
        poller = select.poll()
        poller.register(self._reader, select.POLLIN)
        poller.poll(math.ceil(seconds * 1000))
        self.check()

    def close(self) -> None:
        """By its owner, after the last connection that shares it."""
        self._reader.close()
        self._writer.close()
