"""Tables of rows, deliberately broken: each entry says which rule sees it, and in which relay of which table.

A row is one value that all modules share, so it is changed where it is, and put back.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from tests.explorer.circle import AS_IT_WAS
from tests.explorer.circle_judge import FENCE_KNOWN, LISTED, ONE_SIDE
from tests.explorer.product import TanistError, moving_state, pending_tails, recreating, rescue, reversal
from tests.explorer.row_judge import EMPTY, ENDED, RELEASED, REPLAYED, UNDONE
from tests.explorer.rows import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Change = AbstractContextManager[Any]


class Break(NamedTuple):
    """`rule`: what sees it, and says `what` among others. `nth`: relay of the table that shows it."""

    rule: str
    what: str
    table: str
    nth: int
    changes: Callable[[], list[Change]]


def _nothing(*_asked: Any, **_named: Any) -> None:
    """A row that is left out."""


def _none(*_asked: Any, **_named: Any) -> tuple[()]:
    """Nothing is found."""
    return ()


def _refused(*_asked: Any, **_named: Any) -> None:
    raise TanistError("nobody rescues anything")


@contextmanager
def _row(table: str, row: str, **new: Any) -> Iterator[None]:
    """A row with other fields."""
    found = tables()[table].row(row)
    before = {name: getattr(found, name) for name in new}
    for name, value in new.items():
        object.__setattr__(found, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(found, name, value)


def _left_out(table: str, row: str) -> Callable[[], list[Change]]:
    """A row that does nothing."""
    return lambda: [_row(table, row, act=_nothing)]


def _no_failover_loses_anything() -> list[Change]:
    def promotions(view: Any, mirror: Any) -> set[tuple[str, int]]:
        return {(each.topic, each.promotion_epoch) for each in view.lineage(mirror)}

    return [patch.object(pending_tails, "planned_promotions", promotions)]


def _every_fence_is_lifted() -> list[Change]:
    real = tables()["a reversal"].row("lift").act

    def lift(of: Any) -> None:
        returning, of.returning = of.returning, frozenset(t.topic for t in of.lock.view().removed(of.spec.mirror))
        try:
            real(of)
        finally:
            of.returning = returning

    return [_row("a reversal", "lift", act=lift)]


def _nobody_asks_before_a_deletion() -> list[Change]:
    return [
        _row("a recreation", "check", act=_nothing),
        patch.object(reversal, "problems", _none),
        patch.object(reversal, "problems_of_recreation", _none),
        patch.object(recreating, "problems_of_recreation", _none),
        patch.object(rescue, "rescue", _refused),
    ]


BREAKS: Final = {
    "what a failover loses is on no list": Break(
        LISTED, "which no list has (row generation of a failover)", "a failover", 0, _no_failover_loses_anything
    ),
    "an abort leaves the source fenced": Break(
        UNDONE, "(row undo fence", "a failover", 3, lambda: [_row("a failover", "fence", undo=_nothing)]
    ),
    "a replay appends nothing": Break(REPLAYED, "(row finish", "a replay", 0, _left_out("a replay", "append")),
    "no transaction is aborted": Break(
        ENDED, "(row abort", "an abort of transactions", 1, _left_out("an abort of transactions", "abort")
    ),
    "a topic is not created again": Break(EMPTY, "(row create", "a recreation", 1, _left_out("a recreation", "create")),
    "what nobody has rescued is deleted": Break(
        LISTED, "is nowhere (after deletion.delete)", "a recreation", 0, _nobody_asks_before_a_deletion
    ),
    "what stays behind stays held": Break(
        RELEASED, "(row release", "a reversal", 3, _left_out("a reversal", "release")
    ),
    "the fence of what stays behind is forgotten": Break(
        FENCE_KNOWN, "payments", "a reversal", 3, lambda: [patch.object(moving_state, "kept_after", _none)]
    ),
    "the fence of what stays behind is lifted": Break(ONE_SIDE, "payments", "a reversal", 3, _every_fence_is_lifted),
    "a withdrawal leaves what stays behind unfenced": Break(
        AS_IT_WAS, "payments", "a reversal", 4, _every_fence_is_lifted
    ),
}


@contextmanager
def broken_table(name: str) -> Iterator[None]:
    """The product with that break."""
    with ExitStack() as stack:
        for change in BREAKS[name].changes():
            stack.enter_context(change)
        yield
