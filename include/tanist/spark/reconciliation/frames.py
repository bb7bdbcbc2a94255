"""Records as frames: identities, digests of buckets, and the pairing of those that differ.

A *slim* frame has a row for each record, of `source.SCHEMA`. All sums are modular: under ANSI mode an overflow is an
error.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from tanist.spark.reconciliation.digests import Bucket
from tanist.spark.reconciliation.pairing import Log, pair
from tanist.spark.reconciliation.runs import Runs, compress, compress_extras, join, merge_extras, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

IN_A_BUCKET: Final = 20_000
"""Records that a bucket should have: few enough to pair in memory, enough to be worth a task's overhead."""
_AT_MOST: Final = 1_000_000
"""Records of one side that a worker pairs at once, and offsets whose runs it joins. Larger buckets are split by
identity. A process that pairs as many peaks at 387 MB (docs/reconciliation.md)."""
_SHARES: Final = (0.0, 1 / 256, *(n / 16 for n in range(1, 16)), 255 / 256, 1.0)
"""Quantiles of a log's times between which all its buckets have one width."""
_SAMPLED: Final = 256
"""Records of a bucket, about, whose times are looked at for its width."""
_TIMES: Final = 2**61
"""Times beyond, which only a broken clock writes, share buckets: differences of any two others are no overflow."""
_SEGMENT: Final = 2**40
"""Buckets of one segment, at most."""
_PRIME: Final = 2**31 - 1

_PART: Final = ("log", "bucket", "part")
_RUNS: Final = "log int, extra boolean, source long, destination long, length long, records long"


def in_buckets(source: DataFrame, destination: DataFrame, size: int = IN_A_BUCKET) -> tuple[DataFrame, DataFrame]:
    """Both slim frames with the column `bucket`, about `size` records in each: one timestamp, one bucket.

    Between two quantiles of its log's times buckets have one width. So neither a few times far from all others nor
    an hour with most of the records makes buckets large; only one time does that many records have. Small logs are one
    bucket.
    """
    step = max(1, size // _SAMPLED)
    both = source.select("log", "offset", _time()).unionAll(destination.select("log", "offset", _time()))
    quantiles = F.percentile_approx("time", list(_SHARES), 1000).alias("edges")
    sampled = both.where(F.pmod("offset", F.lit(step)) == 0).groupBy("log").agg(quantiles, F.count("*").alias("seen"))
    sampled = sampled.where(F.col("seen") * step > 2 * size)
    widths = F.broadcast(sampled.select("log", "edges", F.array(*_widths(step, size)).alias("widths")))
    segment = F.expr(" + ".join(f"int(time >= edges[{n}])" for n in range(len(_SHARES))))
    within = F.expr("(time - edges[segment - 1]) div widths[segment - 1]")
    bucket = (
        F.when(F.col("segment") > 0, F.col("segment").cast("long") * _SEGMENT + within).otherwise(0).alias("bucket")
    )
    columns = ("log", "offset", "stamped", "open", "identity", _time())
    ours, theirs = (
        slim.select(*columns)
        .join(widths, "log", "left")
        .withColumn("segment", F.coalesce(segment, F.lit(0)))
        .select("log", bucket, "offset", "stamped", "open", "identity")
        for slim in (source, destination)
    )
    return ours, theirs


def _time() -> Column:
    return F.greatest(F.least("time", F.lit(_TIMES)), F.lit(-_TIMES)).alias("time")


def _widths(step: int, size: int) -> list[Column]:
    """Milliseconds of a bucket behind each of the edges; behind the last all records are in one."""
    every = [
        F.expr(
            f"bigint(least({_TIMES}D, greatest(1D, (edges[{n + 1}] - edges[{n}]) * {2 * size / share / step}D / seen)))"
        )
        for n, share in enumerate(after - before for before, after in pairwise(_SHARES))
    ]
    return [*every, F.lit(2 * _TIMES)]


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
        F.count_if("open").alias("open"),
        F.bit_xor("identity").alias("mixed"),
        *(F.sum(half).alias(name) for name, half in halves.items()),
        *(F.sum(product).alias(f"{name}_moment") for name, product in products.items()),
    )
    moments = [_from_first(name).alias(f"{name}_moment") for name in halves]
    own = ("log", "bucket", "records", "first", "last", "stamped", "open", "mixed")
    return summed.select(*own, *halves, *moments)


def _from_first(half: str) -> Column:
    prime = F.lit(_PRIME)
    before = F.pmod(F.pmod("first", prime) * F.pmod(half, prime), prime)
    return F.pmod(F.col(f"{half}_moment") - before, prime)


def compared(source: DataFrame, destination: DataFrame) -> list[Bucket]:
    """Every bucket of two bucketed frames, from both sides' digests."""
    ours, theirs = digests(source).alias("s"), digests(destination).alias("d")
    same = [f"s.{name} = d.{name}" for name in ("records", "mixed", "low", "high", "low_moment", "high_moment")]
    equal = F.expr(" and ".join([*same, "s.last - s.first = d.last - d.first", "d.open = 0"]))
    joined = ours.join(theirs, ["log", "bucket"], "full_outer").select(
        "log",
        "bucket",
        F.coalesce("s.records", F.lit(0)).alias("source_records"),
        F.col("s.first").alias("source_first"),
        F.col("s.last").alias("source_last"),
        F.coalesce("s.open", F.lit(0)).alias("source_open"),
        F.coalesce("d.records", F.lit(0)).alias("destination_records"),
        F.col("d.first").alias("destination_first"),
        F.col("d.last").alias("destination_last"),
        F.coalesce("d.open", F.lit(0)).alias("destination_open"),
        F.coalesce("d.stamped", F.lit(0)).alias("stamped"),
        F.coalesce(equal, F.lit(0) == 1).alias("equal"),
    )
    return [Bucket(**row) for row in joined.toArrow().to_pylist()]


def paired(
    source: DataFrame, destination: DataFrame, buckets: Sequence[Bucket]
) -> tuple[dict[int, Runs], dict[int, Runs]]:
    """Runs and extras of `buckets` by log, record by record: of both bucketed frames these are read again."""
    spark = source.sparkSession
    rows = [(b.log, b.bucket, -(-max(b.source_records, b.destination_records) // _AT_MOST)) for b in buckets]
    wanted = F.broadcast(spark.createDataFrame(rows, "log int, bucket long, parts int"))
    part = F.pmod("identity", "parts").alias("part")
    ours, theirs = (
        side.join(wanted, ["log", "bucket"]).select("log", "bucket", part, "offset", "identity", "open").groupBy(*_PART)
        for side in (source, destination)
    )
    pieces = ours.cogroup(theirs).applyInArrow(_pair, _RUNS)
    stretch = F.expr(f"if(extra, destination, source) div {_AT_MOST}")
    merged = pieces.groupBy("log", "extra", stretch).applyInArrow(_join, _RUNS).toArrow()
    runs, extras = (merged.filter(pc.equal(merged["extra"], extra)) for extra in (False, True))
    return _by_log(runs), _by_log(extras)


def _pair(source: pa.Table, destination: pa.Table) -> pa.Table:
    log = (source if len(source) else destination)["log"][0].as_py()
    ours = _log_of(source)
    committed, undecided = (
        _log_of(destination.filter(pc.equal(destination["open"], open_))) for open_ in (False, True)
    )
    found = pair(ours, committed, undecided)
    return _table(log, compress(ours.offsets, found.copies), compress_extras(found))


def _join(pieces: pa.Table) -> pa.Table:
    log, runs = pieces["log"][0].as_py(), _runs_of(pieces)
    if pieces["extra"][0].as_py():
        return _table(log, Runs.none(), merge_extras([runs]))
    return _table(log, join(runs), Runs.none())


def _log_of(rows: pa.Table) -> Log:
    return Log.of(rows["offset"].to_numpy(), rows["identity"].to_numpy())


def _runs_of(rows: pa.Table) -> Runs:
    return Runs(*(rows[name].to_numpy() for name in Runs.__slots__))


def _table(log: int, runs: Runs, extras: Runs) -> pa.Table:
    both = together([runs, extras])
    columns = {name: pa.array(getattr(both, name)) for name in Runs.__slots__}
    extra = pa.array([False] * len(runs) + [True] * len(extras), pa.bool_())
    return pa.table({"log": pa.array([log] * len(both), pa.int32()), "extra": extra, **columns})


def _by_log(rows: pa.Table) -> dict[int, Runs]:
    logs = pc.unique(rows["log"]).to_pylist()
    return {log: _runs_of(rows.filter(pc.equal(rows["log"], log))) for log in logs}
