"""The ends of a job: its private file in, its result out, an exit code. Nothing here knows what it computes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.problems import exit_code
from tanist.domain.validation.job import ValidationJob
from tanist.domain.validation.page import as_page
from tanist.domain.validation.result import Sameness, canonical
from tanist.protocol.values import reader
from tanist.spark.session import session
from tanist.spark.validation import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")


def validation(file: Path, folder: Path) -> int:
    """Validate what `file` asks for; `result.json` and `report.html` go to `folder`. The verdict is the exit code."""
    try:
        job = read(file, ValidationJob)
        with session(f"tanist validate {job.mirror}") as spark:
            result = validate(spark, job, tell)
    except TanistError as error:
        tell(f"error: {error}")
        replace(folder / "error.json", canonical({"name": error.name, "reason": error.reason}))
        return exit_code(error)
    replace(folder / "report.html", as_page(result))
    replace(folder / "result.json", canonical(result))
    return Sameness(result["verdict"]).exit_code


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
