"""A command that sleeps before one of its requests, and wakes when it is told to; or that never wakes again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tanist.kafka.wire.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    import pytest

OFFSET_COMMIT, OFFSET_FETCH, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 8, 9, 25, 26, 28
"""Kafka's API keys."""
WRITES: Final = frozenset({OFFSET_COMMIT, TXN_OFFSET_COMMIT})
ASLEEP: Final = "asleep"
_PATIENCE_SECONDS: Final = 60


class Killed(BaseException):
    """What ran is gone: nothing of it is sent any more."""


class Frozen:
    """A command under way. It sleeps before the first request of `before` that follows one of `after`."""

    def __init__(self, before: frozenset[int], after: frozenset[int]) -> None:
        self._before, self._after = before, after
        self._sent: set[int] = set()
        self._asleep, self._woken = threading.Event(), threading.Event()
        self._killed = False
        self.done: Future[Any]

    def asleep(self) -> None:
        """Wait until it is."""
        assert self._asleep.wait(_PATIENCE_SECONDS), self.done

    def wake(self) -> Any:
        """What it comes to in the end."""
        self._woken.set()
        return self.done.result(_PATIENCE_SECONDS)

    def kill(self) -> None:
        self._killed = True
        self._woken.set()
        assert isinstance(self.done.exception(_PATIENCE_SECONDS), Killed)

    def sends(self, api_key: int) -> None:
        if api_key in self._before and (not self._after or self._after & self._sent):
            self._asleep.set()
        self._sent.add(api_key)
        if self._asleep.is_set():
            assert self._woken.wait(_PATIENCE_SECONDS)
        if self._killed:
            raise Killed


@contextmanager
def frozen(
    patch: pytest.MonkeyPatch,
    command: Callable[[], Any],
    before: frozenset[int],
    after: frozenset[int] = frozenset(),
) -> Iterator[Frozen]:
    """`command`, which reaches its cluster through the endpoint ASLEEP."""
    it, send = Frozen(before, after), Connection.call

    def call(self: Connection, request: Any, by: Any) -> Any:
        if self.endpoint.name == ASLEEP:
            it.sends(request.API_KEY)
        return send(self, request, by)

    with patch.context() as patched, ThreadPoolExecutor(1) as pool:
        patched.setattr(Connection, "call", call)
        it.done = pool.submit(command)
        try:
            it.asleep()
            yield it
        finally:
            it._woken.set()
