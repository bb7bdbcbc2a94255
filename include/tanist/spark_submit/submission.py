"""How a job is submitted: application, settings, environment. The same for `tanist` and for Airflow's operator."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import MissingDependency
from tanist.kafka.protocol.values import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HERE: Final = Path(__file__).parent
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job. `brief`: most of its time is the JVM's start, so compile less (a job that reads in the JVM is not).

    `job` is a dataclass; its file is made private, because it holds the clusters' secrets.
    """

    application: str
    job: Any
    folder: Path
    jars: tuple[Path, ...] = ()
    brief: bool = True
    master: str = "local[*]"
    driver_memory: str = "2g"

    def settings(self, scratch: Path) -> Mapping[str, str]:
        """Of Spark; nothing secret. What it writes on this machine is in `scratch`, but for the results."""
        options = [
            *("-XX:+UseSerialGC", "-XX:-UsePerfData", f"-Djava.io.tmpdir={scratch}"),
            f"-Dlog4j2.configurationFile={(_HERE / 'log4j2.properties').as_uri()}",
        ]
        if self.brief:
            options.append("-XX:TieredStopAtLevel=1")
        return _SETTINGS | {
            "spark.driver.extraJavaOptions": " ".join(options),
            "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        }

    def arguments(self, file: Path) -> tuple[str, ...]:
        """Of the application, whose job is in `file`."""
        return "--job", str(file), "--folder", str(self.folder)

    def command(self, file: Path) -> list[str]:
        """What starts it; raises MissingDependency."""
        settings = [
            word for name, value in self.settings(file.parent).items() for word in ("--conf", f"{name}={value}")
        ]
        jars = ["--jars", ",".join(map(str, self.jars))] if self.jars else []
        return [
            spark_submit(),
            *("--master", self.master, "--driver-memory", self.driver_memory),
            *settings,
            *jars,
            str(application(self.application)),
            *self.arguments(file),
        ]

    def write(self, file: Path) -> None:
        """The job, readable by its owner only, from the first byte on."""
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as private:
            json.dump(plain(self.job, reveal=True), private)


def bound(command: Sequence[str], folder: Path, *owners: int) -> list[str]:
    """`command` as a process that ends, and `folder` with it, with this one or one of `owners`."""
    pids = ",".join(map(str, (os.getpid(), *owners)))
    return [sys.executable, "-m", "tanist.spark_submit.bound", pids, str(folder), *command]


def spark_submit() -> str:
    """The command of the Spark inside pyspark; raises MissingDependency."""
    return str(spark_home() / "bin" / "spark-submit")


def spark_home() -> Path:
    """The Spark inside pyspark.

    Raises:
        MissingDependency: pyspark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingDependency("pyspark, which Spark jobs run on, is not installed: pip install 'tanist[spark]'")
    return Path(spec.origin).parent


def environment(scratch: Path) -> dict[str, str]:
    """What a job needs besides ours: this interpreter for its workers, the Spark that belongs to it, and `scratch`."""
    return {
        "SPARK_LOCAL_DIRS": str(scratch),
        "TMPDIR": str(scratch),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_HERE.parents[1]), os.environ.get("PYTHONPATH")])),
    }


def application(name: str) -> Path:
    """The file of a job: of `spark_jobs`, which an installed package has within it and a checkout beside `include`.

    Raises:
        MissingDependency: there is none.
    """
    for home in (_HERE.parent, _HERE.parents[2]):
        if (file := home / "spark_jobs" / name).is_file():
            return file
    raise MissingDependency(f"this installation of Tanist has no spark_jobs/{name}: reinstall it")
