"""How far the job is: tasks of the stages that run, and MB that were read. A line every few seconds if that changed."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import Accumulator, SparkContext

EVERY_SECONDS: Final = 5.0
_counters: Final = WeakKeyDictionary["SparkContext", "Accumulator[int]"]()


def counter(context: SparkContext) -> Accumulator[int]:
    """To which tasks add the bytes that they have read of logs. The driver gets them when a task ends."""
    found = _counters.get(context)
    if found is None:
        found = _counters[context] = context.accumulator(0)
    return found


@contextmanager
def progress(context: SparkContext, report: Callable[[str], None], every: float = EVERY_SECONDS) -> Iterator[None]:
    """`report` hears of it meanwhile, from a thread of its own, and at the end of the whole job."""
    over, watch = threading.Event(), _Watch(context)
    reporter = threading.Thread(target=_report, args=(watch, report, every, over), name="progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()
    if done := watch.done():
        report(f"{done} tasks done" + (f", {speed} read" if (speed := watch.speed()) else ""))


def _report(watch: _Watch, report: Callable[[str], None], every: float, over: threading.Event) -> None:
    last = ""
    while not over.wait(every):
        tasks, read = watch.tasks(), watch.read()
        if (seen := f"{tasks} {read}") != last and tasks:
            report(f"{tasks}, {watch.speed()} read" if read else tasks)
        last = seen


class _Watch:
    """One context. Jobs, bytes and seconds count from when this was made."""

    def __init__(self, context: SparkContext) -> None:
        self._context, self._counter = context, counter(context)
        self._before: int = self._counter.value
        self._earlier = frozenset(context.statusTracker().getJobIdsForGroup())
        self._began = time.monotonic()

    def tasks(self) -> str:
        """Empty: nothing runs."""
        tracker = self._context.statusTracker()
        stages = [found for stage in tracker.getActiveStageIds() if (found := tracker.getStageInfo(stage))]
        if not stages:
            return ""
        done, every = (sum(getattr(stage, name) for stage in stages) for name in ("numCompletedTasks", "numTasks"))
        return f"{done} of {every} tasks done, {sum(stage.numActiveTasks for stage in stages)} running"

    def done(self) -> int:
        """Tasks of all jobs that have ended."""
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in set(tracker.getJobIdsForGroup()) - self._earlier]
        stages = {stage for job in jobs if job for stage in job.stageIds}
        return sum(found.numCompletedTasks for stage in stages if (found := tracker.getStageInfo(stage)))

    def read(self) -> int:
        """Bytes."""
        return int(self._counter.value - self._before)

    def speed(self) -> str:
        """Empty: nothing was read."""
        megabytes, seconds = self.read() / 1e6, max(0.001, time.monotonic() - self._began)
        return f"{megabytes:,.0f} MB ({megabytes / seconds:,.0f} MB/s)" if megabytes else ""
