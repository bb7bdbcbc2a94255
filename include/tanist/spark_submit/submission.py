"""How a job is submitted: application, settings, environment. The same for `tanist` and for Airflow's operator."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import MissingDependency
from tanist.domain.spark_settings import UNENCRYPTED
from tanist.kafka.protocol.stored import plain
from tanist.spark_submit.packages import FOLDER, packages, tanist_in
from tanist.spark_submit.place import LOCAL, SparkPlace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HERE: Final = Path(__file__).parent
_REDACTED: Final = r"(?i)secret|password|token|access[.]?key|jaas|keystore|truststore|ssl[.]key|credential"
_SETTINGS: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.redaction.regex": _REDACTED,
    "spark.sql.redaction.options.regex": _REDACTED,
}
_LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}
_ENCRYPTED: Final = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job. `brief`: most of its time is the JVM's start, so compile less (not of a job that works in the JVM).

    `job` is a dataclass; its file is made private, because it holds the clusters' secrets. `uri`: a folder on another
    file system, to which the results go besides `folder`; empty: none.
    """

    application: str
    job: Any
    folder: Path
    brief: bool = True
    uri: str = ""
    place: SparkPlace = LOCAL
    driver_memory: str = "2g"

    def settings(self, scratch: Path) -> Mapping[str, str]:
        """Of Spark; nothing secret. What it writes on this machine is in `scratch`, but for the results."""
        options = [
            *("-XX:+UseSerialGC", "-XX:-UsePerfData", f"-Djava.io.tmpdir={scratch}"),
            f"-Dlog4j2.configurationFile={(_HERE / 'log4j2.properties').as_uri()}",
        ]
        if self.brief:
            options.append("-XX:TieredStopAtLevel=1")
        settings = _SETTINGS | {
            "spark.driver.extraJavaOptions": " ".join(options),
            "spark.ui.enabled": str(self.place.ui).lower(),
        }
        if self.place.is_local:
            return settings | _LOCAL | {"spark.sql.warehouse.dir": (scratch / "warehouse").as_uri()}
        return {**settings, **self._of_executors()}

    def _of_executors(self) -> Mapping[str, str]:
        """What lies on their disks is encrypted, too; their Python finds what `shipped` has brought."""
        settings = {
            "spark.io.encryption.enabled": "true",
            "spark.pyspark.python": self.place.python,
            "spark.pyspark.driver.python": sys.executable,
            UNENCRYPTED: str(self.place.unencrypted).lower(),
        }
        if self.place.encrypts_itself:
            settings |= _ENCRYPTED
        if not self.place.image:
            settings["spark.executorEnv.PYTHONPATH"] = FOLDER
        return settings

    def shipped(self, scratch: Path) -> Mapping[str, str]:
        """Files for the executors, by spark-submit's options without their dashes.

        Raises:
            MissingDependency: a package that executors need is not installed here.
        """
        if self.place.is_local:
            return {}
        files = {"py-files": str(tanist_in(scratch))}
        if not self.place.image:
            files["archives"] = f"{packages()}#{FOLDER}"
        return files

    def arguments(self, file: Path) -> tuple[str, ...]:
        """Of the application, whose job is in `file`."""
        elsewhere = ("--report", self.uri) if self.uri else ()
        return "--job", str(file), "--folder", str(self.folder), *elsewhere

    def command(self, file: Path) -> list[str]:
        """What starts it; raises MissingDependency."""
        settings = [("--conf", f"{name}={value}") for name, value in self.settings(file.parent).items()]
        shipped = [(f"--{name}", value) for name, value in self.shipped(file.parent).items()]
        properties = ["--properties-file", str(self.place.properties)] if self.place.properties else []
        return [
            spark_submit(),
            *("--master", self.place.master, "--deploy-mode", self.place.deploy_mode),
            *("--driver-memory", self.driver_memory),
            *properties,
            *chain(*settings, *shipped),
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


def environment(scratch: Path, place: SparkPlace = LOCAL) -> dict[str, str]:
    """What a job needs besides ours: this interpreter, the Spark that belongs to it, and `scratch`.

    With executors elsewhere, the driver plans with their Python, which finds the packages of this one.
    """
    paths = [str(_HERE.parents[1]), os.environ.get("PYTHONPATH")]
    common = {"SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch), "SPARK_HOME": str(spark_home())}
    if place.is_local:
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        own = {"SPARK_LOCAL_IP": "127.0.0.1"} | python
    else:
        paths += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        own = {}
    return common | own | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths)))}


def application(name: str) -> Path:
    """The file of a job: of `spark_jobs`, which an installed package has within it and a checkout beside `include`.

    Raises:
        MissingDependency: there is none.
    """
    for home in (_HERE.parent, _HERE.parents[2]):
        if (file := home / "spark_jobs" / name).is_file():
            return file
    raise MissingDependency(f"this installation of Tanist has no spark_jobs/{name}: reinstall it")
