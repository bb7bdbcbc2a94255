"""The records of buckets whose digests differ, paired by Spark: as many at once as a worker can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from tanist.spark.reconciliation.pairing import Log, pair
from tanist.spark.reconciliation.runs import Runs, compress, compress_extras, join, merge_extras, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from tanist.spark.reconciliation.digests import Bucket
    from tanist.spark.reconciliation.pairing import Longs
    from tanist.spark.reconciliation.time_buckets import TimeBuckets

_AT_MOST: Final = 1_000_000
"""Records of one side that a worker pairs at once, and offsets whose runs it joins. Larger buckets are split by
identity. A process that pairs as many peaks at 387 MB (docs/reconciliation.md)."""
_PART: Final = ("log", "bucket", "part")
_RUNS: Final = "log int, extra boolean, source long, destination long, length long, records long, trouble string"
ROLES: Final = ("source", "destination")


class PairedLogs(NamedTuple):
    """By log: runs, extras, and why its records could not be read."""

    runs: Mapping[int, Runs]
    extras: Mapping[int, Runs]
    troubles: Mapping[int, str]


def parts_of(buckets: Sequence[Bucket], known: Mapping[int, TimeBuckets]) -> dict[int, Longs]:
    """By log, for each of all its buckets, into how many parts its records are split; 0: it is not among `buckets`."""
    found = {log: np.zeros(known[log].count, np.int64) for log in {bucket.log for bucket in buckets}}
    for bucket in buckets:
        found[bucket.log][bucket.bucket] = -(-max(bucket.source_records, bucket.destination_records) // _AT_MOST)
    return found


def paired(source: DataFrame, destination: DataFrame) -> PairedLogs:
    """What the records of two frames of schema `source.RECORDS` tell, each bucket by itself."""
    ours, theirs = (side.groupBy(*_PART) for side in (source, destination))
    pieces = ours.cogroup(theirs).applyInArrow(_pair, _RUNS)
    stretch = F.expr(f"if(extra, destination, source) div {_AT_MOST}")
    merged = pieces.groupBy("log", "extra", stretch).applyInArrow(_join, _RUNS).toArrow()
    failed = merged.filter(pc.is_valid(merged["trouble"]))
    merged = merged.filter(pc.is_null(merged["trouble"]))
    runs, extras = (merged.filter(pc.equal(merged["extra"], extra)) for extra in (False, True))
    troubles = zip(failed["log"].to_pylist(), failed["trouble"].to_pylist(), strict=True)
    return PairedLogs(_by_log(runs), _by_log(extras), dict(troubles))


def _pair(source: pa.Table, destination: pa.Table) -> pa.Table:
    log = (source if len(source) else destination)["log"][0].as_py()
    for name, side in zip(ROLES, (source, destination), strict=True):
        if failed := side["trouble"].drop_null():
            return _table(log, Runs.none(), Runs.none(), f"{name}: {failed[0].as_py()}")
    ours = _log_of(source)
    committed, undecided = (
        _log_of(destination.filter(pc.equal(destination["open"], open_))) for open_ in (False, True)
    )
    found = pair(ours, committed, undecided)
    return _table(log, compress(ours.offsets, found.copies), compress_extras(found))


def _join(pieces: pa.Table) -> pa.Table:
    log, failed = pieces["log"][0].as_py(), pieces["trouble"].drop_null()
    if failed:
        return _table(log, Runs.none(), Runs.none(), failed[0].as_py())
    runs = _runs_of(pieces)
    if pieces["extra"][0].as_py():
        return _table(log, Runs.none(), merge_extras([runs]))
    return _table(log, join(runs), Runs.none())


def _log_of(rows: pa.Table) -> Log:
    return Log.of(rows["offset"].to_numpy(), rows["identity"].to_numpy())


def _runs_of(rows: pa.Table) -> Runs:
    return Runs(*(rows[name].to_numpy() for name in Runs.__slots__))


def _table(log: int, runs: Runs, extras: Runs, trouble: str | None = None) -> pa.Table:
    """`trouble` is a row of its own, and the only one."""
    both = together([runs, extras]) if trouble is None else Runs(*([np.zeros(1, np.int64)] * 4))
    columns = {name: pa.array(getattr(both, name)) for name in Runs.__slots__}
    extra = pa.array(np.arange(len(both)) >= len(runs)) if trouble is None else pa.array([None], pa.bool_())
    count = len(both)
    return pa.table(
        {
            "log": pa.array(np.full(count, log, np.int32)),
            "extra": extra,
            **columns,
            "trouble": pa.array([trouble] * count, pa.string()),
        }
    )


def _by_log(rows: pa.Table) -> dict[int, Runs]:
    logs = pc.unique(rows["log"]).to_pylist()
    return {log: _runs_of(rows.filter(pc.equal(rows["log"], log))) for log in logs}
