"""Runs as one Parquet file: a row for each run, those without a copy included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tanist.domain.errors import CouldNotTell
from tanist.spark.reconciliation.pairing import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tanist.domain.reconciliation.result import ReconciledPartition
    from tanist.spark.reconciliation.runs import Runs

SCHEMA: Final = pa.schema(
    [
        ("source_topic", pa.string()),
        ("destination_topic", pa.string()),
        ("partition", pa.int32()),
        ("source_offset", pa.int64()),
        ("destination_offset", pa.int64()),
        ("offsets", pa.int64()),
        ("records", pa.int64()),
    ]
)
"""From `source_offset` on, for `offsets` offsets with `records` records, the copy lies as far behind
`destination_offset`; null: these records have no copy."""


def write(file: Path, found: Iterable[tuple[ReconciledPartition, Runs]]) -> None:
    """Writes all runs, by partition and source offset; the file is there whole, or not at all.

    Raises:
        CouldNotTell: it cannot be written.
    """
    parts = file.with_name(f".{file.name}.part")
    try:
        with pq.ParquetWriter(parts, SCHEMA) as out:
            for partition, runs in found:
                out.write_table(_table(partition, runs))
        parts.replace(file)
    except OSError as error:
        parts.unlink(missing_ok=True)
        raise CouldNotTell(f"{file} cannot be written: {error.strerror or error}") from error


def _table(found: ReconciledPartition, runs: Runs) -> pa.Table:
    where = (found.pair.source, found.pair.destination, found.partition)
    same = [pa.array([value] * len(runs), kind) for value, kind in zip(where, SCHEMA.types, strict=False)]
    there = pa.array(runs.destination, pa.int64(), mask=runs.destination == NOWHERE)
    own = [
        pa.array(runs.source, pa.int64()),
        there,
        *(pa.array(own, pa.int64()) for own in (runs.length, runs.records)),
    ]
    return pa.Table.from_arrays([*same, *own], schema=SCHEMA)
