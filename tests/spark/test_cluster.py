"""The jobs on a Spark cluster that exists: a master, two workers, executors that have nothing of ours but what is sent.

Its brokers speak TLS with logins; the executors' Python is a bare one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import venv
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.sandbox.spark import SparkCluster
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.fetcher.rig import until
from tests.spark.leaks import commands, files, leaks, pages, secrets_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.usefixtures("hasty_java")]
SOURCE: Final = ClusterSpec(name="east", authorizer=True, tls=True, heap_mb=384)
_OF_A_RUN: Final = ("run", "as_of_ms", "seconds", "runs_file")
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"


@pytest.fixture(scope="module")
def sealed(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A mirror `dr` of two topics, of which one differs at the destination."""
    with running(guardian, client_config, tmp_path_factory.mktemp("sealed"), source=SOURCE) as pair:
        pair.worker()
        pair.mirror("dr", "orders", "bills")
        assert pair.west.writes("bills", range(4), user="mirror")
        until(lambda: states(pair, "bills") == {"FAILED"}, 60)  # results have it
        yield pair


def states(pair: Pair, topic: str) -> set[str]:
    rows = json.loads(pair.tanist("mirrors", "describe", "dr", "--json").out)["items"]
    return {row["state"] for row in rows if row["topic"] == topic}


@pytest.fixture(scope="module")
def spark_cluster(guardian: Guardian, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    home = tmp_path_factory.mktemp("spark-cluster")
    cluster = SparkCluster(home, guardian)
    cluster.start(2, SystemClock().deadline(120))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of this version that has nothing installed."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, symlinks=True)
    return home / "bin" / "python"


class Running:
    """`tanist` as a process, whose lines can be waited for."""

    def __init__(self, pair: Pair, home: Path, *arguments: str) -> None:
        home.mkdir()
        temporary = home.with_name(f"{home.name}-tmp")
        temporary.mkdir()
        self.home, self.lines = home, list[str]()
        self._came, self._ended = threading.Condition(), False
        environment = pair.environment() | {"SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(temporary)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tanist.cli.main", *arguments, "--destination", "west"],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            with self._came:
                self.lines.append(line)
                self._came.notify_all()
        with self._came:
            self._ended = True
            self._came.notify_all()

    def until(self, text: str) -> str:
        """The first line with `text`."""
        with self._came:
            self._came.wait_for(
                lambda: any(text in line for line in self.lines) or self.process.poll() is not None, 300
            )
            found = [line for line in self.lines if text in line]
        assert found, "".join(self.lines)
        return found[0]

    def end(self) -> int:
        code = self.process.wait(600)
        self._reader.join()
        assert self.process.stderr
        self.process.stderr.close()
        return code


def where(cluster: SparkCluster, python: Path) -> tuple[str, ...]:
    return "--master", cluster.master, "--properties-file", str(cluster.properties), "--python", str(python)


def result(folder: Path) -> str:
    """All that a run has said but when, and of which run."""
    item = json.loads((folder / "result.json").read_text())
    return json.dumps({name: value for name, value in item.items() if name not in _OF_A_RUN}, indent=1)


def executors(cluster: SparkCluster) -> list[int]:
    """Their pids. Another cluster may run on this machine."""
    found = []
    for pid, line in commands().items():
        with suppress(OSError):
            if _EXECUTOR in line and Path(f"/proc/{pid}/cwd").readlink().is_relative_to(cluster.home):
                found.append(pid)
    return sorted(found)


@pytest.mark.parametrize("level", ["batches", "records"])
def test_a_mirror_is_validated_on_a_cluster_without_the_folder_it_was_asked_from(
    sealed: Pair, spark_cluster: SparkCluster, python: Path, tmp_path: Path, level: str
) -> None:
    """The same bytes as on this machine; no secret in a command, a work directory, the event log or a page."""
    arguments = ("validate", "dr", "--level", level)
    here = Running(sealed, tmp_path / "here", *arguments)
    assert here.end() == 1, here.lines
    there = Running(
        sealed, tmp_path / "there", *arguments, "--ui", *where(spark_cluster, python), "--report", str(tmp_path)
    )
    page = there.until("Spark's pages: ").rpartition(" ")[2].strip()
    said = {f"command {pid}": line for pid, line in commands().items()}
    assert executors(spark_cluster)
    there.until(f"{level}: ")
    (tmp_path / "there").rename(tmp_path / "elsewhere")
    said |= pages(page, page + "/environment/", page + "/SQL/", spark_cluster.page, spark_cluster.workers[0].page)
    assert there.end() == 1, there.lines
    assert result(tmp_path) == result(tmp_path / "here" / "validation" / "dr")
    said |= files(spark_cluster.home, tmp_path)
    said.pop(str(spark_cluster.properties))
    assert any("SparkListenerApplicationEnd" in text for text in said.values())
    assert any("spark.redaction.regex" in text for text in said.values())
    assert not leaks(secrets_of(sealed, spark_cluster), said)


def test_a_mirror_is_reconciled_on_a_cluster(
    sealed: Pair, spark_cluster: SparkCluster, python: Path, tmp_path: Path
) -> None:
    """The same bytes, and no secret anywhere."""
    here = Running(sealed, tmp_path / "here", "reconcile", "dr")
    assert here.end() == 0, here.lines
    there = Running(sealed, tmp_path / "there", "reconcile", "dr", "--ui", *where(spark_cluster, python))
    page = there.until("Spark's pages: ").rpartition(" ")[2].strip()
    there.until("records: ")
    said = {f"command {pid}": line for pid, line in commands().items()}
    said |= pages(page + "/environment/", page + "/SQL/", page + "/jobs/", spark_cluster.page)
    assert there.end() == 0, there.lines
    ours, theirs = (run.home / "reconciliation" / "dr" for run in (here, there))
    assert result(theirs) == result(ours)
    assert (theirs / "runs.parquet").read_bytes() == (ours / "runs.parquet").read_bytes()
    said |= files(spark_cluster.home, there.home)
    said.pop(str(spark_cluster.properties))
    assert not leaks(secrets_of(sealed, spark_cluster), said)


@pytest.mark.parametrize(
    ("asked", "moment"),
    [
        (("validate", "dr", "--level", "batches"), "batches: "),
        (("validate", "dr", "--level", "records"), "keys of "),
    ],
)
def test_an_executor_and_a_worker_that_are_killed_change_nothing(  # fixtures
    sealed: Pair,
    spark_cluster: SparkCluster,
    python: Path,
    tmp_path: Path,
    asked: tuple[str, ...],
    moment: str,
) -> None:
    """What they have read is read again, by who is left or comes in their place: the same bytes."""
    here = Running(sealed, tmp_path / "here", *asked)
    expected = here.end()
    assert expected == (1 if "validate" in asked else 0), here.lines
    third = spark_cluster.add_worker(SystemClock().deadline(120))
    before = begun(spark_cluster)
    there = Running(sealed, tmp_path / "there", *asked, *where(spark_cluster, python))
    there.until(moment)
    assert begun(spark_cluster) - before == 3, "one for each worker"
    os.kill(executors(spark_cluster)[0], signal.SIGKILL)
    third.kill()
    assert there.process.poll() is None, "they were killed in the middle"
    assert there.end() == expected, there.lines
    folders = [run.home / ("validation" if "validate" in asked else "reconciliation") / "dr" for run in (here, there)]
    assert result(folders[1]) == result(folders[0])
    if "reconcile" in asked:
        ours, theirs = (folder / "runs.parquet" for folder in folders)
        assert theirs.read_bytes() == ours.read_bytes()


def begun(cluster: SparkCluster) -> int:
    """Executors that workers have ever been asked for."""
    return len(list(cluster.home.glob("worker-*/app-*/*")))


def test_logins_are_not_sent_through_a_cluster_that_is_not_encrypted(
    sealed: Pair, guardian: Guardian, python: Path, tmp_path: Path
) -> None:
    """It is refused, with what to set."""
    plain = SparkCluster(tmp_path / "plain", guardian, encrypted=False)
    plain.start(1, SystemClock().deadline(120))
    try:
        asked = Running(sealed, tmp_path / "asked", "validate", "dr", *where(plain, python))
        assert asked.end() == 2, asked.lines
        assert "would be sent to executors unencrypted" in "".join(asked.lines)
    finally:
        plain.stop()
