"""A row of the table by which something that was approved is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class RunRow(Generic[C]):
    """`act` and `undo` look at what is there, so they can be done again after a kill.

    `undo` puts back what `act` has changed, all or a part of it; None: that cannot be put back, or need not be.
    """

    id: str
    act: Callable[[C], None] = field(compare=False, repr=False)
    undo: Callable[[C], None] | None = field(default=None, compare=False, repr=False)


def do(rows: Sequence[RunRow[C]], context: C) -> None:
    """All of it, in order."""
    for row in rows:
        row.act(context)


def put_back(rows: Sequence[RunRow[C]], context: C) -> None:
    """The last one first, whether it has been done or not."""
    for row in reversed(rows):
        if row.undo is not None:
            row.undo(context)
