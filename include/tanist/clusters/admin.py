"""librdkafka's AdminClient with deadlines."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tanist.clusters.librdkafka import TIMED_OUT, UNREACHABLE, Doing, Witness, cause, configuration, translate
from tanist.domain.errors import TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from confluent_kafka import KafkaError

    from tanist.domain.endpoint import Endpoint
    from tanist.ports.clock import Deadline

_T = TypeVar("_T")
_TICK: Final = 0.05
_LOOK_AGAIN: Final = 1.5
_LOOK_SECONDS: Final = 1.0
_LONGEST: Final = 600.0
_LINGERING: Final[list[tuple[AdminClient, set[Future[Any]]]]] = []
"""Closed clients with requests still under way: librdkafka would free a client under its running futures."""


class Admin:
    """An AdminClient whose every call has a deadline. Thread-safe."""

    def __init__(self, endpoint: Endpoint, role: str) -> None:
        self.endpoint = endpoint
        self._witness = Witness(endpoint)
        self._client = AdminClient(configuration(endpoint, role, self._witness))
        self._pending: set[Future[Any]] = set()

    def call(self, ask: Callable[[AdminClient, float], Future[_T]], by: Deadline, doing: Doing) -> _T:
        """The result of one request; `ask` gets the client and the request's time-out in seconds.

        Raises:
            Unreachable, AuthenticationFailed, AuthorizationFailed, TimedOut, BrokerError: as `doing` names it.
        """
        (outcome,) = self.calls(lambda client, left: {"": ask(client, left)}, by, doing).values()
        if isinstance(outcome, KafkaException):
            raise translate(cause(outcome), doing, self.endpoint) from outcome
        return outcome

    def calls(
        self, ask: Callable[[AdminClient, float], Mapping[Any, Future[_T]]], by: Deadline, doing: Doing
    ) -> dict[Any, _T | KafkaException]:
        """The results, or refusals, of a request with many items; raises where there was no answer at all."""
        left = by.left(time.monotonic())
        if left <= 0:
            raise TimedOut(f"{doing.what} of {self.endpoint.name}: no time left")
        self._witness.begin()
        futures = ask(self._client, max(0.1, min(left, _LONGEST)))
        self._pending |= set(futures.values())
        self._wait(set(futures.values()), by, doing)
        found = dict(zip(futures, map(_outcome, futures.values()), strict=True))
        if any(not isinstance(o, KafkaException) or cause(o).code() >= 0 for o in found.values()):
            self._witness.alive()
        elif excuse := self._witness.excuse(doing):
            raise excuse
        return found

    def blocking(self, ask: Callable[[AdminClient, float], _T], by: Deadline, doing: Doing) -> _T:
        """The result of a call that blocks inside librdkafka: in growing slices, so that a refused login ends it."""
        self._witness.begin()
        piece = 0.5
        while True:
            try:
                found = ask(self._client, max(0.01, min(piece, by.left(time.monotonic()))))
            except KafkaException as exception:
                self._client.poll(0)
                self._give_up(by, doing, cause(exception))
                piece *= 2
            else:
                self._witness.alive()
                return found

    def close(self) -> None:
        """At once; what is still under way ends by itself, and its client with it."""
        _LINGERING[:] = [(client, futures) for client, futures in _LINGERING if any(not f.done() for f in futures)]
        if running := {future for future in self._pending if not future.done()}:
            _LINGERING.append((self._client, running))

    def _wait(self, futures: set[Future[Any]], by: Deadline, doing: Doing) -> None:
        look_at = time.monotonic() + _LOOK_AGAIN
        while wait(futures, timeout=_TICK).not_done:
            self._client.poll(0)
            if time.monotonic() >= look_at:
                self._look_again()
                look_at = time.monotonic() + _LOOK_AGAIN
            if verdict := self._witness.verdict(doing):
                raise verdict
            if by.left(time.monotonic()) <= 0:
                raise self._witness.excuse(doing) or TimedOut(f"{doing.what} of {self.endpoint.name}: no answer")
        self._client.poll(0)
        self._pending -= futures

    def _look_again(self) -> None:
        """Librdkafka waits for the controller that it was once told of, dead or not, until it is told of another."""
        with contextlib.suppress(KafkaException):
            self._client.list_topics(timeout=_LOOK_SECONDS)

    def _give_up(self, by: Deadline, doing: Doing, error: KafkaError) -> None:
        if verdict := self._witness.verdict(doing):
            raise verdict
        if error.code() not in TIMED_OUT | UNREACHABLE:
            raise translate(error, doing, self.endpoint)
        if by.left(time.monotonic()) <= 0:
            raise self._witness.excuse(doing) or translate(error, doing, self.endpoint)


def _outcome(future: Future[_T]) -> _T | KafkaException:
    refusal = future.exception(timeout=0)
    return refusal if isinstance(refusal, KafkaException) else future.result(timeout=0)
