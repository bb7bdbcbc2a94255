"""One reconciliation: bounds, what agrees by digest, pairs of what does not, runs, and positions translated by them."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import StorageLevel

from tanist.domain.errors import TanistError
from tanist.domain.names import TopicPartition
from tanist.domain.reconciliation.result import LogRead, ReconciledPartition, ReconciledPosition
from tanist.domain.translation import Precision
from tanist.kafka.wire.router import Router
from tanist.spark.ends import ends_of, replaced, topic_ids
from tanist.spark.reconciliation.counts import Counts
from tanist.spark.reconciliation.digests import sort_out
from tanist.spark.reconciliation.frames import IN_A_BUCKET, compared, in_buckets, paired
from tanist.spark.reconciliation.parquet import write
from tanist.spark.reconciliation.positions import WHY, Ends, Standing, translate
from tanist.spark.reconciliation.runs import Runs, merge, merge_extras
from tanist.spark.reconciliation.source import frame, running
from tanist.spark.spans import Span, Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from pyspark.sql import DataFrame, SparkSession

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.reconciliation.job import PositionRequest, ReconciliationJob, TopicPair
    from tanist.domain.validation.bounds import LogBounds
    from tanist.spark.reconciliation.digests import Bucket

SCHEMA_VERSION: Final = 2
RUNS: Final = "runs.parquet"
_STAMPED: Final = (
    "the destination sets timestamps itself (message.timestamp.type=LogAppendTime), and records are "
    "identified by timestamp"
)


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """One partition of a pair, at both ends; a TanistError in place of ends: why they could not be had.

    `topic_ids`: of the two topics that are meant.
    """

    pair: TopicPair
    partition: int
    source: LogBounds | TanistError
    destination: LogBounds | TanistError
    topic_ids: tuple[UUID | None, UUID | None] = (None, None)

    @property
    def trouble(self) -> str:
        """Why nothing can be read; empty: it can."""
        sides = (("source", self.source), ("destination", self.destination))
        silent = (f"{name}: {ends}" for name, ends in sides if isinstance(ends, TanistError))
        return "; ".join(filter(None, (self.pair.trouble, *silent)))

    @property
    def spans(self) -> tuple[Span, Span]:
        """What is read of both, where there is no trouble."""
        ours, theirs = self.topic_ids
        return _span(self.pair.source, self.partition, self.source, ours), _span(
            self.pair.destination, self.partition, self.destination, theirs
        )

    def every(self, of: int) -> Sequence[Span]:
        """All that is read of the source (0) or of the destination (1)."""
        return [span for span in (self.spans[of], self.undecided[of]) if span is not None]

    @property
    def undecided(self) -> tuple[Span | None, Span | None]:
        """What lies of both behind the last stable offset, of open transactions and after them."""
        committed = self.spans
        ends = (self.source, self.destination)
        return _tail(committed[0], ends[0]), _tail(committed[1], ends[1])


def _span(topic: str, partition: int, ends: LogBounds | TanistError, topic_id: UUID | None) -> Span:
    if isinstance(ends, TanistError):
        raise ends
    until = max(ends.start, ends.last_stable)
    return Span(partition=TopicPartition(topic, partition), start=ends.start, until=until, topic_id=topic_id)


def _tail(committed: Span, ends: LogBounds | TanistError) -> Span | None:
    if isinstance(ends, TanistError) or ends.high_watermark <= committed.until:
        return None
    return replace(committed, start=committed.until, until=ends.high_watermark, undecided=True)


@dataclass(frozen=True, slots=True)
class ReconciledLog:
    """What was read of one log and its copy. `runs` and `extras`: also of open transactions. `unread`: why not all."""

    buckets: Sequence[Bucket]
    runs: Runs
    extras: Runs
    unread: str = ""

    @property
    def trouble(self) -> str:
        """Why nothing can be told of it; empty: it can."""
        if self.unread:
            return self.unread
        if any(bucket.stamped for bucket in self.buckets):
            return _STAMPED
        return WHY[Standing.NOTHING_IN_COMMON] if all(self.records) and not len(self.runs.copied) else ""

    @property
    def records(self) -> tuple[int, int]:
        """Of the source, and of the destination, committed."""
        return (
            sum(b.source_records - b.source_open for b in self.buckets),
            sum(b.destination_records - b.destination_open for b in self.buckets),
        )


_NOTHING: Final = ReconciledLog((), Runs.none(), Runs.none())


def reconcile(
    spark: SparkSession,
    job: ReconciliationJob,
    folder: Path,
    report: Callable[[str], None],
    in_a_bucket: int = IN_A_BUCKET,
) -> dict[str, Any]:
    """The result of `job`, as its file holds it; its runs go to `folder`. `report` hears of every stage as it begins.

    About `in_a_bucket` records are compared under one digest.

    Raises:
        CouldNotTell: Spark failed, or the runs could not be written.
    """
    began, now = time.monotonic(), time.time_ns() // 1_000_000
    logs = bounds(job, report)
    with running():
        found = _read(spark, job, logs, report, in_a_bucket)
    partitions = [_partition(each, found.get(log, _NOTHING)) for log, each in enumerate(logs)]
    report(f"runs, and {len(job.positions)} positions by them")
    positions = _positions(job.positions, logs, partitions, found)
    told = [(each, found[log]) for log, each in enumerate(partitions) if not each.trouble]
    write(folder / RUNS, [(each, log.runs, log.extras) for each, log in told])
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


def bounds(job: ReconciliationJob, report: Callable[[str], None]) -> list[ReadLogs]:
    """Every partition of every pair with its ends: the destination's first, so that what was copied is read."""
    every = [(pair, partition) for pair in job.pairs for partition in range(pair.partitions)]
    with ExitStack() as stack:
        source, destination = (
            stack.enter_context(closing(Router(endpoint, "tanist-reconciliation")))
            for endpoint in (job.source, job.destination)
        )
        here = [TopicPartition(pair.source, n) for pair, n in every]
        there = [TopicPartition(pair.destination, n) for pair, n in every]
        source_ids, ids = topic_ids(source, here), topic_ids(destination, there)
        report(f"ends of the destination: {len(every)} partitions")
        theirs = ends_of(destination, there)
        report(f"ends of the source: {len(every)} partitions")
        ours = ends_of(source, here)
        lost, changed = replaced(source, here, source_ids), replaced(destination, there, ids)
    return [
        ReadLogs(
            pair,
            n,
            lost.get(pair.source) or ours[at],
            changed.get(pair.destination) or theirs[copy],
            (source_ids.get(pair.source), ids.get(pair.destination)),
        )
        for (pair, n), at, copy in zip(every, here, there, strict=True)
    ]


def _read(
    spark: SparkSession,
    job: ReconciliationJob,
    logs: Sequence[ReadLogs],
    report: Callable[[str], None],
    in_a_bucket: int,
) -> Mapping[int, ReconciledLog]:
    known = {log: each for log, each in enumerate(logs) if not each.trouble}
    if not known:
        return {}
    ours, theirs = ({log: each.spans[side] for log, each in known.items()} for side in (0, 1))
    report(f"records: {Spans(source=tuple(ours.values()), destination=tuple(theirs.values()))}")
    source, destination = (
        _slim(spark, name, endpoint, [(log, span) for log, each in known.items() for span in each.every(side)])
        for side, (name, endpoint) in enumerate((("source_records", job.source), ("copy_records", job.destination)))
    )
    try:
        troubles = _troubles(source, destination)
        bucketed = in_buckets(source.where("trouble is null"), destination.where("trouble is null"), in_a_bucket)
        found = _compare(*bucketed, {log: span.until for log, span in ours.items()}, report)
        return {log: replace(found.get(log, _NOTHING), unread=troubles.get(log, "")) for log in known}
    finally:
        source.unpersist()
        destination.unpersist()


def _slim(spark: SparkSession, name: str, endpoint: Endpoint, spans: Sequence[tuple[int, Span]]) -> DataFrame:
    """Payload is read once: what is kept of a record has some thirty bytes, on disk."""
    return frame(spark, name, endpoint, spans).persist(StorageLevel.DISK_ONLY)


def _troubles(source: DataFrame, destination: DataFrame) -> Mapping[int, str]:
    """Why logs could not be read to their end, by number."""
    found: dict[int, str] = {}
    for name, side in (("source", source), ("destination", destination)):
        for row in side.where("trouble is not null").select("log", "trouble").collect():
            found.setdefault(row.log, f"{name}: {row.trouble}")
    return found


def _compare(
    ours: DataFrame, theirs: DataFrame, ends: Mapping[int, int], report: Callable[[str], None]
) -> Mapping[int, ReconciledLog]:
    """What was found by log; `ends`: the source's last stable offsets."""
    buckets = compared(ours, theirs)
    reported = sort_out(buckets)
    if reported.to_pair:
        report(f"which record is which in {len(reported.to_pair)} of {len(buckets)} buckets")
    runs, extras = paired(ours, theirs, reported.to_pair) if reported.to_pair else ({}, {})
    by_log = defaultdict[int, list["Bucket"]](list)
    for bucket in buckets:
        by_log[bucket.log].append(bucket)
    none = Runs.none()
    return {
        log: ReconciledLog(
            own,
            merge([reported.runs.get(log, none), runs.get(log, none)], ends.get(log)),
            merge_extras([reported.extras.get(log, none), extras.get(log, none)]),
        )
        for log, own in by_log.items()
    }


# ── what is told ──────────────────────────────────────────────────────────────────────────────────────────────────


def _partition(logs: ReadLogs, found: ReconciledLog) -> ReconciledPartition:
    trouble = logs.trouble or found.trouble
    if trouble:
        return ReconciledPartition(pair=logs.pair, partition=logs.partition, trouble=trouble)
    counts = Counts.of(found.runs, found.extras, *(span.until for span in logs.spans))
    source, destination = (
        LogRead(span.start, span.until, count) for span, count in zip(logs.spans, found.records, strict=True)
    )
    return ReconciledPartition(
        pair=logs.pair,
        partition=logs.partition,
        source=source,
        destination=destination,
        copied=counts.copied,
        moved=counts.moved,
        lost=counts.lost,
        behind=counts.behind,
        repeated=counts.repeated,
        runs=counts.runs,
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
            reported += _translated(positions, logs[log], found[log])
    by_position = {each.request: each for each in reported}
    return [by_position[position] for position in request]


def _unknown(request: PositionRequest, why: str) -> ReconciledPosition:
    return ReconciledPosition(request=request, destination=None, precision=Precision.UNKNOWN, placement="", reason=why)


def _translated(
    request: Sequence[PositionRequest], logs: ReadLogs, found: ReconciledLog
) -> Iterable[ReconciledPosition]:
    offsets = [position.offset for position in request]
    tail = logs.undecided[0]
    ends = Ends(logs.spans[0].until, logs.spans[0].until if tail is None else tail.until)
    for position, answer in zip(request, translate(found.runs, found.extras, ends, offsets), strict=True):
        yield ReconciledPosition(
            request=position,
            destination=answer.destination,
            precision=answer.precision,
            placement=answer.placement.value,
            reason=answer.why,
            again=answer.again,
        )
