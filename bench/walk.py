"""Which packages one value passes, in the order of the code: `python -m bench.walk tanist.cli.health:status`.

Nothing is run. The walk enters every function that the code at hand calls by a name that can be followed (a function, a
class, a method of self, a method of a parameter or local whose class its annotation or construction tells), once, depth
first. It is in a package (as the import contracts draw them: `tanist.kafka` is one) until a call leads into another. A
return is a call into a package that was entered before and left; what a function gives back to its caller is not
counted. A call of a port is the end of a walk: its implementation is chosen as the program runs. The domain is no stop:
pure functions and values are asked from everywhere.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

INCLUDE = Path(__file__).parents[1] / "include"
Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Module:
    """One file: what it defines, and where its imported names come from."""

    name: str
    defines: dict[str, Definition]
    imports: dict[str, str]

    @property
    def package(self) -> str:
        return ".".join(self.name.split(".")[:2])


@cache
def module(name: str) -> Module | None:
    """The module of a dotted name; None: it is not one of ours."""
    path = INCLUDE / Path(*name.split("."))
    file = next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.exists()), None)
    if not name.startswith("tanist.") or file is None:
        return None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imports = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    return Module(name, {each.name: each for each in tree.body if isinstance(each, Definition)}, imports)


@dataclass
class Walk:
    """`visits`: one package after the other, as they were entered by a call."""

    visits: list[str] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    @property
    def packages(self) -> list[str]:
        return list(dict.fromkeys(self.visits))

    @property
    def returns(self) -> int:
        return len(self.visits) - len(self.packages)

    def enter(self, where: Module, function: ast.FunctionDef, owner: ast.ClassDef | None = None) -> None:
        """Walk through a function and all that it calls."""
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        if where.package.startswith("tanist.domain"):
            return
        if not self.visits or self.visits[-1] != where.package:
            self.visits.append(where.package)
        names = _classes(where, function, owner)
        for call in sorted(_calls(function), key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0)):
            self._follow(where, call.func, names)

    def _follow(self, where: Module, called: ast.expr, names: dict[str, tuple[Module, ast.ClassDef]]) -> None:
        if isinstance(called, ast.Name):
            self._define(_resolved(where, called.id))
        elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            if called.value.id in names:
                there, owner = names[called.value.id]
                if (method := _method(owner, called.attr)) is not None:
                    self.enter(there, method, owner)
            elif (target := module(where.imports.get(called.value.id, ""))) is not None:
                self._define(_resolved(target, called.attr))

    def _define(self, found: tuple[Module, Definition] | None) -> None:
        if found is None:
            return
        where, definition = found
        if isinstance(definition, ast.FunctionDef):
            self.enter(where, definition)
        elif (made := _method(definition, "__init__") or _method(definition, "__post_init__")) is not None:
            self.enter(where, made, definition)


def _calls(function: ast.FunctionDef) -> list[ast.Call]:
    return [each for part in function.body for each in ast.walk(part) if isinstance(each, ast.Call)]


def _method(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in owner.bases):
        return None
    return next((each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == name), None)


def _resolved(where: Module, name: str) -> tuple[Module, Definition] | None:
    if name in where.defines:
        return where, where.defines[name]
    source, _, original = where.imports.get(name, "").rpartition(".")
    there = module(source)
    return None if there is None else _resolved(there, original)


def _classes(
    where: Module, function: ast.FunctionDef, owner: ast.ClassDef | None
) -> dict[str, tuple[Module, ast.ClassDef]]:
    """The names in a function whose class is told by an annotation or by their construction."""
    reported: dict[str, ast.expr | None] = {each.arg: each.annotation for each in function.args.args}
    reported |= {each.arg: each.annotation for each in function.args.kwonlyargs}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            reported[node.targets[0].id] = node.value.func
        elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            made = node.context_expr
            while isinstance(made, ast.Call) and made.args and isinstance(made.args[0], ast.Call):
                made = made.args[0]  # closing(Observer(...))
            reported[node.optional_vars.id] = made.func if isinstance(made, ast.Call) else None
    found = {
        name: resolved
        for name, kind in reported.items()
        if isinstance(kind, ast.Name)
        and (resolved := _resolved(where, kind.id)) is not None
        and isinstance(resolved[1], ast.ClassDef)
    }
    classes = {name: (there, kind) for name, (there, kind) in found.items() if isinstance(kind, ast.ClassDef)}
    return classes | ({"self": (where, owner)} if owner is not None else {})


def walk(entry: str) -> Walk:
    """The walk that begins at `package.module:function`."""
    name, _, function = entry.partition(":")
    where = module(name)
    found = where and where.defines.get(function)
    if where is None or not isinstance(found, ast.FunctionDef):
        raise SystemExit(f"{entry} is not a function of tanist")
    made = Walk()
    made.enter(where, found)
    return made


if __name__ == "__main__":
    for entry in sys.argv[1:] or ["tanist.cli.health:status"]:
        done = walk(entry)
        print(f"{entry}: {len(done.packages)} packages, {done.returns} returns")
        print("  " + " > ".join(done.visits))
