"""What Spark and its JVM report when they fail."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tanist.domain.errors import CouldNotTell

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILED: Final = (PySparkException, Py4JError)
"""The latter is raised where Arrow is collected, and by what pyspark has no wrapper for."""


@contextmanager
def translated_failures() -> Iterator[None]:
    """A failure of Spark inside is CouldNotTell, by its innermost cause."""
    try:
        yield
    except FAILED as failed:
        raise CouldNotTell(f"Spark: {innermost_cause(failed)}") from failed


def innermost_cause(failed: Exception) -> str:
    """One line: the rest is pages of stack traces."""
    lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return [type(failed).__name__, *lines[:1], *causes][-1]
