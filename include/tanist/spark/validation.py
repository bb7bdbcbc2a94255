"""One validation: bounds, both logs side by side, what differs, a decision, and the files that tell it."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import TanistError
from tanist.domain.validation.job import Level
from tanist.domain.validation.result import SCHEMA_VERSION, ValidatedPartition, ValidationVerdict
from tanist.spark import batchwise, expectations, recordwise
from tanist.spark.ends import fix
from tanist.spark.spans import LogSpan, Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from tanist.domain.validation.bounds import ComparisonBounds
    from tanist.domain.validation.job import ValidationJob

_MOST_TOLD: Final = 3


def validate(spark: SparkSession | None, job: ValidationJob, report: Callable[[str], None]) -> dict[str, Any]:
    """The result of `job`, as its file holds it. `report` hears of every stage as it begins.

    `spark` may only be None at the level of offsets, which reads no record.
    """
    began, now = time.monotonic(), time.time_ns() // 1_000_000
    report(f"bounds of {len(job.partitions)} partitions on both sides")
    found = {asked.partition: ValidatedPartition(request=asked) for asked in job.partitions}
    fixed = fix(job)
    for at, bounds in fixed.items():
        trouble = str(bounds) if isinstance(bounds, TanistError) else ""
        found[at] = replace(found[at], trouble=trouble, bounds=None if isinstance(bounds, TanistError) else bounds)
    known = [bounds for bounds in fixed.values() if not isinstance(bounds, TanistError)]
    if job.level is not Level.RANGES and known:
        assert spark is not None  # noqa: S101  # see above
        look = batchwise.look if job.level is Level.BATCHES else recordwise.look
        looked = look(spark, job, spans(known, job), report)
        for bounds in known:
            at = bounds.request.partition
            found[at] = replace(found[at], compared=looked.compared(bounds))
    report("great-expectations decides")
    reported = list(found.values())
    met = expectations.evaluate([expectations.row(each) for each in reported], len(job.partitions))
    verdict = expectations.decide(met, reported)
    return {
        "schema_version": SCHEMA_VERSION,
        "run": job.run,
        "mirror": job.mirror,
        "level": job.level.value,
        "verdict": verdict.value,
        "reason": _reason(verdict, reported),
        "as_of_ms": now,
        "seconds": round(time.monotonic() - began, 3),
        "records": sum(each.compared.source.records for each in reported if each.compared),
        "bytes": sum(
            each.compared.source.bytes + each.compared.destination.bytes for each in reported if each.compared
        ),
        "partitions": [each.item() for each in reported],
        "expectations": [asdict(each) for each in met],
    }


def _reason(verdict: ValidationVerdict, found: Sequence[ValidatedPartition]) -> str:
    if verdict is ValidationVerdict.EQUAL:
        again = sum(each.repeats for each in found)
        repeats = f"; {again} records are there again, as the mirror delivers at least once" if again else ""
        return f"{len(found)} partitions are equal{repeats}"
    wrong = [f"{each.request.partition}: {each.reason}" for each in found if each.verdict is verdict]
    if not wrong:
        return "an expectation could not be evaluated"
    more = [f"and {len(wrong) - _MOST_TOLD} more partitions"] if len(wrong) > _MOST_TOLD else []
    return "; ".join([*wrong[:_MOST_TOLD], *more])


def spans(bounds: Iterable[ComparisonBounds], job: ValidationJob) -> Spans:
    """What is read of both sides; of a promoted copy only what mirrors wrote, of both nothing that one alone has."""
    source, copy = [], []
    for each in bounds:
        asked = each.request
        ours, theirs = each.compared
        read = LogSpan(partition=asked.source, start=ours.start, until=each.surroundings, map=asked.map, end=each.end)
        read = replace(read, skipped=asked.skipped, copy=asked.partition)
        source_id, copy_id = each.topic_ids
        source.append(replace(read, edge=each.copy_begins, topic_id=source_id))
        only = job.data_id if asked.promoted and asked.until is None else None
        there = LogSpan(partition=asked.partition, start=theirs.start, until=theirs.end, only=only)
        copy.append(replace(there, topic_id=copy_id, only_from=asked.copy_start, skipped=asked.skipped))
    return Spans(source=tuple(source), destination=tuple(copy))
