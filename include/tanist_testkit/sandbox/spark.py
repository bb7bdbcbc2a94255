"""A standalone Spark cluster of this machine: a master and workers, each a process with its own work directory.

It runs the Spark inside the installed pyspark. Its processes inherit nothing of ours but PATH and HOME: what an
executor needs of Tanist has to come with the application.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import ProcessFailed, TimedOut
from tanist.spark_submit.submission import spark_home

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.ports.clock import Deadline
    from tanist_testkit.sandbox.processes import Guardian, Process

HOST: Final = "127.0.0.1"
_PAGE: Final = re.compile(r"(?:Master|Worker)WebUI to .*, and started at (http://\S+)")
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = re.compile(r"Successfully registered with master")
_POLL_SECONDS: Final = 0.1


@dataclass(slots=True)
class SparkWorker:
    """One worker; the work directories of its executors are `work`/app-*/N."""

    process: Process
    page: str
    work: Path

    def kill(self) -> None:
        """SIGKILL; its executors end with it."""
        self.process.send(signal.SIGKILL)


@dataclass(slots=True)
class SparkCluster:
    """Encrypted if `encrypted`: master, workers and applications share a secret, which is in `properties`."""

    home: Path
    guardian: Guardian
    encrypted: bool = True
    memory: str = "1g"
    master: str = ""
    page: str = ""
    workers: list[SparkWorker] = field(default_factory=list)
    _master: Process | None = None

    @property
    def properties(self) -> Path:
        """Settings that an application needs as much as master and workers; private: it has the secret."""
        return self.home / "spark.properties"

    @property
    def events(self) -> Path:
        """Where applications leave their event logs."""
        return self.home / "events"

    def start(self, workers: int, by: Deadline) -> None:
        """Starts the master, then `workers` with one core each.

        Raises:
            ProcessFailed: one has ended. TimedOut: one is not up by then.
        """
        self.events.mkdir(parents=True)
        settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": self.events.as_uri()}
        settings |= {"spark.eventLog.compress": "false", "spark.executor.memory": self.memory}
        if self.encrypted:
            settings |= {
                "spark.authenticate": "true",
                "spark.authenticate.secret": secrets.token_hex(16),
                "spark.network.crypto.enabled": "true",
            }
        handle = os.open(self.properties, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {value}\n" for name, value in settings.items())
        log = self.home / "master.log"
        self._master = process = self._spawn("master.Master", log, "--port", "0")
        self.master = _said(log, _MASTER, process, by)
        self.page = _said(log, _PAGE, process, by)
        begun = [self._begin_worker(n) for n in range(workers)]
        self.workers += [self._worker(n, process, by) for n, process in enumerate(begun)]

    def add_worker(self, by: Deadline) -> SparkWorker:
        """One more; raises as `start` does."""
        number = len(self.workers)
        self.workers.append(self._worker(number, self._begin_worker(number), by))
        return self.workers[-1]

    def stop(self) -> None:
        """Kills master, workers and their executors. Can be called again."""
        for process in (*(worker.process for worker in self.workers), self._master):
            if process is not None:
                process.send(signal.SIGKILL)

    def _begin_worker(self, number: int) -> Process:
        work = self.home / f"worker-{number}"
        work.mkdir()
        limits = ("--cores", "1", "--memory", self.memory, "--work-dir", str(work))
        return self._spawn("worker.Worker", self.home / f"worker-{number}.log", *limits, self.master)

    def _worker(self, number: int, process: Process, by: Deadline) -> SparkWorker:
        log = self.home / f"worker-{number}.log"
        _said(log, _REGISTERED, process, by)
        return SparkWorker(process, _said(log, _PAGE, process, by), self.home / f"worker-{number}")

    def _spawn(self, kind: str, log: Path, *arguments: str) -> Process:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.home / "blocks"),
            "SPARK_SCALA_VERSION": "2.13",  # otherwise executors look for the folders of a build of Spark
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
        }
        if java := os.environ.get("JAVA_HOME"):
            environment["JAVA_HOME"] = java
        command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        places = ("--host", HOST, "--webui-port", "0", "--properties-file", str(self.properties))
        cleared = ["env", "-i", *(f"{name}={value}" for name, value in environment.items())]
        return self.guardian.spawn([*cleared, *command, *places, *arguments], log)


def _said(log: Path, pattern: re.Pattern[str], process: Process, by: Deadline) -> str:
    """What `process` has said in its log; the pattern's group, if it has one."""
    while True:
        alive = process.alive
        if found := pattern.search(log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""):
            return found[found.re.groups]
        if not alive:
            raise ProcessFailed(f"a process of the Spark cluster has ended, log: {log}")
        if not by.left(time.monotonic()):
            raise TimedOut(f"a process of the Spark cluster is not up in time, log: {log}")
        time.sleep(_POLL_SECONDS)
