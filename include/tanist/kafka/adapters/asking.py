"""Requests of a command to a cluster: repeated if that helps, with errors that name the missing permission."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.broker_errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from tanist.domain.errors import AuthorizationFailed, BrokerError, ConnectionLost, TanistError, TimedOut, Unreachable
from tanist.kafka.wire.identity import RESTART_SECONDS
from tanist.kafka.wire.router import share

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.kafka.adapters.librdkafka import Operation
    from tanist.kafka.wire.router import Router
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
    """Owned by one thread. A cluster that refuses connections is retried for a moment: a rolling restart passes."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def read(self, ask: Callable[[Router, Deadline], _T], by: Deadline, doing: Operation) -> _T:
        """The result of `ask`, which changes nothing; repeated once if a broker does not answer or disconnects.

        Raises:
            AuthorizationFailed: names the permission that `doing` needs. BrokerError, CouldNotTell: as `ask`.
        """
        try:
            return self._patiently(ask, share(by, 2), doing)
        except (TimedOut, ConnectionLost):  # that connection is closed now: another broker may answer
            return self._patiently(ask, by, doing)

    def change(self, ask: Callable[[Router, Deadline], _T], by: Deadline, doing: Operation) -> _T:
        """As `read`, but not repeated if a broker may have received the request (ConnectionLost, TimedOut)."""
        return self._patiently(ask, by, doing)

    def named(self, error: TanistError, doing: Operation) -> TanistError:
        """`error` with the operation in its message; AuthorizationFailed if a permission is missing."""
        context = f"{doing.what} of {self._router.endpoint.name}"
        if isinstance(error, _AUTHORIZATION):
            return AuthorizationFailed(f"{context} needs {doing.right}: {error.reason}")
        return type(error)(f"{context}: {error.reason}") if isinstance(error, BrokerError) else error

    def _patiently(self, ask: Callable[[Router, Deadline], _T], by: Deadline, doing: Operation) -> _T:
        if by.left(time.monotonic()) <= 0:
            raise TimedOut(f"{doing.what} of {self._router.endpoint.name}: no time left")
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
