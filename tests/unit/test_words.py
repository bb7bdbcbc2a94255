"""One word for one thing: names that have gone stay gone, and a class is called what no other class is."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
SHIPPED: Final = ("include/tanist", "include/tanist_testkit")
CHECKED: Final = (*SHIPPED, "bench", "dags", "plugins", "spark_jobs")

# fmt: off
BANNED: Final = frozenset({
    "AccessRule", "Anchor", "Asked", "Barrier", "Child", "Copied", "Debts", "Doing", "Following", "Generation",
    "GroupBook", "GroupsFollowed", "House", "Keeper", "LIFT_OWED", "Lane", "LaneKey", "Lanes", "Lent", "Looked",
    "MirrorHeld", "Need", "NeedMet", "OWED", "PartitionAsked", "PartitionCopy", "Patience", "PositionAsked",
    "Readings", "Rescued", "Right", "RightHeld", "SEALED", "SLICES", "Sameness", "Scene", "Side", "Story",
    "TROUBLED", "Telling", "Undone", "Upkept", "Wish", "Witness", "World", "WriteRule", "Writers", "anchor", "asked",
    "barred", "beyond", "board", "complaints", "doubt", "doubts", "entering", "excuse", "farewell", "filler",
    "filler_id", "fillers", "headless", "held_configs", "held_rules", "house", "lane", "lanes", "lend", "lent", "lme",
    "must_not_be_held", "owed", "owed_by", "seal", "sealed", "side", "sides", "slices", "standing", "tell", "tend",
    "told", "told_by", "untold", "upkeep", "upto", "ways_on", "wish", "with_run", "witness", "world",
})
# fmt: on
"""Words that had to be explained; a leading underscore makes none of them better."""


def files(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Every module under `folders`: its path, and its syntax tree."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield str(file.relative_to(ROOT)), ast.parse(file.read_text(encoding="utf-8"))


def defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every function, class, parameter, attribute, and of what a module or a class assigns."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case _:
                pass
        if isinstance(node, ast.Module | ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.Assign | ast.AnnAssign):
                    targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                    names = [n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
                    yield from ((n.lineno, n.id) for n in names)


def test_no_definition_or_parameter_has_a_banned_name() -> None:
    """The reader is from Kafka or Airflow: one word for one thing, and it is the field's."""
    found = [
        f"{path}:{line}: {name}"
        for path, tree in files(*CHECKED)
        for line, name in defined(tree)
        if name.lstrip("_") in BANNED
    ]
    assert found == []


def test_no_module_has_a_banned_name() -> None:
    """A file is opened by its name: `seal.py` fenced producers, `world.py` was two clusters in memory."""
    modules = [path for path, _ in files(*CHECKED, "tests")]
    assert [path for path in modules if {Path(path).stem, *Path(path).stem.split("_")} & BANNED] == []


def test_no_two_public_classes_have_one_name() -> None:
    """Modules of different packages may share a name; a class is told from another by its name alone."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in files(*SHIPPED):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_banned_name_is_found_wherever_it_is_defined() -> None:
    source = (
        "told = 1\nclass C:\n    wish: int\n    def f(self, asked: int, *, upto: int):\n        self.owed = asked\n"
    )
    assert {name for _, name in defined(ast.parse(source))} >= {"told", "wish", "asked", "upto", "owed"}
    assert "reported" not in {name for _, name in defined(ast.parse("def f():\n    reported = 1\n"))}
