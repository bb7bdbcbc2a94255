"""A router of one cluster, for ports that several threads may use: one question at a time, each with its deadline."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.broker_errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from tanist.domain.errors import AuthorizationFailed, BrokerError, ConnectionLost, TanistError, TimedOut, Unreachable
from tanist.kafka.wire.identity import RESTART_SECONDS
from tanist.kafka.wire.router import Router, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist.domain.endpoint import Endpoint
    from tanist.kafka.adapters.librdkafka import Operation
    from tanist.ports.clock import Deadline

_T = TypeVar("_T")
_AGAIN_SECONDS: Final = 0.1
_AUTHORIZATION: Final = (
    TopicAuthorizationFailed,
    GroupAuthorizationFailed,
    ClusterAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)


class Asking:
    """Thread-safe. A cluster of which nobody listens is asked again for a moment: a rolling restart passes in it."""

    def __init__(self, endpoint: Endpoint, role: str) -> None:
        self.endpoint = endpoint
        self._router = Router(endpoint, f"tanist-{role}")
        self._turn = threading.Lock()

    def read(self, ask: Callable[[Router, Deadline], _T], by: Deadline, doing: Operation) -> _T:
        """What `ask` returns; asked once more where a broker has frozen or hung up, as nothing is changed by asking.

        Raises:
            AuthorizationFailed: naming the right that `doing` needs. BrokerError, CouldNotTell: as they say.
        """
        with self._taken(by, doing.what):
            try:
                return self._patiently(ask, share(by, 2), doing)
            except (TimedOut, ConnectionLost):  # that connection is closed now: another broker may answer
                return self._patiently(ask, by, doing)

    def ask(self, ask: Callable[[Router, Deadline], _T], by: Deadline) -> _T:
        """What `ask` returns or raises, once."""
        with self._taken(by, self.endpoint.name):
            return ask(self._router, by)

    def change(self, ask: Callable[[Router, Deadline], _T], by: Deadline, doing: Operation) -> _T:
        """As `read`, but not asked again once a broker may have got it (ConnectionLost, TimedOut)."""
        with self._taken(by, doing.what):
            return self._patiently(ask, by, doing)

    def named(self, error: TanistError, doing: Operation) -> TanistError:
        """`error` with what was being done; a missing right by its name."""
        context = f"{doing.what} of {self.endpoint.name}"
        if isinstance(error, _AUTHORIZATION):
            return AuthorizationFailed(f"{context} needs {doing.right}: {error.reason}")
        return type(error)(f"{context}: {error.reason}") if isinstance(error, BrokerError) else error

    def close(self) -> None:
        """Ends whatever is being waited for."""
        self._router.interrupt()
        with self._turn:
            self._router.close()

    def _patiently(self, ask: Callable[[Router, Deadline], _T], by: Deadline, doing: Operation) -> _T:
        patience = min(by.at, time.monotonic() + RESTART_SECONDS)
        while True:
            try:
                return ask(self._router, by)
            except Unreachable:
                if time.monotonic() + _AGAIN_SECONDS >= patience:
                    raise
            except BrokerError as error:
                raise self.named(error, doing) from error
            self._router.pause(_AGAIN_SECONDS, by)

    @contextmanager
    def _taken(self, by: Deadline, what: str) -> Iterator[None]:
        left = by.left(time.monotonic())
        if left <= 0 or not self._turn.acquire(timeout=left):
            raise TimedOut(f"{what} of {self.endpoint.name}: no time left")
        try:
            yield
        finally:
            self._turn.release()
