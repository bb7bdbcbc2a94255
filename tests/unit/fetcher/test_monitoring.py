"""The pages of a worker: probes with their reasons, metrics, and a port that somebody else has."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import Misconfigured
from tanist.fetcher import monitoring
from tanist.fetcher.metrics import WorkerCollector
from tanist.fetcher.monitoring import Monitoring
from tanist_testkit.sandbox.ports import free_ports
from tests.fakes.clock import JumpingClock
from tests.unit.fetcher.test_health import WELL
from tests.unit.fetcher.test_worker_metrics import scraped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.fetcher.health import WorkerFacts


class Watched:
    """A worker on a free port, with facts that a test changes."""

    def __init__(self) -> None:
        self.facts: WorkerFacts = WELL
        (self.port,) = free_ports(1)
        self.served = self.another()

    def another(self) -> Monitoring:
        return Monitoring(self.port, WorkerCollector(scraped, JumpingClock()), lambda: self.facts)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()


@pytest.fixture
def watched() -> Iterator[Watched]:
    found = Watched()
    found.served.start()
    yield found
    found.served.stop()


def test_a_worker_that_is_well_says_so_and_exports_metrics(watched: Watched) -> None:
    assert watched.get("/livez") == watched.get("/readyz") == (200, "ok\n")
    for path in ("/metrics", "/"):
        code, text = watched.get(path)
        assert code == 200
        assert 'tanist_partitions{mirror="dr",state="MIRRORING"} 1.0' in text
        assert "process_cpu_seconds_total" in text
    code, text = watched.get("/health")
    assert (code, text) == (404, "no such page: /metrics, /livez, /readyz\n")


def test_a_probe_that_fails_has_its_reasons_in_lines(watched: Watched) -> None:
    watched.facts = replace(WELL, ownership=None, heartbeat=None)
    assert watched.get("/livez") == (200, "ok\n")
    assert watched.get("/readyz") == (
        503,
        "it has not read its own heartbeat from the state topic yet\nit has not joined the group of workers yet\n",
    )
    watched.facts = replace(WELL, ended=("thread coordination does not run: KeyError('x')",))
    assert watched.get("/livez") == (503, "thread coordination does not run: KeyError('x')\n")


def test_a_scraper_that_asks_for_one_family_got_nothing(watched: Watched) -> None:
    """`name[]` is the filter of Prometheus' client: it knows families only by what `describe` returns."""
    for name in ("tanist_workers_alive", "tanist_lag_records"):
        _, text = watched.get(f"/metrics?name[]={name}")
        assert {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[:1] != "#"} == {name}


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_port_that_is_none_was_an_overflow(port: int) -> None:
    with pytest.raises(Misconfigured, match=rf"--metrics-port {port}: a port is a number from 0 to 65535"):
        Monitoring(port, WorkerCollector(scraped, JumpingClock()), lambda: WELL)


def test_a_port_that_is_in_use_is_one_clear_error(watched: Watched) -> None:
    with pytest.raises(Misconfigured, match=rf"--metrics-port {watched.port}: Address already in use "):
        watched.another().start()


def test_where_copying_goes_on_without_it_a_port_is_served_once_it_is_free(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker before may have it for some seconds."""
    monkeypatch.setattr(monitoring, "RETRY_SECONDS", 0.05)
    later = watched.another()
    later.keep_trying()
    waited = threading.Event()
    while "metrics are not served yet" not in caplog.text:
        waited.wait(0.01)
    watched.served.stop()
    watched.facts = replace(WELL, ended=("this is the second one",))
    code = 0
    while code != 503:
        try:
            code, _ = watched.get("/livez")
        except urllib.error.URLError:
            waited.wait(0.01)
    later.stop()
