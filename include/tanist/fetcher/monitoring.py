"""`/livez`, `/readyz` and `/metrics` of a worker, on one port of every address."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final
from wsgiref.simple_server import WSGIRequestHandler, demo_app, make_server

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from tanist.domain.errors import Misconfigured
from tanist.fetcher.health import not_alive, not_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client.registry import Collector

    from tanist.fetcher.health import WorkerFacts

log = logging.getLogger(__name__)

LAST_PORT: Final = 65_535
RETRY_SECONDS: Final = 10.0
_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # a scraper is on another host
_TEXT: Final = [("Content-Type", "text/plain; charset=utf-8")]


def must_be_available(port: int) -> None:
    """For whoever has to do more before it can serve, and would disturb others with it.

    Raises:
        Misconfigured: that is no port, or it is not available.
    """
    _listening(_checked(port), demo_app).server_close()


def _checked(port: int) -> int:
    """Raises Misconfigured."""
    if not 0 <= port <= LAST_PORT:
        raise Misconfigured(f"--metrics-port {port}: a port is a number from 0 to {LAST_PORT}")
    return port


def _listening(port: int, answers: WSGIApplication) -> ThreadingWSGIServer:
    """Raises Misconfigured."""
    try:
        return make_server(_EVERY_ADDRESS, port, answers, ThreadingWSGIServer, handler_class=_Quiet)
    except OSError as taken:
        raise Misconfigured(f"--metrics-port {port}: {taken.strerror or taken}") from taken


class _Quiet(WSGIRequestHandler):
    """A probe every few seconds is no event."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the base class
        """Nothing."""


class Monitoring:
    """`start` it, `stop` it. `facts` and `collector` are asked from threads of its own."""

    def __init__(self, port: int, collector: Collector, facts: Callable[[], WorkerFacts]) -> None:
        """Raises Misconfigured: that is no port. `port` 0 is any that is available."""
        self._port, self._facts = _checked(port), facts
        registry = CollectorRegistry()
        for add in (ProcessCollector, PlatformCollector, GCCollector):
            add(registry=registry)
        registry.register(collector)
        self._metrics = make_wsgi_app(registry)
        self._server: ThreadingWSGIServer | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Serve from now on.

        Raises:
            Misconfigured: the port is not available.
        """
        self._server = server = _listening(self._port, self._answer)
        threading.Thread(target=server.serve_forever, name="tanist-metrics", daemon=True).start()

    def keep_trying(self) -> None:
        """Serve as soon as the port is available: a worker that ends may still have it. Never raises."""
        threading.Thread(target=self._try, name="tanist-metrics-port", daemon=True).start()

    def _try(self) -> None:
        while not self._stopping.is_set():
            try:
                self.start()
            except Misconfigured as taken:
                log.warning("metrics are not served yet, copying goes on", extra={"reason": taken.reason})
                self._stopping.wait(RETRY_SECONDS)
            else:
                return

    def stop(self) -> None:
        """Release the port."""
        self._stopping.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _answer(self, environment: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "/")
        if path in {"/", "/metrics"}:
            page: Iterable[bytes] = self._metrics(environment, respond)
            return page
        judge = _PROBES.get(path)
        if judge is None:
            respond("404 Not Found", list(_TEXT))
            return [f"no such page: {', '.join(('/metrics', *_PROBES))}\n".encode()]
        reasons = judge(self._facts())
        respond("503 Service Unavailable" if reasons else "200 OK", list(_TEXT))
        return [("".join(f"{each}\n" for each in reasons) or "ok\n").encode()]


_PROBES: Final[Mapping[str, Callable[[WorkerFacts], Sequence[str]]]] = {"/livez": not_alive, "/readyz": not_ready}
