"""How much code there is, however it is laid out: `python -m bench.size [--json]`.

Counted are statements and tokens of the syntax tree without its docstrings: lines, comments and blank lines are no
size. A function's size is the number of statements in it, those of nested functions included.
"""

from __future__ import annotations

import ast
import io
import statistics
import tokenize
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.figures import show

if TYPE_CHECKING:
    from collections.abc import Sequence

INCLUDE: Final = Path(__file__).resolve().parents[1] / "include"
PRODUCT: Final = "tanist"
_LAYOUT: Final = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})
_SCOPES = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Size:
    """Of one package: files, statements, tokens, functions, and of these the median and the 90th percentile."""

    package: str
    files: int
    statements: int
    tokens: int
    functions: int
    median: float
    p90: float


@dataclass(frozen=True, slots=True)
class FileSize:
    """Of one file; `functions`: the statements of each."""

    statements: int
    tokens: int
    functions: tuple[int, ...]


def statements(tree: ast.AST) -> int:
    """Statements below `tree`, itself not included."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) - isinstance(tree, ast.stmt)


def without_docstrings(source: str) -> ast.Module:
    """The syntax tree; a body that held nothing but its docstring is empty."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _SCOPES):
            node.body = [each for each in node.body if not _is_text(each)]
    return tree


def _is_text(statement: ast.stmt) -> bool:
    """A docstring, of an attribute too."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def size_of(source: str) -> FileSize:
    """Raises SyntaxError."""
    tree = without_docstrings(source)
    functions = tuple(statements(node) for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    count = statements(tree)
    for node in ast.walk(tree):  # unparse leaves an empty body out, and the text would not be Python
        if isinstance(node, _SCOPES) and not node.body:
            node.body = [ast.Pass()]
    text = io.StringIO(ast.unparse(tree))
    tokens = sum(token.type not in _LAYOUT for token in tokenize.generate_tokens(text.readline))
    return FileSize(count, tokens, functions)


def summary(package: str, files: Sequence[FileSize]) -> Size:
    """All files of a package together."""
    functions = sorted(size for file in files for size in file.functions) or [0]
    p90 = statistics.quantiles(functions, n=10, method="inclusive")[-1] if len(functions) > 1 else functions[0]
    return Size(
        package=package,
        files=len(files),
        statements=sum(file.statements for file in files),
        tokens=sum(file.tokens for file in files),
        functions=sum(len(file.functions) for file in files),
        median=statistics.median(functions),
        p90=p90,
    )


def measured(root: Path = INCLUDE / PRODUCT) -> tuple[Size, ...]:
    """Each package below `root`, the largest first, and all of it."""
    found: dict[str, list[FileSize]] = defaultdict(list)
    for file in sorted(root.rglob("*.py")):
        inside = file.relative_to(root).parts
        package = f"{root.name}.{inside[0]}" if len(inside) > 1 else root.name
        found[package].append(size_of(file.read_text(encoding="utf-8")))
    each = sorted((summary(name, files) for name, files in found.items()), key=lambda size: -size.statements)
    return (*each, summary("all", [file for files in found.values() for file in files]))


if __name__ == "__main__":
    show("bench.size", "How much code the product has.", measured)
