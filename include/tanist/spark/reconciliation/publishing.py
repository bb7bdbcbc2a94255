"""What a job leaves to be published: a line of JSON for each partition, so that nobody has to hold more than one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tanist.domain.errors import CouldNotTell
from tanist.domain.names import topic_id_text
from tanist.domain.reconciled.published import FoundPartition
from tanist.domain.reconciled.steps import packed
from tanist.kafka.protocol.stored import plain
from tanist.spark.reconciliation.table import published

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from uuid import UUID

    from tanist.domain.reconciliation.result import ReconciledPartition
    from tanist.spark.reconciliation.logs import ReadLogs, ReconciledLog


def found_partition(logs: ReadLogs, partition: ReconciledPartition, found: ReconciledLog) -> FoundPartition | None:
    """All that is published of a partition without trouble; None: nothing can be told of positions in it.

    That is one whose source has no record to hold those of the destination against.
    """
    if not len(found.runs.copied) and found.records[1]:
        return None
    ours, theirs = (logs.every(side) for side in (0, 1))
    table = published(found.runs, found.extras, found.bounds, logs.source_ends, theirs[-1].until)
    source_id, destination_id = (_text(each) for each in logs.topic_ids)
    return FoundPartition(
        source_topic=logs.pair.source,
        destination_topic=logs.pair.destination,
        partition=logs.partition,
        source_topic_id=source_id,
        source_start=ours[0].start,
        source_until=ours[-1].until,
        destination_topic_id=destination_id,
        destination_start=theirs[0].start,
        destination_until=theirs[-1].until,
        copied=partition.copied,
        moved=partition.moved,
        lost=partition.lost,
        repeated=partition.repeated,
        foreign=partition.foreign,
        steps=len(table.steps),
        merged=table.merged,
        packed=packed(table.steps),
    )


def leave(file: Path, found: Iterable[FoundPartition | None]) -> None:
    """Writes one partition after the other; the file is whole, or not there.

    Raises:
        CouldNotTell: it cannot be written.
    """
    parts = file.with_name(f".{file.name}.part")
    try:
        with parts.open("w", encoding="utf-8") as out:
            for each in found:
                if each is not None:
                    out.write(json.dumps(plain(each), separators=(",", ":")) + "\n")
        parts.replace(file)
    except OSError as error:
        parts.unlink(missing_ok=True)
        raise CouldNotTell(f"{file} cannot be written: {error.strerror or error}") from error


def _text(topic_id: UUID | None) -> str:
    return topic_id_text(topic_id) if topic_id else ""
