"""`python -m tests.storm.parts 2/3`: a share of the long tests and of the storms; without a share all, part by part.

A part runs everything that is its own, whatever fails, and its exit code says whether all was well. What it has seen is
in `storm-results`, for `python -m tests.storm.table`. One that was interrupted, or ran out of time, goes on where it
ended when it is asked for again on the same commit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tanist.kafka.wire.clock import SystemClock
from tests.storm import recording
from tests.storm.results import FOLDER, ROOT, Figures, LongTest, PartRun, Result, StormRun, part_file, read_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tanist.ports.clock import Clock, Deadline

PARTS: Final = 4
PART_SECONDS: Final = 50 * 60.0
"""After that long a part ends; what it has not run is recorded as such, and the part has failed."""
STORMS: Final[Mapping[str, tuple[float, str]]] = {
    "storm": (720.0, ""),
    "storm --runbook": (600.0, "--runbook"),
    "storm --circle": (600.0, "--circle"),
    "storm --mapped": (600.0, "--mapped"),
    "storm --at-least-once": (300.0, "--at-least-once"),
}
"""Seconds of faults, and the option of `python -m tests.storm`, by name."""
AROUND_A_STORM: Final = 90.0
"""Seconds for its start and the comparison."""
LATE_SECONDS: Final = 600.0
"""After its faults a storm may take so long until everything is copied and compared."""
WRITE_SECONDS: Final = 20.0
"""What a part has seen is written as often as that, for the next one if this one is killed."""
TO_END_SECONDS: Final = 60.0
"""Clean up within that after Ctrl-C; a second one, or the end of this time, kills."""
JOBS: Final = 2
"""Processes that run tests side by side: each computes for half to two thirds of its time."""
SECONDS_FILE: Final = Path(__file__).with_name("seconds.json")
"""How long the long tests of each file took when they were last measured, in seconds; `tests.storm.table` writes it."""
PYTEST: Final = ("-m", "pytest", "-p", "tests.storm.recording", "-m", "long")


@dataclass(frozen=True, slots=True)
class Share:
    """Part `part` of `of`."""

    part: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Share:
        """`2/3`. Raises ArgumentTypeError: anything else."""
        found = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", text)
        if not found or int(found[1]) > int(found[2]):
            raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 1/{PARTS}")
        return cls(int(found[1]), int(found[2]))


# ── who runs what ─────────────────────────────────────────────────────────────────────────────────────────────────


def divided(costs: Mapping[str, float], parts: int) -> tuple[frozenset[str], ...]:
    """The names in `costs`, in so many parts that take about the same time; the same for the same costs."""
    taken, found = [0.0] * parts, [set[str]() for _ in range(parts)]
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        least = taken.index(min(taken))
        taken[least] += costs[name]
        found[least].add(name)
    return tuple(map(frozenset, found))


def costs(tests: Mapping[str, int], seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds that each file of so many long tests takes, and each storm.

    Test files run `JOBS` side by side, a storm runs alone. The tests of a file that was never measured count as
    average ones.
    """
    known = tests.keys() & seconds.keys()
    average = sum(seconds[file] for file in known) / sum(tests[file] for file in known) if known else 1.0
    return {file: seconds.get(file, average * count) / JOBS for file, count in tests.items()} | {
        name: faults + AROUND_A_STORM for name, (faults, _) in STORMS.items()
    }


def share(ids: Sequence[str], which: Share, seconds: Mapping[str, float]) -> PartRun:
    """What a part has to run; nothing of it has been run."""
    tests = [LongTest(name=each) for each in sorted(ids)]
    own = divided(costs(Counter(each.file for each in tests), seconds), which.of)[which.part - 1]
    commit, dirty = _commit()
    return PartRun(
        commit=commit,
        dirty=dirty,
        part=which.part,
        of=which.of,
        everything=(*(each.name for each in tests), *STORMS),
        tests=tuple(each for each in tests if each.file in own),
        storms=tuple(StormRun(name=name) for name in STORMS if name in own),
    )


def going_on(wanted: PartRun, file: Path) -> PartRun:
    """The same, with what an earlier run of this part has seen on this commit: that is not run again."""
    try:
        earlier = read_part(file)
    except (OSError, KeyError, TypeError, ValueError):
        return wanted
    if wanted.dirty or replace(wanted, tests=(), storms=()) != replace(
        earlier, tests=(), storms=(), seconds=0.0, ended=False
    ):
        return wanted
    if [each.name for each in earlier.rows] != [each.name for each in wanted.rows] or not earlier.left:
        return wanted
    return replace(earlier, ended=False)


def _commit() -> tuple[str, bool]:
    """Of the working tree, and whether it differs from that."""

    def git(*arguments: str) -> str:
        asked = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
        return asked.stdout.strip() if asked.returncode == 0 else "unknown"

    return git("rev-parse", "HEAD"), bool(git("status", "--porcelain"))


# ── running it ────────────────────────────────────────────────────────────────────────────────────────────────────


class Interrupted(Exception):
    """Somebody pressed Ctrl-C, and the process that ran has ended."""


@dataclass(slots=True)
class Part:
    """Runs one part; `run` is what it has run so far."""

    run: PartRun
    clock: Clock
    work: Path
    """For files that nobody needs afterwards."""
    by: Deadline
    root: Path = ROOT
    """Of the tests."""
    folder: Path = FOLDER
    """Where `run` is written while it grows."""

    def do(self) -> PartRun:
        """The storms first, whose time is known, then the tests. Raises nothing: whatever ends it, `run` says so."""
        before, began = self.run.seconds, self.clock.monotonic()
        try:
            for storm in self.run.storms:
                if self._left() and storm.result is Result.NOT_RUN:
                    self._storm(storm)
                    self.run.write(self.folder)
            self._tests()
            self.run = replace(self.run, ended=True)
        except Interrupted:
            print(f"interrupted: part {self.run.part}/{self.run.of} is incomplete", file=sys.stderr)  # noqa: T201
        self.run = replace(self.run, seconds=round(before + self.clock.monotonic() - began, 1))
        return self.run

    def _storm(self, storm: StormRun) -> None:
        faults, option = STORMS[storm.name]
        seed, file, began = secrets.randbelow(10_000), self.work / "figures.json", self.clock.monotonic()
        file.unlink(missing_ok=True)
        asked = ("-m", "tests.storm", "--seconds", f"{faults:.0f}", "--seed", str(seed), "--figures", str(file))
        storm = replace(storm, seed=seed, asked_seconds=faults, result=Result.CRASHED)
        try:
            code = self._python(*asked, *filter(None, (option,)), seconds=faults + LATE_SECONDS)
            if file.exists():
                figures = Figures(**json.loads(file.read_text(encoding="utf-8")))
                storm = replace(storm, figures=figures, result=Result.FAILED if code else Result.PASSED)
        finally:
            storm = replace(storm, seconds=round(self.clock.monotonic() - began, 1))
            storms = tuple(storm if each.name == storm.name else each for each in self.run.storms)
            self.run = replace(self.run, storms=storms)

    def _tests(self) -> None:
        """Until each has been run: a process that dies takes one test along, and the others are run in a new one."""
        left = {each.name for each in self.run.tests if each.result is Result.NOT_RUN}
        while left and self._left():
            wanted, record = self.work / "wanted.json", self.work / "record.jsonl"
            wanted.write_text(json.dumps(sorted(left)), encoding="utf-8")
            record.write_text("", encoding="utf-8")
            files = sorted({each.partition("::")[0] for each in left})
            # A worker that has died is not started again: xdist would give it the test that killed it, for ever.
            beside = ("-n", str(JOBS), "--dist", "loadfile", "--max-worker-restart", "0")
            environment = {recording.WANTED: str(wanted), recording.RECORD: str(record)}

            code = None
            try:
                code = self._python(
                    *(*PYTEST, "-v", *beside, *files),
                    seconds=PART_SECONDS,
                    environment=environment,
                    meanwhile=partial(self._seen, record, ended=False),
                )
            finally:
                found = self._seen(record, ended=code is not None)
            if not found:
                return
            left -= found

    def _seen(self, record: Path, *, ended: bool) -> set[str]:
        """The tests of which something has come; one without an end has crashed only if pytest itself has `ended`."""
        found = (each for each in outcomes(_lines(record)) if ended or each.result is not Result.CRASHED)
        new = {each.name: each for each in found}
        self.run = replace(self.run, tests=tuple(new.get(each.name, each) for each in self.run.tests))
        self.run.write(self.folder)
        return set(new)

    def _left(self) -> float:
        return self.by.left(self.clock.monotonic())

    def _python(
        self,
        *arguments: str,
        seconds: float,
        environment: Mapping[str, str] | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> int | None:
        """The exit code of a process that ends by then, or None. Raises Interrupted."""
        by = self.clock.deadline(min(seconds, self._left()))
        with subprocess.Popen(
            (sys.executable, *arguments),
            cwd=self.root,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is passed on, once
        ) as child:
            try:
                while left := by.left(self.clock.monotonic()):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        return child.wait(min(left, WRITE_SECONDS))
                    meanwhile()
                print(f"it takes too long and is ended: {' '.join(arguments[:5])} ...", file=sys.stderr)  # noqa: T201
                _end(child)
            except KeyboardInterrupt:
                _end(child)
                raise Interrupted from None
        return None


def _end(child: subprocess.Popen[bytes]) -> None:
    """It cleans up; where it does not, its group is killed, and its clusters end with it."""
    try:
        child.send_signal(signal.SIGINT)
        child.wait(TO_END_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _lines(file: Path) -> Iterator[dict[str, object]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def outcomes(lines: Iterable[Mapping[str, object]]) -> list[LongTest]:
    """What came of each test that was started. One that has no end has crashed."""
    found: dict[str, LongTest] = {}
    for line in lines:
        name, phase, result = str(line["id"]), line["phase"], line.get("result")
        test = found.get(name, LongTest(name=name, result=Result.CRASHED))
        seconds = round(test.seconds + float(str(line.get("seconds", 0.0))), 1)
        if result == "failed":
            test = replace(test, result=Result.FAILED if phase in _PHASES else Result.CRASHED)
        elif result == "skipped":
            test = replace(test, result=Result.SKIPPED)
        elif phase == "teardown" and test.result is Result.CRASHED:
            test = replace(test, result=Result.PASSED)
        found[name] = replace(test, seconds=seconds)
    return list(found.values())


_PHASES: Final = {"setup", "call", "teardown"}


def long_tests(work: Path) -> list[str]:
    """Their ids, as pytest collects them. Raises CalledProcessError: it cannot."""
    record = work / "collected.jsonl"
    environment = {**os.environ, recording.RECORD: str(record)}
    subprocess.run(
        (sys.executable, *PYTEST, "--collect-only", "-q"),
        cwd=ROOT,
        env=environment,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=TO_END_SECONDS * 5,
    )
    return [str(line["id"]) for line in _lines(record)]


def known_seconds() -> dict[str, float]:
    return {str(file): float(seconds) for file, seconds in json.loads(SECONDS_FILE.read_text("utf-8")).items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storm.parts", description=__doc__)
    parser.add_argument("share", nargs="?", type=Share.parse, help=f"such as 1/{PARTS}; none: all of them in turn")
    asked = parser.parse_args()
    for sign in (signal.SIGINT, signal.SIGTERM):  # shells start what runs in the background deaf to Ctrl-C
        signal.signal(sign, signal.default_int_handler)
    shares = [asked.share] if asked.share else [Share(n, PARTS) for n in range(1, PARTS + 1)]
    well = True
    with tempfile.TemporaryDirectory(prefix="tanist-storm-parts-") as work:
        ids, clock = long_tests(Path(work)), SystemClock()
        for which in shares:
            wanted = going_on(share(ids, which, known_seconds()), part_file(which.part, which.of))
            done = Part(wanted, clock, Path(work), clock.deadline(PART_SECONDS)).do()
            print("\n".join(summary(done)), f"written to {done.write()}", sep="\n")  # noqa: T201
            well = well and done.ok
            if not done.ended:
                return 130
    return 0 if well else 1


def summary(run: PartRun) -> Iterator[str]:
    """What was not well, and how much was."""
    for each in run.rows:
        if not each.result.ok:
            yield f"{each.result}: {each}"
    well = sum(each.result.ok for each in run.rows)
    yield f"part {run.part}/{run.of}: {well} of {len(run.rows)} well, in {run.seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
