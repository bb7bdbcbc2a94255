"""The records of buckets whose digests differ, paired by Spark: as many at once as a worker can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from tanist.spark.reconciliation.occurrences import Log
from tanist.spark.reconciliation.pairing import pair
from tanist.spark.reconciliation.runs import (
    Runs,
    compress,
    compress_bounds,
    compress_extras,
    join,
    merge_extras,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from tanist.spark.reconciliation.digests import Bucket
    from tanist.spark.reconciliation.occurrences import Longs
    from tanist.spark.reconciliation.time_buckets import TimeBuckets

_AT_MOST: Final = 1_000_000
"""Records of one side that a worker pairs at once, and offsets whose runs it joins. Larger buckets are split by
identity. A process that pairs as many peaks at 387 MB (docs/reconciliation.md)."""
_PART: Final = ("log", "bucket", "part")
_RUNS: Final = "log int, kind int, source long, destination long, length long, records long, trouble string"
ROLES: Final = ("source", "destination")
_COPIES, _EXTRAS, _BOUNDS = range(3)
"""The kinds of runs."""


class PairedLogs(NamedTuple):
    """By log: runs, extras, bounds (`positions.translate`), and why its records could not be read."""

    runs: Mapping[int, Runs]
    extras: Mapping[int, Runs]
    bounds: Mapping[int, Runs]
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
    stretch = F.expr(f"if(kind = {_EXTRAS}, destination, source) div {_AT_MOST}")
    merged = pieces.groupBy("log", "kind", stretch).applyInArrow(_join, _RUNS).toArrow()
    failed = merged.filter(pc.is_valid(merged["trouble"]))
    merged = merged.filter(pc.is_null(merged["trouble"]))
    runs, extras, bounds = (merged.filter(pc.equal(merged["kind"], kind)) for kind in (_COPIES, _EXTRAS, _BOUNDS))
    troubles = zip(failed["log"].to_pylist(), failed["trouble"].to_pylist(), strict=True)
    return PairedLogs(_by_log(runs), _by_log(extras), _by_log(bounds), dict(troubles))


def _pair(source: pa.Table, destination: pa.Table) -> pa.Table:
    log = (source if len(source) else destination)["log"][0].as_py()
    for name, side in zip(ROLES, (source, destination), strict=True):
        if failed := side["trouble"].drop_null():
            return _trouble(log, f"{name}: {failed[0].as_py()}")
    ours = _log_of(source)
    committed, undecided = (
        _log_of(destination.filter(pc.equal(destination["open"], open_))) for open_ in (False, True)
    )
    found = pair(ours, committed, undecided)
    return _table(
        log,
        {
            _COPIES: compress(ours.offsets, found.copies),
            _EXTRAS: compress_extras(found),
            _BOUNDS: compress_bounds(ours.offsets, found),
        },
    )


def _join(pieces: pa.Table) -> pa.Table:
    log, failed = pieces["log"][0].as_py(), pieces["trouble"].drop_null()
    if failed:
        return _trouble(log, failed[0].as_py())
    runs, kind = _runs_of(pieces), pieces["kind"][0].as_py()
    return _table(log, {kind: merge_extras([runs]) if kind == _EXTRAS else join(runs)})


def _log_of(rows: pa.Table) -> Log:
    return Log.of(rows["offset"].to_numpy(), rows["identity"].to_numpy())


def _runs_of(rows: pa.Table) -> Runs:
    return Runs(*(rows[name].to_numpy() for name in Runs.__slots__))


def _table(log: int, by_kind: Mapping[int, Runs]) -> pa.Table:
    every = together(by_kind.values())
    kinds = np.repeat(np.array([*by_kind], np.int32), [len(runs) for runs in by_kind.values()])
    return _rows(log, every, pa.array(kinds), None)


def _trouble(log: int, why: str) -> pa.Table:
    """A row of its own, and the only one."""
    return _rows(log, Runs(*([np.zeros(1, np.int64)] * 4)), pa.array([None], pa.int32()), why)


def _rows(log: int, runs: Runs, kinds: pa.Array, trouble: str | None) -> pa.Table:
    count = len(runs)
    return pa.table(
        {
            "log": pa.array(np.full(count, log, np.int32)),
            "kind": kinds,
            **{name: pa.array(getattr(runs, name)) for name in Runs.__slots__},
            "trouble": pa.array([trouble] * count, pa.string()),
        }
    )


def _by_log(rows: pa.Table) -> dict[int, Runs]:
    logs = pc.unique(rows["log"]).to_pylist()
    return {log: _runs_of(rows.filter(pc.equal(rows["log"], log))) for log in logs}
