"""The port for metrics of a fetcher that Airflow hosts, with the real child on real clusters. S3.17."""

from __future__ import annotations

import asyncio
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tanist.airflow import connections
from tanist.airflow.connections import METRICS_PORT, metrics_port
from tanist.airflow.fetcher_process import FetcherProcess
from tanist.airflow.host import FetcherHost
from tanist.airflow.worker import metrics_port as port_of
from tanist_testkit.sandbox.ports import free_ports
from tests.promql import Scrape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kafka.failover.conftest import Pair

INCLUDE = Path(__file__).parents[2] / "include"


@pytest.mark.parametrize(("setting", "ports"), [("9405", ["9405", "9406"]), ("", ["", ""]), ("many", ["many", "many"])])
def test_each_destination_has_a_port_of_its_own(
    setting: str, ports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "text", lambda name: setting if name == METRICS_PORT else "")
    assert [metrics_port(n) for n in range(2)] == ports


def test_the_child_is_given_its_port_and_the_trigger_is_another_one_with_another_port() -> None:
    with_port, without = FetcherHost("west", "9405"), FetcherHost("west")
    assert with_port.command()[1:5] == ["-m", "tanist.airflow.worker", "west", "9405"]
    assert len(without.command()) == len(with_port.command()) - 1
    _, given = with_port.serialize()
    assert FetcherHost(**given).command() == with_port.command()


@pytest.mark.parametrize(("given", "port"), [("9405", 9405), ("", None), ("many", None), ("0", None), ("65536", None)])
def test_what_is_no_port_is_logged_and_copying_goes_on(
    given: str, port: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert port_of(*([given] if given else [])) == port
    assert ("TANIST_METRICS_PORT is no port" in caplog.text) is (port is None and given != "")


def test_s3_17_a_hosted_fetcher_serves_metrics_as_soon_as_its_port_is_free(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fetcher before may have the port for some seconds; copying does not wait for it."""
    monkeypatch.setenv("PYTHONPATH", str(INCLUDE))
    (port,) = free_ports(1)
    extras = {each.id: each.extra for each in pair.connections()}
    lines: list[str] = []

    async def lend(name: str) -> Mapping[str, Any]:
        return dict(extras[name] or {})

    def get(path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return ""

    async def until(path: str, wanted: str) -> str:
        async with asyncio.timeout(60):
            while wanted not in (text := await asyncio.to_thread(get, path)):  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.2)
        return text

    async def run() -> str:
        taken = socket.create_server(("0.0.0.0", port))  # noqa: S104  # as the fetcher before had it
        command = FetcherHost("west", str(port)).command()
        assert command[0] == sys.executable
        child = await FetcherProcess.start(command, lambda _level, event, _fields: lines.append(event), lend)
        try:
            async with asyncio.timeout(60):
                while "metrics are not served yet, copying goes on" not in lines:  # noqa: ASYNC110 -- likewise
                    await asyncio.sleep(0.1)
            taken.close()
            await until("/readyz", "ok")
            return await until("/metrics", "tanist_workers_alive")
        finally:
            taken.close()
            await child.stop()

    found = Scrape.of(0.0, asyncio.run(run()))
    assert found.samples["tanist_workers_alive"][frozenset()] >= 1
