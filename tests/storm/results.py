"""What `make storm` has seen: of each part one file, for a table of all parts of one commit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "storm-results"
"""Ignored by git."""


class Result(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CRASHED = "crashed"
    """Its process ended before it: a test that hung, or a storm that broke."""
    NOT_RUN = "not run"

    @property
    def ok(self) -> bool:
        return self in {Result.PASSED, Result.SKIPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTest:
    """`name`: the id that pytest gives it. `seconds`: of its fixtures, too."""

    name: str
    result: Result = Result.NOT_RUN
    seconds: float = 0.0

    def __str__(self) -> str:
        return self.name

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a storm counted. `counts`: everything else that it counted, by name."""

    faults: int = 0
    records: int = 0
    violations: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StormRun:
    """`asked_seconds`: of faults; `seconds`: of everything, start and comparison included."""

    name: str
    seed: int = 0
    asked_seconds: float = 0.0
    seconds: float = 0.0
    result: Result = Result.NOT_RUN
    figures: Figures = field(default_factory=Figures)

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRun:
    """One part of `of`. `everything`: the names of all long tests and storms, of which each part has its share.

    `dirty`: the working tree was not the one of `commit`; `ended`: nobody interrupted it.
    """

    commit: str
    dirty: bool
    part: int
    of: int
    everything: tuple[str, ...]
    tests: tuple[LongTest, ...] = ()
    storms: tuple[StormRun, ...] = ()
    seconds: float = 0.0
    ended: bool = False

    @property
    def ok(self) -> bool:
        """Whether all of it was run, and all was well."""
        return self.ended and all(each.result.ok for each in self.rows)

    @property
    def left(self) -> bool:
        """Whether something of it was not run."""
        return any(each.result is Result.NOT_RUN for each in self.rows)

    @property
    def rows(self) -> tuple[LongTest | StormRun, ...]:
        return (*self.storms, *self.tests)

    def write(self, folder: Path = FOLDER) -> Path:
        file = part_file(self.part, self.of, folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")  # a part that is killed leaves the file of before
        new.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return new.replace(file)


def part_file(part: int, of: int, folder: Path = FOLDER) -> Path:
    return folder / f"part-{part}-of-{of}.json"


def read_part(file: Path) -> PartRun:
    """Raises KeyError, TypeError, ValueError: not a file that `PartRun.write` has written."""
    found = json.loads(file.read_text(encoding="utf-8"))
    tests = [LongTest(**each | {"result": Result(each["result"])}) for each in found.pop("tests")]
    storms = [
        StormRun(**each | {"result": Result(each["result"]), "figures": Figures(**each["figures"])})
        for each in found.pop("storms")
    ]
    everything = tuple(found.pop("everything"))
    return PartRun(**found, everything=everything, tests=tuple(tests), storms=tuple(storms))
