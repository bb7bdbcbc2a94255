"""Records as frames: identities, digests of buckets, and the pairing of those that differ.

A *slim* frame has a row (log, offset, time, stamped, identity) for each record: time in ms, stamped if the broker has
set it; a log is a number for one partition of one pair of topics. All sums are modular: under ANSI mode an overflow is
an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from tanist.spark.reconciliation.digests import Bucket
from tanist.spark.reconciliation.pairing import Log, last_copies
from tanist.spark.reconciliation.runs import Runs, compress, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame

IN_A_BUCKET: Final = 20_000
"""Records that a bucket should have: few enough to pair in memory, enough to be worth a task's overhead."""
_AT_MOST: Final = 4_000_000
"""Records of one bucket that are paired at once, some 200 MB. More have to be split by identity."""
_PRIME: Final = 2**31 - 1

_PART: Final = ("log", "bucket", "part")
_RUNS: Final = "log int, source long, destination long, length long, records long"


def slim(records: DataFrame, logs: DataFrame) -> DataFrame:
    """The slim frame of `records` (as `tanist.spark.records` reads them); `logs`: rows (topic, partition, log).

    The timestamp is part of the identity, so that records alike lie in one bucket.
    """
    return records.join(F.broadcast(logs), ["topic", "partition"]).select(
        "log", "offset", "time", "stamped", F.xxhash64("time", "content").alias("identity")
    )


def in_buckets(source: DataFrame, destination: DataFrame, size: int = IN_A_BUCKET) -> tuple[DataFrame, DataFrame]:
    """Both slim frames with the column `bucket`, about `size` records in each: one timestamp, one bucket."""
    both = source.select("log", "time").unionAll(destination.select("log", "time"))
    span = F.max("time") - F.min("time") + 1
    width = F.greatest(F.lit(1), (span * F.lit(2.0 * size) / F.count("*")).cast("long")).alias("width")
    widths = F.broadcast(both.groupBy("log").agg(width))
    bucket = F.expr("time div width").alias("bucket")
    ours, theirs = (
        slim.join(widths, "log").select("log", bucket, "offset", "stamped", "identity")
        for slim in (source, destination)
    )
    return ours, theirs


def digests(bucketed: DataFrame) -> DataFrame:
    """A row for each (log, bucket), equal on both sides if and only if records, their order and their gaps are.

    Moments (half an identity times its distance from the first offset) depend on order and gaps, not on where the
    bucket begins.
    """
    prime = F.lit(_PRIME)
    halves = {"low": F.pmod("identity", prime), "high": F.pmod(F.shiftrightunsigned("identity", 33), prime)}
    products = {name: F.pmod(half * F.pmod("offset", prime), prime) for name, half in halves.items()}
    summed = bucketed.groupBy("log", "bucket").agg(
        F.count("*").alias("records"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.count_if("stamped").alias("stamped"),
        F.bit_xor("identity").alias("mixed"),
        *(F.sum(half).alias(name) for name, half in halves.items()),
        *(F.sum(product).alias(f"{name}_moment") for name, product in products.items()),
    )
    moments = [_from_first(name).alias(f"{name}_moment") for name in halves]
    return summed.select("log", "bucket", "records", "first", "last", "stamped", "mixed", *halves, *moments)


def _from_first(half: str) -> Column:
    prime = F.lit(_PRIME)
    before = F.pmod(F.pmod("first", prime) * F.pmod(half, prime), prime)
    return F.pmod(F.col(f"{half}_moment") - before, prime)


def compared(source: DataFrame, destination: DataFrame) -> list[Bucket]:
    """Every bucket of two bucketed frames, from both sides' digests."""
    ours, theirs = digests(source).alias("s"), digests(destination).alias("d")
    same = [f"s.{name} = d.{name}" for name in ("records", "mixed", "low", "high", "low_moment", "high_moment")]
    equal = F.expr(" and ".join([*same, "s.last - s.first = d.last - d.first"]))
    joined = ours.join(theirs, ["log", "bucket"], "full_outer").select(
        "log",
        "bucket",
        F.coalesce("s.records", F.lit(0)).alias("source_records"),
        F.col("s.first").alias("source_first"),
        F.col("s.last").alias("source_last"),
        F.coalesce("d.records", F.lit(0)).alias("destination_records"),
        F.col("d.first").alias("destination_first"),
        F.coalesce("d.stamped", F.lit(0)).alias("stamped"),
        F.coalesce(equal, F.lit(0) == 1).alias("equal"),
    )
    return [Bucket(**row) for row in joined.toArrow().to_pylist()]


def paired(source: DataFrame, destination: DataFrame, buckets: Sequence[Bucket]) -> dict[int, Runs]:
    """The runs of `buckets` by log, record by record: both bucketed frames are read again, these buckets alone."""
    spark = source.sparkSession
    rows = [(b.log, b.bucket, -(-max(b.source_records, b.destination_records) // _AT_MOST)) for b in buckets]
    wanted = F.broadcast(spark.createDataFrame(rows, "log int, bucket long, parts int"))
    part = F.pmod("identity", "parts").alias("part")
    ours, theirs = (
        side.join(wanted, ["log", "bucket"]).select("log", "bucket", part, "offset", "identity").groupBy(*_PART)
        for side in (source, destination)
    )
    pieces = ours.cogroup(theirs).applyInArrow(_pair, _RUNS)
    merged = pieces.groupBy("log").applyInArrow(_merge, _RUNS).toArrow()
    return {log: _runs_of(rows) for log, rows in _by_log(merged)}


def _pair(source: pa.Table, destination: pa.Table) -> pa.Table:
    ours, theirs = _log_of(source), _log_of(destination)
    runs = compress(ours.offsets, last_copies(ours, theirs))
    return _table(source["log"][0].as_py() if len(source) else 0, runs)


def _merge(pieces: pa.Table) -> pa.Table:
    return _table(pieces["log"][0].as_py(), merge([_runs_of(pieces)]))


def _log_of(rows: pa.Table) -> Log:
    return Log.of(rows["offset"].to_numpy(), rows["identity"].to_numpy())


def _runs_of(rows: pa.Table) -> Runs:
    return Runs(*(rows[name].to_numpy() for name in Runs.__slots__))


def _table(log: int, runs: Runs) -> pa.Table:
    columns = {name: pa.array(getattr(runs, name)) for name in Runs.__slots__}
    return pa.table({"log": pa.array([log] * len(runs), pa.int32()), **columns})


def _by_log(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    for log in pc.unique(rows["log"]).to_pylist():
        yield log, rows.filter(pc.equal(rows["log"], log))
