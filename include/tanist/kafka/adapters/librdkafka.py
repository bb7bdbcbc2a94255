"""Configuration and errors of librdkafka clients.

librdkafka reports only to its error callback why a connection failed; the waiting call times out. So every client has a
`ConnectionErrorTracker`, which turns a wrong password into AuthenticationFailed at once.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from tanist.domain.broker_errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from tanist.domain.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerError,
    ConnectionLost,
    OperatorFenced,
    TanistError,
    TimedOut,
    Unreachable,
)
from tanist.kafka.protocol import codes
from tanist.kafka.protocol.client_config import client_config
from tanist.kafka.wire.identity import RESTART_SECONDS
from tanist.kafka.wire.router import share

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.endpoint import Endpoint
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


SILENT: Final = logging.getLogger("tanist.librdkafka")
"""Where librdkafka's own log lines go: twenty a second from a dead cluster, and all in our errors already. For a closer
look, set its level."""
SILENT.setLevel(logging.CRITICAL)
SILENT.addHandler(logging.NullHandler())

AUTHENTICATION: Final = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}  # noqa: SLF001
_LOST: Final = "Broker transport failure"
"""In the text of an authentication error: the connection was lost during the handshake, the login was not refused."""
UNREACHABLE: Final = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}  # noqa: SLF001
TIMED_OUT: Final = {KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE}  # noqa: SLF001
_FENCED: Final = {
    KafkaError._FENCED,  # noqa: SLF001
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
_AUTHORIZATION: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_LOCAL_NAMES: Final = {KafkaError._UNKNOWN_TOPIC: 3, KafkaError._UNKNOWN_PARTITION: 3, KafkaError._NOENT: 3}  # noqa: SLF001
"""librdkafka's own codes with the meaning of a broker's code."""


# ── configuration ─────────────────────────────────────────────────────────────────────────────────────────────────


def configuration(endpoint: Endpoint, role: str, errors: ConnectionErrorTracker, **options: Any) -> dict[str, Any]:
    """The configuration of a client for `endpoint`; `role` goes into client.id, `options` with '_' for '.'."""
    found: dict[str, Any] = {
        **client_config(endpoint),
        "client.id": f"tanist-{role}",
        "error_cb": errors,
        "logger": SILENT,
        "log_level": 4,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
        "allow.auto.create.topics": False,
    }
    return found | {name.replace("_", "."): value for name, value in options.items()}


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation for messages, such as `describe topic orders of east`, and the permission that it needs."""

    what: str
    right: str


def translate(error: KafkaError, doing: Operation, endpoint: Endpoint) -> TanistError:
    """The error for a KafkaError: negative codes are librdkafka's own, the others the broker's."""
    code, context = error.code(), f"{doing.what} of {endpoint.name}"
    if _is_refusal(error):
        return AuthenticationFailed(f"{context}: {_readable(error)}")
    if code in UNREACHABLE | AUTHENTICATION:
        return Unreachable(f"{context}: {addresses(endpoint)}: {_readable(error)}")
    if code in _AUTHORIZATION:
        return AuthorizationFailed(f"{context} needs {doing.right}: {_readable(error)}")
    if code in _FENCED:
        return OperatorFenced(f"{context}: a newer writer has taken over")
    return _other(error, context)


def _is_refusal(error: KafkaError) -> bool:
    return error.code() in AUTHENTICATION and _LOST not in error.str()


def _other(error: KafkaError, context: str) -> TanistError:
    code = error.code()
    if code in TIMED_OUT:
        return TimedOut(f"{context}: {_readable(error)}")
    if code > 0 or code in _LOCAL_NAMES:
        return codes.error_for(_LOCAL_NAMES.get(code, code), f"{context}: {_readable(error)}")
    return BrokerError(f"{context}: {_readable(error)} ({error.name()})")


def cause(exception: KafkaException) -> KafkaError:
    """The KafkaError inside."""
    found = exception.args[0] if exception.args else None
    return found if isinstance(found, KafkaError) else KafkaError(KafkaError._FAIL, str(exception))  # noqa: SLF001


def addresses(endpoint: Endpoint) -> str:
    """The bootstrap servers, for messages."""
    return ", ".join(map(str, endpoint.bootstrap))


def _readable(error: KafkaError) -> str:
    """Librdkafka's text without its connection prefix."""
    return error.str().rpartition("/bootstrap: ")[2]


class ConnectionErrorTracker:
    """The error callback of one client: remembers why connections fail. Called in the thread that polls the client."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._refused: KafkaError | None = None
        self._transport: KafkaError | None = None
        self._down = False

    def __call__(self, error: KafkaError) -> None:
        if _is_refusal(error):
            self._refused = error
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._down = True
        elif error.code() in UNREACHABLE | AUTHENTICATION:
            self._transport = error

    def alive(self) -> None:
        """A broker has answered: forget earlier errors."""
        self._refused = self._transport = None
        self._down = False

    def login_error(self, doing: Operation) -> TanistError | None:
        """The error of a refused login; None: none was refused."""
        return translate(self._refused, doing, self._endpoint) if self._refused else None

    def likely_cause(self, doing: Operation) -> TanistError | None:
        """The most likely reason of a timeout; None: no connection has failed."""
        if self._refused:
            return self.login_error(doing)
        if self._down:
            closed = f"the brokers close the connection: check security_protocol {self._endpoint.security_protocol}"
            why = self._transport or KafkaError(KafkaError._ALL_BROKERS_DOWN, closed)  # noqa: SLF001
            return translate(why, doing, self._endpoint)
        return None


_T = TypeVar("_T")
_AGAIN_SECONDS: Final = 0.1
_REFUSED: Final = (
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
        if isinstance(error, _REFUSED):
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
