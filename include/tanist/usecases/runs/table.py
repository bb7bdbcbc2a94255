"""The table by which something that was approved is run, and put back as long as that is possible."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar, TypeVarTuple

from tanist.domain.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

C = TypeVar("C")
U = TypeVar("U")
D = TypeVar("D")
Seen = TypeVarTuple("Seen")


@dataclass(frozen=True, slots=True)
class RunRow(Generic[C, U, D, *Seen]):
    """`title`: what is true once the row is done. `act` makes it so, and can be done again after a kill.

    `undo` puts back what `act` has changed, all or a part of it; None: that cannot be put back, or need not be.
    `holds`: the postcondition, a pure function of what is seen; None: `act` looks for itself at what is left to do.

    `C` and `U`: what `act` and `undo` are given. `D`: what `act` returns. `Seen`: what `holds` is given.
    """

    id: str
    title: str
    act: Callable[[C], D] = field(compare=False, repr=False)
    undo: Callable[[U], None] | None = field(default=None, compare=False, repr=False)
    holds: Callable[[*Seen], bool] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RunTable(Generic[C, U, D, *Seen]):
    """`name`: of what is run, with its article. `no_return`: id of the row that passes the point of no return.

    `is_past`: whether that point is passed, by what is seen; None: whoever runs the table finds out.

    Raises:
        ValueError: two rows have one id, no row has that of `no_return`, or this row or one behind it can be undone.
    """

    name: str
    rows: tuple[RunRow[C, U, D, *Seen], ...]
    no_return: str
    is_past: Callable[[*Seen], bool] | None = None

    def __post_init__(self) -> None:
        if len({*self.ids}) < len(self.rows):
            raise ValueError(f"{self.name} has several rows of one id: {', '.join(self.ids)}")
        if back := [row.id for row in self._from_no_return() if row.undo is not None]:
            raise ValueError(f"{self.name} cannot undo {', '.join(back)} behind its point of no return")

    def __iter__(self) -> Iterator[RunRow[C, U, D, *Seen]]:
        return iter(self.rows)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(row.id for row in self.rows)

    def row(self, row_id: str) -> RunRow[C, U, D, *Seen]:
        """Raises ValueError: there is none of this id."""
        return self.rows[self.ids.index(row_id)]

    def _from_no_return(self) -> tuple[RunRow[C, U, D, *Seen], ...]:
        return self.rows[self.ids.index(self.no_return) :]

    def up_to(self, until: str | None) -> tuple[RunRow[C, U, D, *Seen], ...]:
        """The rows up to and including `until`; None: all of them.

        Raises:
            Misconfigured: there is no such row.
        """
        if until is None:
            return self.rows
        if until not in self.ids:
            raise Misconfigured(f"{self.name} has no step {until!r}: {', '.join(self.ids)}")
        return self.rows[: self.ids.index(until) + 1]

    def remaining(self, *seen: *Seen, until: str | None = None) -> tuple[RunRow[C, U, D, *Seen], ...]:
        """The rows that are left to do, up to and including `until`. Pure, so a run killed anywhere just asks again.

        Behind the point of no return forward is the only safe way: what lies before it is not looked at any more.

        Raises:
            Misconfigured: there is no row `until`.
        """
        rows = self._from_no_return() if self.is_past is not None and self.is_past(*seen) else self.rows
        wanted = self.up_to(until)
        return tuple(row for row in rows if row in wanted and (row.holds is None or not row.holds(*seen)))

    def left(self, *seen: *Seen) -> tuple[str, ...]:
        """The ids of all rows that are left to do."""
        return tuple(row.id for row in self.remaining(*seen))

    def do(self, context: C, *, after: str | None = None, until: str | None = None) -> None:
        """The rows behind `after`, up to and including `until`, in order; None: from the first, to the last."""
        done = () if after is None else self.up_to(after)
        for row in self.up_to(until)[len(done) :]:
            row.act(context)

    def put_back(self, context: U) -> None:
        """Undo the last row first, whether it has been done or not."""
        for row in reversed(self.rows):
            if row.undo is not None:
                row.undo(context)
