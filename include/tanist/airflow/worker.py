"""The fetcher as a child of Airflow's triggerer: `python -m tanist.airflow.worker DESTINATION [METRICS_PORT] PARENT`.

The protocol is in `tanist.airflow.fetcher_process`. The process ends with its parent, however that ends.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from platform import node as host_name
from typing import Any, Final

from tanist.domain.errors import Misconfigured, TanistError, TimedOut
from tanist.domain.problems import each, exit_code
from tanist.kafka.wire.parent import end_with
from tanist.settings import ClusterSettings, Settings, from_connection
from tanist.wiring.fetcher import run_fetcher
from tanist.wiring.host import JsonFormatter, log_to_stderr
from tanist.wiring.registry import ClusterRegistry

log = logging.getLogger(__name__)

BUG: Final = 70
_ANSWER_SECONDS: Final = 120.0
"""Timeout for a connection: a triggerer needs seconds to build an API for the first one from the database."""
_PULSE_SECONDS: Final = 5.0
_LAST_PORT: Final = 65535


class RemoteConnections(Mapping[str, ClusterSettings]):
    """Clusters by connection id, each requested from the parent on first use. Thread-safe."""

    def __init__(self, asks: int, answers: int) -> None:
        self._asks, self._answers = asks, answers
        self._known: dict[str, ClusterSettings] = {}
        self._lock = threading.Lock()
        self._read = b""

    def __getitem__(self, name: str) -> ClusterSettings:
        with self._lock:
            if name not in self._known:
                self._known[name] = from_connection(name, self._ask(name))
            return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def _ask(self, name: str) -> Mapping[str, Any]:
        os.write(self._asks, json.dumps({"connection": name}).encode() + b"\n")
        answer = self._answer(name)
        while answer["connection"] != name:  # one that somebody has stopped waiting for
            answer = self._answer(name)
        if "error" in answer:
            raise Misconfigured(answer["error"])
        extra: Mapping[str, Any] = answer["extra"]
        return extra

    def _answer(self, name: str) -> Any:
        while b"\n" not in self._read:
            if not select.select([self._answers], [], [], _ANSWER_SECONDS)[0]:
                raise TimedOut(f"the triggerer did not return connection {name!r} within {_ANSWER_SECONDS:.0f} s")
            if not (part := os.read(self._answers, 1 << 16)):
                raise TimedOut(f"the triggerer ended before it returned connection {name!r}")
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)


class Pulse:
    """Reports progress of the service to the parent every few seconds; nothing while it hangs."""

    def __init__(self, tells: int) -> None:
        self._tells = tells
        self._rounds, self._at = -1, float("-inf")

    def __call__(self, rounds: int) -> None:
        now = time.monotonic()
        if rounds != self._rounds and now - self._at >= _PULSE_SECONDS:
            self._rounds, self._at = rounds, now
            os.write(self._tells, json.dumps({"alive": rounds}).encode() + b"\n")


def metrics_port(given: str = "") -> int | None:
    """The port that is set; None: none is, or what is set is none, which is logged: copying matters more."""
    if given.isdecimal() and 0 < int(given) <= _LAST_PORT:
        return int(given)
    if given:
        log.error("TANIST_METRICS_PORT is no port: no metrics are served", extra={"value": given})
    return None


def main() -> int:
    """Exit codes are those of `tanist fetcher run`."""
    destination, *given, parent = sys.argv[1:]
    end_with(int(parent))
    asks = os.dup(1)
    os.dup2(2, 1)  # whatever is printed is log
    log_to_stderr(JsonFormatter())
    worker = f"airflow-{host_name()}-{os.getpid()}"
    log.info("started fetcher", extra={"destination": destination, "worker": worker})
    try:
        with ClusterRegistry(Settings("the connections of this Airflow", RemoteConnections(asks, 0))) as world:
            port = metrics_port(*given)
            return run_fetcher(
                world, destination, worker=worker, metrics_port=port, report=Pulse(asks), needs_port=False
            )
    except TanistError as refusal:
        for problem in each(refusal):
            log.error("%s", problem)  # noqa: TRY400 -- a refusal needs no traceback
        return exit_code(refusal)
    except Exception:
        log.exception("ended by a bug in Tanist")
        return BUG


if __name__ == "__main__":
    sys.exit(main())
