"""What exists once in the product: a second one would be another rule."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCT = Path(__file__).parents[2] / "include" / "tanist"


def calls(tree: ast.AST) -> Iterator[str]:
    """What is called, as it is written, without what stands before the last two names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ".".join(ast.unparse(node.func).split(".")[-2:])


def modules_that_call(*functions: str) -> set[str]:
    """Modules of the product, by their paths below it; those that only compute, or only carry out, may."""
    found = set()
    for file in PRODUCT.rglob("*.py"):
        where = file.relative_to(PRODUCT).as_posix()
        if where.startswith(("domain/", "kafka/")):
            continue
        if not set(functions).isdisjoint(calls(ast.parse(file.read_text(encoding="utf-8")))):
            found.add(where)
    return found


@pytest.mark.parametrize(
    ("what", "functions", "module"),
    [
        ("appends approvals", ("approvals.append",), "usecases/approvals.py"),
        ("withdraws approvals", ("Withdrawal",), "usecases/approvals.py"),
        ("makes the approvers' topic", ("approvals.create",), "usecases/approvals.py"),
        ("signs for a user", ("ApprovalRequest",), "usecases/approvals.py"),
        ("asks whether an approval has expired", ("time_objections",), "usecases/approvals.py"),
    ],
)
def test_one_module(what: str, functions: tuple[str, ...], module: str) -> None:
    """Four plans of four kinds were approved by two rules; one of them did not look at the brokers' clock."""
    assert modules_that_call(*functions) == {module}, what
