"""A folder for results on any file system that the driver's JVM can write to: `hdfs:`, `s3a:`, ..."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from tanist.domain.errors import CouldNotTell, Misconfigured
from tanist.spark.failures import FAILED, innermost_cause

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

_NEXT: Final = (
    "put the settings of its file system (spark.hadoop.*) and its jars (spark.jars.packages) into --properties-file, "
    "or name a folder of this machine"
)


@contextmanager
def published(spark: SparkSession | None, uri: str, names: Sequence[str], run: str, folder: Path) -> Iterator[None]:
    """The files `names` that are written to `folder` meanwhile are in `uri` afterwards; without a `uri`: nothing.

    Raises as `ReportFolder`; what cannot be written to is found before anything is computed.
    """
    if not uri:
        yield
        return
    assert spark is not None  # noqa: S101  # whoever gives a `uri` has a session
    there = ReportFolder(spark, uri, names, run)
    there.prepare()
    yield
    there.publish(folder)


class ReportFolder:
    """The folder `uri`: each of `names` appears in it when it is complete, the last one when all are.

    `run` is part of the names of incomplete files.
    """

    def __init__(self, spark: SparkSession, uri: str, names: Sequence[str], run: str) -> None:
        self._java: Any = spark.sparkContext._jvm  # noqa: SLF001  # pyspark has no file systems of its own
        self._settings: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._uri, self._names, self._run = uri.rstrip("/"), tuple(names), run

    def prepare(self) -> None:
        """Makes the folder, writes to it, and removes the results of an earlier run.

        Raises:
            Misconfigured: that cannot be done; says why, and what to do.
        """
        try:
            folder = self._java.org.apache.hadoop.fs.Path(self._uri)
            files = folder.getFileSystem(self._settings)
            files.mkdirs(folder)
            probe = self._path(f".{self._run}.part")
            files.create(probe).close()
            for name in (probe, *map(self._path, reversed(self._names))):
                files.delete(name, False)  # noqa: FBT003  # no folders
        except FAILED as failed:
            raise Misconfigured(f"results cannot be written to {self._uri}: {_reason(failed)}: {_NEXT}") from failed

    def publish(self, folder: Path) -> None:
        """Copies `names` from `folder`, which is of this machine.

        Raises:
            CouldNotTell: a file cannot be written; says why, and where the results are.
        """
        try:
            for name in self._names:
                self._copy(folder / name, name)
        except (*FAILED, OSError) as failed:
            raise CouldNotTell(
                f"the results could not be written to {self._uri}: {_reason(failed)}: copy them from {folder}"
            ) from failed

    def _copy(self, file: Path, name: str) -> None:
        part, target = self._path(f".{name}.{self._run}.part"), self._path(name)
        files = target.getFileSystem(self._settings)
        local = self._java.org.apache.hadoop.fs.Path(self._java.java.io.File(str(file)).toURI())
        files.copyFromLocalFile(False, True, local, part)  # noqa: FBT003  # keep the source, overwrite
        files.delete(target, False)  # noqa: FBT003  # of another run; not every file system renames onto a file
        if not files.rename(part, target):
            raise OSError(f"{part} could not be renamed to {name}")

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(f"{self._uri}/{name}")


def _reason(failed: Exception) -> str:
    """Of an exception of Java its innermost cause, without the stack trace."""
    if not isinstance(failed, Py4JJavaError):
        return innermost_cause(failed)
    cause = failed.java_exception
    while (inner := cause.getCause()) is not None:
        cause = inner
    return str(cause.toString()).partition("\n")[0]
