"""How far the job is, in tasks of the stages that run: a line every few seconds in which that has changed."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext

EVERY_SECONDS: Final = 5.0


@contextmanager
def progress(context: SparkContext, report: Callable[[str], None], every: float = EVERY_SECONDS) -> Iterator[None]:
    """`report` hears of it meanwhile, from a thread of its own."""
    over = threading.Event()
    reporter = threading.Thread(target=_report, args=(context, report, every, over), name="progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()


def _report(context: SparkContext, report: Callable[[str], None], every: float, over: threading.Event) -> None:
    last = ""
    while not over.wait(every):
        if (line := _line(context)) != last and line:
            report(line)
        last = line


def _line(context: SparkContext) -> str:
    """Empty: nothing runs."""
    tracker = context.statusTracker()
    stages = [found for stage in tracker.getActiveStageIds() if (found := tracker.getStageInfo(stage))]
    if not stages:
        return ""
    done, all_of_them = (sum(getattr(stage, name) for stage in stages) for name in ("numCompletedTasks", "numTasks"))
    return f"{done} of {all_of_them} tasks done, {sum(stage.numActiveTasks for stage in stages)} running"
