"""The ends of a job: its private file in, its result out, an exit code. Nothing here knows what it computes."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.problems import exit_code
from tanist.domain.reconciliation.job import ReconciliationJob
from tanist.domain.validation.job import ValidationJob
from tanist.domain.validation.page import as_page
from tanist.domain.validation.result import Sameness, canonical
from tanist.protocol.values import reader
from tanist.spark.reconciliation.job import reconcile
from tanist.spark.session import session
from tanist.spark.validation import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

UNKNOWN: Final = 3
_T = TypeVar("_T")


def validation(file: Path, folder: Path) -> int:
    """Validate what `file` asks for; `result.json` and `report.html` go to `folder`. The verdict is the exit code."""
    with _telling(folder) as ended:
        job = read(file, ValidationJob)
        with session(f"tanist validate {job.mirror}") as spark:
            result = validate(spark, job, tell)
        replace(folder / "report.html", as_page(result))
        replace(folder / "result.json", canonical(result))
        ended.code = Sameness(result["verdict"]).exit_code
    return ended.code


def reconciliation(file: Path, folder: Path) -> int:
    """Reconcile what `file` asks for; `result.json` and `runs.parquet` go to `folder`. 3 if anything is unknown."""
    with _telling(folder) as ended:
        job = read(file, ReconciliationJob)
        with session("tanist reconcile") as spark:
            result = reconcile(spark, job, folder, tell)
        replace(folder / "result.json", canonical(result))
        ended.code = UNKNOWN if result["unknown"] else 0
    return ended.code


@dataclass(slots=True)
class _Ended:
    code: int = 0


@contextmanager
def _telling(folder: Path) -> Iterator[_Ended]:
    """An error of ours goes to `error.json`, and is the exit code."""
    ended = _Ended()
    try:
        yield ended
    except TanistError as error:
        tell(f"error: {error}")
        ended.code = exit_code(error)
        left = {"name": error.name, "reason": error.reason, "exit_code": ended.code}
        replace(folder / "error.json", canonical(left))


def read(file: Path, kind: Callable[..., _T]) -> _T:
    """The job of that kind in `file`.

    Raises:
        Misconfigured: there is none, or it is another one.
    """
    try:
        stored: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        job: _T = reader(kind)(stored)
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(f"{file} holds no job: {error}") from error
    return job


def tell(stage: str) -> None:
    """A line for whoever has started us."""
    print(stage, flush=True)  # noqa: T201  # standard output is the way to them


def replace(file: Path, text: str) -> None:
    """`file` is there whole, or as it was."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    with os.fdopen(handle, "w", encoding="utf-8") as written:
        written.write(text)
    Path(temporary).replace(file)
