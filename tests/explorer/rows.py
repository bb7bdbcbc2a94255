"""The tables of rows by which the product runs what was approved: found in its code, and watched row by row."""

from __future__ import annotations

import ast
import importlib
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from unittest.mock import patch

import tanist
from tests.explorer.product import RowRunner, RunTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tests.explorer.stage import Stage

    AnyTable = RunTable[Any, Any, Any, *tuple[Any, ...]]

PRODUCT: Final = Path(tanist.__file__).parent
_ATTEMPT: Final = RowRunner.attempt
_PUT_BACK: Final = RunTable.put_back


@cache
def tables() -> Mapping[str, AnyTable]:
    """Every table of the product, by its name. None of them is listed here: who writes another one is found.

    Raises:
        LookupError: a table is made where it has no name in its module.
    """
    found = {}
    for file in sorted(PRODUCT.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if RunTable.__name__ not in text:
            continue
        tree = ast.parse(text)
        module = ".".join(("tanist", *file.relative_to(PRODUCT).with_suffix("").parts))
        named = [each for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign) and _makes(each.value)]
        if len(named) < sum(map(_makes, ast.walk(tree))):
            raise LookupError(f"{module} makes a table of rows that is no constant of the module")
        for each in named:
            (target,) = each.targets if isinstance(each, ast.Assign) else (each.target,)
            table = getattr(importlib.import_module(module), ast.unparse(target))
            found[table.name] = table
    return found


def _makes(node: ast.AST | None) -> bool:
    """Whether this makes a table."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    return ast.unparse(called).rpartition(".")[2] == RunTable.__name__


def points(of: Iterable[AnyTable]) -> frozenset[str]:
    """Where somebody can be stopped who runs one of these: after each row, and after each undo."""
    return frozenset(
        row_point(each.name, what)
        for each in of
        for row in each
        for what in (row.id, *((f"undo {row.id}",) if row.undo is not None else ()))
    )


def row_point(table: str, what: str) -> str:
    """The point after a row of the table with that name; after its undo, if `what` begins with `undo`."""
    return f"row:{what} of {table}"


class Watched(Protocol):
    """Where rows are run and judged."""

    stage: Stage

    @property
    def check(self) -> Callable[[str], None]: ...

    @property
    def row_done(self) -> Callable[[str, str], None]: ...


@contextmanager
def watched(circle: Watched) -> Iterator[None]:
    """After each row of whatever table, and after each undo, everything is judged, and people may be stopped.

    All rows are done by one function of the product, and put back by one other.
    """
    owners = {(row.id, row.title): table.name for table in tables().values() for row in table}

    def then(deed: Callable[[Any], Any], table: str, what: str) -> Callable[[Any], Any]:
        def both(context: Any) -> Any:
            done = deed(context)
            circle.check(f"row {what} of {table}")
            circle.row_done(table, what)
            circle.stage.point(row_point(table, what))
            return done

        return both

    def attempt(runner: Any, row: Any, context: Any) -> Any:
        table = owners.get((row.id, row.title), "a table that is not in the code")
        return _ATTEMPT(runner, replace(row, act=then(row.act, table, row.id)), context)

    def put_back(table: Any, context: Any) -> None:
        rows = (
            row if row.undo is None else replace(row, undo=then(row.undo, table.name, f"undo {row.id}"))
            for row in table
        )
        _PUT_BACK(replace(table, rows=tuple(rows)), context)

    with patch.object(RowRunner, "attempt", attempt), patch.object(RunTable, "put_back", put_back):
        yield
