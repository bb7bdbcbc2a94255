"""The JSON items of `tanist metadata`, and its summary in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tanist.domain.metadata import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.metadata import MetadataRow
    from tanist.domain.names import MirrorName

_DOING = frozenset({Outcome.DIFFERS, Outcome.CHANGED, Outcome.FAILED})
COLUMNS = ("kind", "name", "change", "source", "destination", "verdict", "reason")


def metadata_item(mirror: MirrorName, row: MetadataRow) -> dict[str, Any]:
    """One difference; `source` and `destination` are None if the value does not exist there.

    `topic`: None: it is about the whole mirror.
    """
    return {"mirror": mirror, "topic": row.topic or None} | {name: getattr(row, name) for name in COLUMNS}


def counts(rows: Iterable[MetadataRow]) -> dict[str, int]:
    """How many rows have each verdict, in their order."""
    counted = Counter(row.verdict for row in rows)
    return {str(verdict): counted[verdict] for verdict in Outcome if counted[verdict]}


def summary(rows: Iterable[MetadataRow]) -> str:
    """The same in words, also if there is nothing to do."""
    counted = counts(rows)
    said = [f"{count} {verdict.lower()}" for verdict, count in counted.items()]
    return ", ".join(said if counted.keys() & _DOING else ["nothing to do", *said])
