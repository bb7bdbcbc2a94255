"""What exists once in the product: a second one would be another rule."""

from __future__ import annotations

import ast
from functools import cache
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


@cache
def called() -> dict[str, frozenset[str]]:
    """By module of the product, as its path below it; without those that only compute, or only carry out."""
    files = {file.relative_to(PRODUCT).as_posix(): file for file in PRODUCT.rglob("*.py")}
    return {
        where: frozenset(calls(ast.parse(file.read_text(encoding="utf-8"))))
        for where, file in files.items()
        if not where.startswith(("domain/", "kafka/"))
    }


@pytest.mark.parametrize(
    ("what", "function", "module"),
    [
        ("appends approvals", "approvals.append", "usecases/approvals.py"),
        ("withdraws approvals", "Withdrawal", "usecases/approvals.py"),
        ("makes the approvers' topic", "approvals.create", "usecases/approvals.py"),
        ("signs for a user", "ApprovalRequest", "usecases/approvals.py"),
        ("reads what was approved", "kind.read", "usecases/approvals.py"),
        ("puts back the rows of a run", "row.undo", "usecases/runs/table.py"),
        ("asks for the postcondition of a row", "row.holds", "usecases/runs/table.py"),
        ("asks whether an approval has expired", "time_objections", "usecases/approvals.py"),
    ],
)
def test_one_module(what: str, function: str, module: str) -> None:
    """Four plans of four kinds were approved by two rules; one of them did not look at the brokers' clock."""
    assert [where for where, names in called().items() if function in names] == [module], what


def test_one_function_finds_a_mirror_by_its_name_and_proves_its_destination() -> None:
    """Seven did; whoever looks again under a lock has proved it before."""
    ritual = {"identify", "snapshot.spec_of", "same_as_pinned"}
    found = [
        node.name
        for file in PRODUCT.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and ritual <= set(calls(node))
    ]
    assert found == ["spec_at"]


def test_no_command_dag_or_wiring_reads_for_itself_where_a_mirror_is() -> None:
    """Each of them did, and they differed: `domain/circle.locate` says it."""
    readings = {"view.move", "view.moving", "view.removed", "view.mirrored", "view.unfinished"}
    above = {where: names for where, names in called().items() if where.startswith(("cli/", "airflow/", "wiring/"))}
    assert "wiring/registry.py" in above
    assert {where for where, names in above.items() if names & readings} == set()
