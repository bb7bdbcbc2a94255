"""What a reconciliation has left to be published, partition by partition."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tanist.domain.errors import CouldNotTell
from tanist.domain.reconciled.published import STEPS_FILE, FoundPartition
from tanist.kafka.protocol.stored import reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def found_partitions(folder: Path) -> Iterator[FoundPartition]:
    """One after the other, so that one is in memory at a time.

    Raises:
        CouldNotTell: the file cannot be read, or is no such file.
    """
    file, read = folder / STEPS_FILE, reader(FoundPartition)
    try:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                yield read(json.loads(line))
    except (OSError, ValueError, TypeError) as error:
        raise CouldNotTell(f"{file} cannot be read: {error}") from error
