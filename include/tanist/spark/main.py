"""The ends of a job: its private file in, its result out, an exit code. Nothing here knows what it computes."""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.problems import exit_code
from tanist.domain.reconciliation.job import ReconciliationJob
from tanist.domain.validation.job import Level, ValidationJob
from tanist.domain.validation.page import as_page
from tanist.domain.validation.result import ValidationVerdict, canonical
from tanist.kafka.protocol.stored import reader
from tanist.kafka.wire.parent import end_with
from tanist.spark.reconciliation.job import RUNS, reconcile
from tanist.spark.report_folder import published
from tanist.spark.session import session
from tanist.spark.validation import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

UNKNOWN: Final = 3
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""In the environment of an application whose parent is the JVM of spark-submit."""
_T = TypeVar("_T")


def validation(file: Path, folder: Path, uri: str = "") -> int:
    """Validate what `file` asks for; `report.html` and `result.json` go to `folder`. The verdict is the exit code.

    `uri`: the results go there, too, by Spark's file systems.
    """

    def work() -> int:
        job = read(file, ValidationJob)
        without = job.level is Level.RANGES and not uri  # a session would take most of the time
        title = f"tanist validate {job.mirror}"
        with (
            nullcontext() if without else session(title, (job.source, job.destination), report) as spark,
            published(spark, uri, ("report.html", "result.json"), job.run, folder),
        ):
            result = validate(spark, job, report)
            replace(folder / "report.html", as_page(result))
            replace(folder / "result.json", canonical(result))
        return ValidationVerdict(result["verdict"]).exit_code

    return _ended(work, folder)


def reconciliation(file: Path, folder: Path, uri: str = "") -> int:
    """Reconcile what `file` asks for; `runs.parquet` and `result.json` go to `folder`. 3 if anything is unknown.

    `uri`: as for `validation`.
    """

    def work() -> int:
        job = read(file, ReconciliationJob)
        with (
            session("tanist reconcile", (job.source, job.destination), report) as spark,
            published(spark, uri, (RUNS, "result.json"), job.run, folder),
        ):
            result = reconcile(spark, job, folder, report)
            if uri:
                result["runs_file"] = f"{uri.rstrip('/')}/{RUNS}"
            replace(folder / "result.json", canonical(result))
        return UNKNOWN if result["unknown"] else 0

    return _ended(work, folder)


def _ended(work: Callable[[], int], folder: Path) -> int:
    """The exit code of `work`: its own, or its error's, which also goes to `error.json`. It ends with the JVM."""
    if _GATEWAY in os.environ:
        end_with(os.getppid())
    try:
        _make(folder)
        return work()
    except TanistError as error:
        _say(error)
        code = exit_code(error)
        with suppress(OSError):
            replace(folder / "error.json", canonical({"name": error.name, "reason": error.reason, "exit_code": code}))
        return code
    except Exception as bug:  # noqa: BLE001  # the outermost edge: 1 would mean that the copy differs
        traceback.print_exc()
        _say(TanistError(f"{type(bug).__name__}: {bug}"))
        return TanistError.exit_code


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"results cannot be written to {folder}: {error.strerror}") from error


def _say(error: TanistError) -> None:
    report(f"error: {' '.join(str(error).split())}")


def read(file: Path, kind: Callable[..., _T]) -> _T:
    """The job of that kind in `file`, which is gone afterwards: it holds secrets, and nobody needs it any more.

    Raises:
        Misconfigured: there is none, or it is another one.
    """
    try:
        stored: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        job: _T = reader(kind)(stored)
        file.unlink()
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(f"{file} is not a job file: {error}") from error
    return job


def report(stage: str) -> None:
    """A line for whoever has started us."""
    print(stage, flush=True)  # noqa: T201  # standard output is the way to them


def replace(file: Path, text: str) -> None:
    """`file` is there whole, or as it was."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    with os.fdopen(handle, "w", encoding="utf-8") as written:
        written.write(text)
    Path(temporary).replace(file)
