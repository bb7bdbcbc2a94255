"""One reconciliation: bounds, what agrees by digest, pairs of what does not, runs, and positions translated by them."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from tanist.domain.names import TopicPartition
from tanist.domain.reconciled.published import STEPS_FILE
from tanist.domain.reconciliation.result import LogRead, ReconciledPartition, ReconciledPosition
from tanist.domain.translation import Precision
from tanist.kafka.wire.router import Router
from tanist.spark.ends import ends_of, replaced, topic_ids
from tanist.spark.failures import translated_failures
from tanist.spark.reconciliation.bucket_digests import compared
from tanist.spark.reconciliation.digests import sort_out
from tanist.spark.reconciliation.exclusive import Counts, cuts_of, explained
from tanist.spark.reconciliation.frames import ROLES, PairedLogs, paired, parts_of
from tanist.spark.reconciliation.logs import ReadLogs, ReconciledLog
from tanist.spark.reconciliation.parquet import write
from tanist.spark.reconciliation.positions import translate
from tanist.spark.reconciliation.publishing import found_partition, leave
from tanist.spark.reconciliation.runs import Runs, merge, merge_extras
from tanist.spark.reconciliation.source import BucketedLogs, digest_frame, ranges, record_frame, sampled
from tanist.spark.reconciliation.time_buckets import IN_A_BUCKET, TimeBuckets
from tanist.spark.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tanist.domain.exclusive import ExclusiveRange
    from tanist.domain.reconciliation.job import PositionRequest, ReconciliationJob
    from tanist.spark.reconciliation.digests import Bucket, SortedOut

SCHEMA_VERSION: Final = 2
RUNS: Final = "runs.parquet"
_STAMPED: Final = (
    "the destination sets timestamps itself (message.timestamp.type=LogAppendTime), and records are "
    "identified by timestamp"
)
_GONE: Final = "records were compacted or deleted while the logs were read: run the command again"


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
    with translated_failures():
        found = _read(spark, job, logs, report, in_a_bucket)
    partitions = [_partition(each, found.get(log, _NOTHING)) for log, each in enumerate(logs)]
    report(f"runs, and {len(job.positions)} positions by them")
    positions = _positions(job.positions, logs, partitions, found)
    told = [(each, found[log]) for log, each in enumerate(partitions) if not each.trouble]
    write(folder / RUNS, [(each, log.runs, log.extras) for each, log in told])
    if job.publish:
        report("where readers of all positions go on")
        leave(
            folder / STEPS_FILE,
            (found_partition(logs[n], each, found[n]) for n, each in enumerate(partitions) if not each.trouble),
        )
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
    buckets = time_buckets(job, known, in_a_bucket)
    clusters = [
        BucketedLogs(endpoint, [(log, span) for log, each in known.items() for span in each.every(side)], buckets)
        for side, endpoint in enumerate((job.source, job.destination))
    ]
    found, troubles = _digests(spark, clusters)
    troubles |= {bucket.log: troubles.get(bucket.log, _STAMPED) for bucket in found if bucket.stamped}
    cuts = {log: cuts_of(each.exclusive, at_source=True) for log, each in known.items()}
    sorted_out = sort_out((bucket for bucket in found if bucket.log not in troubles), cuts)
    more = _pairs(spark, clusters, sorted_out.to_pair, len(found), report)
    troubles = {**more.troubles, **troubles}
    by_log = defaultdict[int, list["Bucket"]](list)
    for bucket in found:
        by_log[bucket.log].append(bucket)
    return {
        log: replace(_NOTHING, unread=troubles[log])
        if log in troubles
        else replace(
            reconciled_log(by_log[log], [_of(log, sorted_out), _of(log, more)], span.until, known[log].exclusive),
            bounds=more.bounds.get(log, Runs.none()),
        )
        for log, span in ours.items()
    }


def time_buckets(job: ReconciliationJob, logs: Mapping[int, ReadLogs], size: int) -> Mapping[int, TimeBuckets]:
    """The buckets of each log, about `size` records of each side in one."""
    found = {}
    with ExitStack() as stack:
        routers = [
            stack.enter_context(closing(Router(endpoint, "tanist-reconciliation")))
            for endpoint in (job.source, job.destination)
        ]
        samples = [
            sampled(router, [each.spans[side] for each in logs.values()], size) for side, router in enumerate(routers)
        ]
    for log, each in logs.items():
        both = zip(samples, each.spans, strict=True)
        found[log] = TimeBuckets.of([of[span.partition] for of, span in both if span.partition in of], 2 * size)
    return found


def _digests(spark: SparkSession, clusters: Sequence[BucketedLogs]) -> tuple[list[Bucket], dict[int, str]]:
    """All buckets, and why logs could not be read to their end, by number."""
    frames = [digest_frame(spark, f"{name}_digests", side) for name, side in zip(ROLES, clusters, strict=True)]
    both = frames[0].withColumn("of", F.lit(0)).unionAll(frames[1].withColumn("of", F.lit(1))).toArrow()
    failed = both.filter(pc.is_valid(both["trouble"]))
    troubles: dict[int, str] = {}
    for log, of, why in zip(*(failed[name].to_pylist() for name in ("log", "of", "trouble")), strict=True):
        troubles.setdefault(log, f"{ROLES[of]}: {why}")
    rows = both.filter(pc.is_null(both["trouble"]))
    return compared(*(rows.filter(pc.equal(rows["of"], of)) for of in (0, 1))), troubles


def _pairs(
    spark: SparkSession,
    clusters: Sequence[BucketedLogs],
    buckets: Sequence[Bucket],
    of: int,
    report: Callable[[str], None],
) -> PairedLogs:
    """What the records of `buckets` tell: these are read again."""
    if not buckets:
        return PairedLogs({}, {}, {}, {})
    report(f"which record is which in {len(buckets)} of {of} buckets")
    parts = parts_of(buckets, clusters[0].buckets)
    frames = [
        record_frame(spark, f"{name}_records", side.within(ranges(buckets, at)), parts)
        for at, (name, side) in enumerate(zip(ROLES, clusters, strict=True))
    ]
    return paired(*frames)


def _of(log: int, found: SortedOut | PairedLogs) -> tuple[Runs, Runs]:
    return found.runs.get(log, Runs.none()), found.extras.get(log, Runs.none())


def reconciled_log(
    buckets: Sequence[Bucket],
    parts: Sequence[tuple[Runs, Runs]],
    end: int,
    exclusive: Sequence[ExclusiveRange] = (),
) -> ReconciledLog:
    """All of a log; `end`: the source's last stable offset. Records that were there at one look alone are a trouble."""
    here, there = (cuts_of(exclusive, at_source=at_source) for at_source in (True, False))
    runs = merge((runs for runs, _ in parts), end, here)
    extras = merge_extras((extras for _, extras in parts), there)
    records = sum(bucket.source_records for bucket in buckets), sum(bucket.destination_records for bucket in buckets)
    if records != (runs.records.sum(), runs.copied.records.sum() + extras.length.sum()):
        return replace(_NOTHING, unread=_GONE)
    return ReconciledLog(buckets, runs, extras)


# ── what is told ──────────────────────────────────────────────────────────────────────────────────────────────────


def _partition(logs: ReadLogs, found: ReconciledLog) -> ReconciledPartition:
    trouble = logs.trouble or found.trouble
    if trouble:
        return ReconciledPartition(pair=logs.pair, partition=logs.partition, trouble=trouble)
    ours, theirs = (span.until for span in logs.spans)
    counts = Counts.of(found.runs, found.extras, ours, theirs, logs.exclusive)
    lost = found.runs.where(found.runs.source < ours).lost
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
        only_source=counts.only_source,
        only_destination=counts.only_destination,
        explained=tuple(explained(logs.exclusive, lost, found.extras, theirs)),
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
    answers = translate(found.runs, found.extras, logs.source_ends, offsets, found.bounds)
    for position, answer in zip(request, answers, strict=True):
        yield ReconciledPosition(
            request=position,
            destination=answer.destination,
            precision=answer.precision,
            placement=answer.placement.value,
            reason=answer.why,
            again=answer.again,
        )
