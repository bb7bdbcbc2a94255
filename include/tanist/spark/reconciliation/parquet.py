"""Runs as one Parquet file: a row for each run, those without a copy, and those that are no copy, included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tanist.domain.errors import CouldNotTell
from tanist.spark.reconciliation.exclusive import held
from tanist.spark.reconciliation.occurrences import NOWHERE
from tanist.spark.reconciliation.runs import moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tanist.domain.reconciliation.result import ReconciledPartition
    from tanist.spark.reconciliation.runs import Runs

SCHEMA: Final = pa.schema(
    [
        ("source_topic", pa.string()),
        ("destination_topic", pa.string()),
        ("partition", pa.int32()),
        ("kind", pa.string()),
        ("source_offset", pa.int64()),
        ("destination_offset", pa.int64()),
        ("offsets", pa.int64()),
        ("records", pa.int64()),
    ]
)
"""From `source_offset` on, for `offsets` offsets with `records` records, the copy lies as far behind
`destination_offset`. By `kind`: paired; moved (out of order); lost (no copy, `destination_offset` is null); repeated
(`source_offset`: the first record that is like the first of these); foreign (`source_offset` is null); only_source and
only_destination: of the last three, those in ranges that only this cluster can have."""


def write(file: Path, found: Iterable[tuple[ReconciledPartition, Runs, Runs]]) -> None:
    """Writes runs by partition and source offset, and extras by destination offset; the file is whole, or not there.

    Raises:
        CouldNotTell: it cannot be written.
    """
    parts = file.with_name(f".{file.name}.part")
    try:
        with pq.ParquetWriter(parts, SCHEMA) as out:
            for partition, runs, extras in found:
                for kind, rows in _by_kind(partition, runs, extras):
                    out.write_table(_table(partition, kind, rows))
        parts.replace(file)
    except OSError as error:
        parts.unlink(missing_ok=True)
        raise CouldNotTell(f"{file} cannot be written: {error.strerror or error}") from error


def _by_kind(found: ReconciledPartition, runs: Runs, extras: Runs) -> Iterator[tuple[str, Runs]]:
    copied, lost = runs.copied, runs.lost
    out = moved(copied)
    ranges = [each for each in found.pair.exclusive if each.partition == found.partition]
    here, there = held(ranges, lost.source, at_source=True), held(ranges, extras.destination, at_source=False)
    yield "paired", copied.where(~out)
    yield "moved", copied.where(out)
    yield "lost", lost.where(~here)
    yield "repeated", extras.where(~there).again
    yield "foreign", extras.where(~there).alone
    yield "only_source", lost.where(here)
    yield "only_destination", extras.where(there)


def _table(found: ReconciledPartition, kind: str, runs: Runs) -> pa.Table:
    same = (found.pair.source, found.pair.destination, found.partition, kind)
    columns = [pa.array([value] * len(runs), type_) for value, type_ in zip(same, SCHEMA.types, strict=False)]
    places = [pa.array(side, pa.int64(), mask=side == NOWHERE) for side in (runs.source, runs.destination)]
    sizes = [pa.array(own, pa.int64()) for own in (runs.length, runs.records)]
    return pa.Table.from_arrays([*columns, *places, *sizes], schema=SCHEMA)
