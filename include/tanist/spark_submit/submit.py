"""A job, run to its end as a process of our own, and what it has to say meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import CouldNotTell, Misconfigured, ProcessFailed, TimedOut
from tanist.domain.reconciled.published import STEPS_FILE
from tanist.kafka.wire.clock import SystemClock
from tanist.spark_submit.scratch import private_folder
from tanist.spark_submit.submission import bound, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tanist.ports.clock import Deadline
    from tanist.spark_submit.submission import Submission

_END_SECONDS: Final = 10.0
LOG: Final = "job.log"
_RESULTS: Final = ("result.json", "report.html", "runs.parquet", STEPS_FILE, "error.json", LOG)


def run(submission: Submission, by: Deadline, report: Callable[[str], None]) -> dict[str, Any]:
    """Run a job to its end: its result, as its file holds it.

    Raises:
        CouldNotTell, Misconfigured: the job says so; ProcessFailed: it has ended without a word; what `submit` raises.
    """
    code = submit(submission, by, report)
    if result := result_of(submission):
        return result
    raise ProcessFailed(f"the job exited with {code} without a result, log: {submission.folder / LOG}")


def result_of(submission: Submission) -> dict[str, Any]:
    """What the job has left, empty: nothing; an exit code is believed of nobody.

    Raises:
        CouldNotTell, Misconfigured: the job says so, or the result is another run's.
    """
    if error := _stored(submission.folder / "error.json"):
        kind = Misconfigured if error["exit_code"] == Misconfigured.exit_code else CouldNotTell
        raise kind(error["reason"] if error["name"] == kind.name else f"{error['name']}: {error['reason']}")
    found = _stored(submission.folder / "result.json")
    if found and found.get("run") != submission.job.run:
        raise CouldNotTell(f"{submission.folder} holds the result of another run")
    return found


def _stored(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def submit(submission: Submission, by: Deadline, report: Callable[[str], None]) -> int:
    """Start it, wait for it; its exit code. `report` hears every stage. Its log is `job.log` in the job's folder.

    Raises:
        MissingDependency: no pyspark, or no such job.
        Misconfigured: the folder cannot be written to.
        TimedOut: it was still running; it has been ended.
    """
    with handed_over(submission) as file:
        report("Spark starts")
        return _run(submission, file, by, report)


@contextmanager
def handed_over(submission: Submission) -> Iterator[Path]:
    """The file of the job in a private folder, which is gone afterwards; nothing of an earlier run is in its results.

    Raises:
        Misconfigured: the folder cannot be written to.
    """
    _prepare(submission.folder)
    with private_folder() as private:
        file = private / "job.json"
        submission.write(file)
        yield file


def _prepare(folder: Path) -> None:
    """Nothing of an earlier run may be taken for this one's; nobody else's files are removed."""
    if _is_foreign(folder / "result.json"):
        raise Misconfigured(f"{folder} holds a result.json that Tanist has not written: name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _RESULTS:
            (folder / name).unlink(missing_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Misconfigured(f"results cannot be written to {folder}: {error.strerror}") from error


def _is_foreign(result: Path) -> bool:
    try:
        return "run" not in json.loads(result.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError, TypeError):
        return True


def _run(submission: Submission, file: Path, by: Deadline, report: Callable[[str], None]) -> int:
    scratch, log = file.parent, submission.folder / LOG
    with (
        log.open("wb") as kept,
        subprocess.Popen(
            bound(submission.command(file), scratch),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=kept,
            env=os.environ | environment(scratch, submission.place),
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        late = threading.Event()
        timer = threading.Timer(by.left(SystemClock().monotonic()), _too_late, (process, late))
        timer.daemon = True
        timer.start()
        try:
            for line in process.stdout or ():
                report(line.rstrip())
            code = process.wait()
        finally:
            timer.cancel()
            _end(process)
    if late.is_set():
        raise TimedOut(f"the job did not finish in time, log: {log}")
    return code


def _too_late(process: subprocess.Popen[Any], late: threading.Event) -> None:
    late.set()
    _end(process)


def _end(process: subprocess.Popen[Any]) -> None:
    """With it end the JVM, its driver and their workers (`tanist.spark_submit.bound`)."""
    if process.poll() is not None:
        return
    for sign in (signal.SIGTERM, signal.SIGKILL):  # the second one for whoever outlives the first
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
