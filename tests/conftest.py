"""Real clusters for every test that wants them. Nothing survives the test process, however it ends."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import uuid
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest
from xdist.scheduler import LoadFileScheduling

from tanist.kafka.protocol.client_config import client_config as connection
from tanist_testkit.sandbox.airflow.home import AirflowSpec
from tanist_testkit.sandbox.airflow.service import Airflow
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.time_spent import lines, profile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist_testkit.sandbox.airflow.rest import AirflowConnection
    from tests.kafka.fetcher.rig import Rig, RigCluster

PROJECT: Final = Path(__file__).resolve().parents[1]

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would each compile our sources again

ORDER: Final = (
    *("airflow", "airflow/test_lost_answers.py", "airflow/whole"),
    *("kafka/failover", "kafka/failover/test_dead_source.py", "kafka/failover/test_metrics.py"),
    *("kafka/failover/test_real.py", "spark"),
    *("kafka/fetcher", "kafka/fetcher/test_last_look.py", "kafka/failover/own", "kafka/failback", "kafka/cli"),
    *("kafka/demo", "contracts", "kafka", "explorer", "storm", "unit"),
)
"""Folders of tests in the order in which they begin: first what takes long, so that no processor is idle in the end.

A file that is named here runs beside its folder, which comes directly before it: it takes minutes, and waits in most.
"""


def places(nodeid: str) -> Sequence[str]:
    """Where the test lies, below `tests`: its file, and the folders around it, the nearest first."""
    within = nodeid.partition("::")[0].split("/")[1:]
    return ["/".join(within[:n]) for n in range(len(within), 0, -1)]


def shares(nodeid: str) -> str:
    """What runs in one process: a folder, which shares what is slow to start; of what starts nothing, a file."""
    file, *around = places(nodeid)
    return file if file in ORDER or around[-1] == "unit" else around[0]


class Shared(LoadFileScheduling):
    """The tests of a folder run in one process."""

    def _split_scope(self, nodeid: str) -> str:
        return shares(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    """With `--dist loadfile` the tests of a file run in one process: long ones share little."""
    config.option.loadscopereorder = False
    return (LoadFileScheduling if config.option.dist == "loadfile" else Shared)(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marked by their folder, in `ORDER`; whoever needs the shared Airflow or three brokers, one after the other."""
    for item in items:
        item.add_marker(places(item.nodeid)[-1])
    items.sort(key=lambda item: (begins(item.nodeid), needs_airflow(item), "three_brokers" in needs(item)))


def pytest_collection_finish() -> None:
    """Thousands of tests, and what they import, stay until the end: the collector need not visit them again."""
    gc.collect()
    gc.freeze()


def begins(nodeid: str) -> int:
    """The place in `ORDER` of the file or folder that the test lies in, the nearest that is named there."""
    return next((ORDER.index(at) for at in places(nodeid) if at in ORDER), len(ORDER))


def needs(item: pytest.Item | None) -> Collection[str]:
    """Names of fixtures, those of its fixtures included."""
    return getattr(item, "fixturenames", ())


def needs_airflow(item: pytest.Item | None) -> bool:
    return "airflow" in needs(item)


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """An Airflow that the next test does not need is stopped: it takes half a processor for doing nothing."""
    if needs_airflow(item) and not needs_airflow(nextitem):
        shared = getattr(item, "funcargs", {}).get("airflow")
        if isinstance(shared, SharedAirflow):
            shared.stop()


def pytest_configure() -> None:
    """Shells start what runs in the background deaf to Ctrl-C; the commands that tests interrupt must not be."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Of a run in several processes, which is one of all tests: where its time went."""
    if not getattr(terminalreporter.config.option, "numprocesses", None):
        return
    every = chain.from_iterable(terminalreporter.stats.values())
    found = profile((each for each in every if isinstance(each, pytest.TestReport)), folder_of)
    terminalreporter.section("seconds by folder")
    for line in lines(found):
        terminalreporter.write_line(line)


def folder_of(nodeid: str) -> str:
    """What runs in one process; the unit tests are one folder."""
    found = shares(nodeid)
    return "unit" if found.startswith("unit/") else found


class ClusterFactory(Protocol):
    def __call__(
        self,
        name: str,
        *,
        brokers: int = 3,
        authorizer: bool = False,
        tls: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> SandboxCluster:
        """A cluster of the test's own, ready; it ends with the test."""


@pytest.fixture(scope="session")
def guardian() -> Iterator[Guardian]:
    with Guardian() as guardian:
        yield guardian


@pytest.fixture(scope="session")
def clusters(guardian: Guardian) -> Iterator[Mapping[str, SandboxCluster]]:
    """`east` and `west`, one broker each, shared by the whole session: own your topics, not the cluster."""
    with ExitStack() as stack:
        both = [SandboxCluster.new(ClusterSpec(name=name, heap_mb=384), guardian=guardian) for name in ("east", "west")]
        for cluster in both:
            stack.callback(cluster.close)
            cluster.launch()
        for cluster in both:
            cluster.start()
        yield {cluster.name: cluster for cluster in both}


@pytest.fixture(scope="session")
def sides(clusters: Mapping[str, SandboxCluster]) -> Iterator[tuple[RigCluster, RigCluster]]:
    """`east` and `west` with clients of their own, for what a rig does to either."""
    from tests.kafka.fetcher.rig import RigCluster  # noqa: PLC0415  # only tests that copy pay for it

    both = RigCluster(clusters["east"]), RigCluster(clusters["west"])
    yield both
    for side in both:
        side.close()


@pytest.fixture
def rig(sides: tuple[RigCluster, RigCluster]) -> Rig:
    """From `east` to `west`, with producer ids of its own: calm tests, topics and groups of their own."""
    from tests.kafka.fetcher.rig import Rig  # noqa: PLC0415

    return Rig(*sides)


@pytest.fixture
def cluster_factory(guardian: Guardian) -> Iterator[ClusterFactory]:
    with ExitStack() as stack:

        def make(
            name: str,
            *,
            brokers: int = 3,
            authorizer: bool = False,
            tls: bool = False,
            properties: Mapping[str, str] | None = None,
        ) -> SandboxCluster:
            spec = ClusterSpec(name=name, brokers=brokers, authorizer=authorizer, tls=tls, properties=properties or {})
            cluster = SandboxCluster.new(spec, guardian=guardian)
            stack.callback(cluster.close)
            cluster.start()
            return cluster

        yield make


@pytest.fixture
def hasty_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job on a few records ends before optimizing its code has paid: half a minute of processor less."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


class SharedAirflow:
    """A whole Airflow with our DAGs, and the probe of the sandbox's tests."""

    def __init__(self, airflow: Airflow) -> None:
        self._airflow = airflow

    def __call__(self, connections: Sequence[AirflowConnection] = ()) -> Airflow:
        """It, healthy, whatever a test before has done to it, with these connections besides those that it has."""
        self._airflow.start(connections)
        return self._airflow

    def stop(self) -> None:
        """Until it is asked for again."""
        self._airflow.stop()


@pytest.fixture(scope="session")
def airflow(guardian: Guardian, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedAirflow]:
    """Started when a test first asks for it (20 s), shared by the session: own your runs."""
    directory, dags = tmp_path_factory.mktemp("sandbox"), tmp_path_factory.mktemp("dags")
    for file in (*(PROJECT / "dags").glob("*.py"), PROJECT / "tests" / "airflow" / "whole" / "dags" / "probe.py"):
        shutil.copy(file, dags)
    shared = Airflow.new(AirflowSpec(dags=dags, plugins=PROJECT / "plugins"), directory / "airflow", guardian=guardian)
    try:
        yield SharedAirflow(shared)
    finally:
        shared.close()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that nobody else uses, and that tells which test it belongs to."""
    return f"{re.sub(r'[^a-zA-Z0-9]+', '-', request.node.name)[:60]}-{uuid.uuid4().hex[:8]}"


class ClientConfig(Protocol):
    def __call__(self, endpoint: Endpoint, **extra: str) -> dict[str, Any]:
        """What a librdkafka client needs to connect; `extra` keys have '_' for '.'."""


def librdkafka(endpoint: Endpoint, **extra: str) -> dict[str, Any]:
    """As `ClientConfig` says. Brokers are killed on purpose here: it does not tell of every connection."""
    return connection(endpoint) | {"log_level": "2"} | {key.replace("_", "."): value for key, value in extra.items()}


@pytest.fixture(scope="session")
def client_config() -> ClientConfig:
    return librdkafka
