"""One reconciliation: bounds, what agrees by digest, pairs of what does not, runs, and positions translated by them."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import StorageLevel

from tanist.domain.errors import TanistError
from tanist.domain.names import TopicPartition
from tanist.domain.reconciliation.result import LogRead, ReconciledPartition, ReconciledPosition
from tanist.domain.translation import Precision
from tanist.kafka.wire.router import Router
from tanist.spark import records
from tanist.spark.ends import ends_of
from tanist.spark.reconciliation.digests import sort_out
from tanist.spark.reconciliation.frames import compared, in_buckets, paired, slim
from tanist.spark.reconciliation.parquet import write
from tanist.spark.reconciliation.positions import WHY, Standing, translate
from tanist.spark.reconciliation.runs import Runs, merge
from tanist.spark.spans import Span, Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tanist.domain.reconciliation.job import PositionRequest, ReconciliationJob, TopicPair
    from tanist.domain.validation.bounds import LogBounds
    from tanist.spark.reconciliation.digests import Bucket

SCHEMA_VERSION: Final = 1
RUNS: Final = "runs.parquet"
_LOGS: Final = "topic string, partition int, log int"
_STAMPED: Final = (
    "the destination sets timestamps itself (message.timestamp.type=LogAppendTime), and records are "
    "identified by timestamp"
)


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """One partition of a pair, at both ends; a TanistError in place of ends: why they could not be had."""

    pair: TopicPair
    partition: int
    source: LogBounds | TanistError
    destination: LogBounds | TanistError

    @property
    def trouble(self) -> str:
        """Why nothing can be read; empty: it can."""
        sides = (("source", self.source), ("destination", self.destination))
        silent = (f"{name}: {ends}" for name, ends in sides if isinstance(ends, TanistError))
        return "; ".join(filter(None, (self.pair.trouble, *silent)))

    @property
    def spans(self) -> tuple[Span, Span]:
        """What is read of both, where there is no trouble."""
        return _span(self.pair.source, self.partition, self.source), _span(
            self.pair.destination, self.partition, self.destination
        )


def _span(topic: str, partition: int, ends: LogBounds | TanistError) -> Span:
    if isinstance(ends, TanistError):
        raise ends
    return Span(partition=TopicPartition(topic, partition), start=ends.start, until=max(ends.start, ends.last_stable))


@dataclass(frozen=True, slots=True)
class ReconciledLog:
    """What was read of one log and its copy."""

    buckets: Sequence[Bucket]
    runs: Runs

    @property
    def trouble(self) -> str:
        """Why nothing can be told of it; empty: it can."""
        if any(bucket.stamped for bucket in self.buckets):
            return _STAMPED
        return WHY[Standing.NOTHING_IN_COMMON] if all(self.records) and not len(self.runs.copied) else ""

    @property
    def records(self) -> tuple[int, int]:
        """Of the source, and of the destination."""
        return sum(b.source_records for b in self.buckets), sum(b.destination_records for b in self.buckets)

    @property
    def first(self) -> int | None:
        """The offset of the destination's first record."""
        return min((b.destination_first for b in self.buckets if b.destination_first is not None), default=None)


_NOTHING: Final = ReconciledLog((), Runs.none())


def reconcile(
    spark: SparkSession, job: ReconciliationJob, folder: Path, report: Callable[[str], None]
) -> dict[str, Any]:
    """The result of `job`, as its file holds it; its runs go to `folder`. `report` hears of every stage as it begins.

    Raises:
        CouldNotTell: the connector could not read, or the runs could not be written.
    """
    began, now = time.monotonic(), time.time_ns() // 1_000_000
    report(f"bounds of {sum(pair.partitions for pair in job.pairs)} partitions on both sides")
    logs = bounds(job)
    with records.reading():
        found = _read(spark, job, logs, report)
    partitions = [_partition(each, found.get(log, _NOTHING)) for log, each in enumerate(logs)]
    report(f"runs, and {len(job.positions)} positions by them")
    positions = _positions(job.positions, logs, partitions, found)
    write(folder / RUNS, [(each, found[log].runs) for log, each in enumerate(partitions) if not each.trouble])
    return {
        "schema_version": SCHEMA_VERSION,
        "run": job.run,
        "as_of_ms": now,
        "seconds": round(time.monotonic() - began, 3),
        "runs_file": str(folder / RUNS),
        "partitions": [each.item() for each in partitions],
        "positions": [each.item() for each in positions],
        "unknown": sum(bool(each.trouble) for each in partitions)
        + sum(each.precision is Precision.UNKNOWN for each in positions),
    }


def bounds(job: ReconciliationJob) -> list[ReadLogs]:
    """Every partition of every pair with its ends: the source's first, so that what is copied meanwhile is no loss."""
    every = [(pair, partition) for pair in job.pairs for partition in range(pair.partitions)]
    with ExitStack() as stack:
        source, destination = (
            stack.enter_context(closing(Router(endpoint, "tanist-reconciliation")))
            for endpoint in (job.source, job.destination)
        )
        ours = ends_of(source, [TopicPartition(pair.source, n) for pair, n in every])
        theirs = ends_of(destination, [TopicPartition(pair.destination, n) for pair, n in every])
    return [
        ReadLogs(pair, n, ours[TopicPartition(pair.source, n)], theirs[TopicPartition(pair.destination, n)])
        for pair, n in every
    ]


def _read(
    spark: SparkSession, job: ReconciliationJob, logs: Sequence[ReadLogs], report: Callable[[str], None]
) -> Mapping[int, ReconciledLog]:
    known = {log: each.spans for log, each in enumerate(logs) if not each.trouble}
    if not known:
        return {}
    ours, theirs = ({log: spans[side] for log, spans in known.items()} for side in (0, 1))
    report(f"records: {Spans(source=tuple(ours.values()), destination=tuple(theirs.values()))}")
    source, destination = (
        _slim(spark, records.frame(spark, endpoint, list(spans.values())), spans)
        for endpoint, spans in ((job.source, ours), (job.destination, theirs))
    )
    try:
        return {**dict.fromkeys(known, _NOTHING), **_compare(source, destination, report)}
    finally:
        source.unpersist()
        destination.unpersist()


def _slim(spark: SparkSession, frame: DataFrame, spans: Mapping[int, Span]) -> DataFrame:
    """Payload is read once: what is kept of a record has some twenty bytes."""
    rows = [(span.partition.topic, span.partition.partition, log) for log, span in spans.items()]
    return slim(frame, spark.createDataFrame(rows, _LOGS)).persist(StorageLevel.DISK_ONLY)


def _compare(source: DataFrame, destination: DataFrame, report: Callable[[str], None]) -> Mapping[int, ReconciledLog]:
    ours, theirs = in_buckets(source, destination)
    buckets = compared(ours, theirs)
    reported = sort_out(buckets)
    if reported.to_pair:
        report(f"which record is which in {len(reported.to_pair)} of {len(buckets)} buckets")
    pairs = paired(ours, theirs, reported.to_pair) if reported.to_pair else {}
    by_log = defaultdict[int, list["Bucket"]](list)
    for bucket in buckets:
        by_log[bucket.log].append(bucket)
    none = Runs.none()
    return {
        log: ReconciledLog(own, merge([reported.runs.get(log, none), pairs.get(log, none)]))
        for log, own in by_log.items()
    }


# ── what is told ──────────────────────────────────────────────────────────────────────────────────────────────────


def _partition(logs: ReadLogs, found: ReconciledLog) -> ReconciledPartition:
    trouble = logs.trouble or found.trouble
    if trouble:
        return ReconciledPartition(pair=logs.pair, partition=logs.partition, trouble=trouble)
    source, destination = (
        LogRead(span.start, span.until, count) for span, count in zip(logs.spans, found.records, strict=True)
    )
    return ReconciledPartition(
        pair=logs.pair,
        partition=logs.partition,
        source=source,
        destination=destination,
        copied=int(found.runs.copied.records.sum()),
        lost=int(found.runs.lost.records.sum()),
        runs=len(found.runs.copied),
    )


def _positions(
    request: Sequence[PositionRequest],
    logs: Sequence[ReadLogs],
    partitions: Sequence[ReconciledPartition],
    found: Mapping[int, ReconciledLog],
) -> list[ReconciledPosition]:
    by_log = {(each.pair.source, each.partition): log for log, each in enumerate(logs)}
    together = defaultdict[int | None, list["PositionRequest"]](list)
    for position in request:
        together[by_log.get((position.topic, position.partition))].append(position)
    reported: list[ReconciledPosition] = []
    for log, positions in together.items():
        trouble = "the partition is not part of this reconciliation" if log is None else partitions[log].trouble
        if log is None or trouble:
            reported += [_unknown(position, trouble) for position in positions]
        else:
            reported += _translated(positions, found[log])
    by_position = {each.request: each for each in reported}
    return [by_position[position] for position in request]


def _unknown(request: PositionRequest, why: str) -> ReconciledPosition:
    return ReconciledPosition(request=request, destination=None, precision=Precision.UNKNOWN, placement="", reason=why)


def _translated(request: Sequence[PositionRequest], found: ReconciledLog) -> Iterable[ReconciledPosition]:
    offsets = [position.offset for position in request]
    for position, answer in zip(request, translate(found.runs, found.first, offsets), strict=True):
        yield ReconciledPosition(
            request=position,
            destination=answer.destination,
            precision=answer.precision,
            placement=answer.placement.value,
            reason=answer.why,
        )
