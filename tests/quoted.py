"""Commands of `tanist` that texts quote, and whether the command line has them.

A text quotes a command in backticks, as `Example:` of a docstring, or as a line of a code block, indented or fenced.
Backticks around a command without its arguments name it; what has arguments can be typed, and must parse.
"""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import typer

from tanist.cli.app import app
from tanist.cli.extensions import TESTKIT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_IN_BACKTICKS: Final = re.compile(r"`(tanist\s[^`]+)`")
_STANDS_FOR_A_VALUE: Final = re.compile(
    r"(?:^|\s)(?:--[a-z-]+[ =])?(?:NAME|HASH|REGEX|TOPIC|TEXT|GROUP|FILE|STEP|ID|N)(?=\s|$)"
)
_OPTION_IN_BACKTICKS: Final = re.compile(r"`(--?[a-z][a-z-]*)[^`]*`")
_A_LINE: Final = re.compile(r"^(?:\s*Example: |    |\$ )(?:\S*/)?(tanist [a-z].*)$", re.MULTILINE)
_FENCED: Final = re.compile(r"^```[a-z]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_A_FENCED_LINE: Final = re.compile(r"^(tanist [a-z].*)$", re.MULTILINE)
_ENDS_A_COMMAND: Final = re.compile(r"\s#|\s\||&&|;|\s2?>|\s&|\\$")
_FILLED_IN: Final = "X"
"""Stands for what an f-string fills in."""
_REFUSED_VALUE: Final = re.compile(r"Invalid value for '(--[\w-]+)'")


@dataclass(frozen=True)
class Quoted:
    """`typed`: a whole line, which must parse even without arguments."""

    where: str
    text: str
    typed: bool = False


def in_sources(package: Path) -> Iterator[Quoted]:
    """What the strings of all modules quote, error messages and docstrings alike."""
    for file in sorted(package.rglob("*.py")):
        for line, text in _strings(ast.parse(file.read_text(encoding="utf-8"))):
            yield from in_text(f"{file.relative_to(package)}:{line}", text)


def in_text(where: str, text: str) -> Iterator[Quoted]:
    for found in _IN_BACKTICKS.findall(text):
        yield Quoted(where, " ".join(found.split()))
    for found in _A_LINE.findall(text):
        yield Quoted(where, found, typed=True)
    for block in _FENCED.findall(text):
        for found in _A_FENCED_LINE.findall(block):
            yield Quoted(where, found, typed=True)


def left_in(text: str) -> list[str]:
    """The commands in `text` that cannot be typed as they stand: a word in them is to be replaced by a value."""
    return [found for found in _IN_BACKTICKS.findall(text) if _STANDS_FOR_A_VALUE.search(found)]


def options_in(text: str) -> frozenset[str]:
    """Options that stand in backticks by themselves."""
    return frozenset(_OPTION_IN_BACKTICKS.findall(text))


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string literal with its line; what an f-string fills in is a word."""
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
            yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else _FILLED_IN for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def problem(quoted: Quoted) -> str:
    """Why the command line has no such command; empty: it has. `a|b` stands for each of them."""
    _, *words = _words(quoted.text)
    return _problem(_root(), words, typed=quoted.typed)


def paths(text: str) -> list[tuple[str, ...]]:
    """The commands that a quoted text names, as their words below `tanist`; `a|b` stands for each of them."""
    found: list[tuple[str, ...]] = [()]
    command: Any = _root()
    for word in _words(text)[1:]:
        inside = getattr(command, "commands", None)
        names = word.split("|")
        if inside is None or any(name not in inside for name in names):
            break
        found = [(*path, name) for path in found for name in names]
        command = inside[names[0]]
    return found


@cache
def _root() -> Any:
    root: Any = typer.main.get_command(app)
    for name in TESTKIT:
        root.load(name)
    return root


def _words(text: str) -> list[str]:
    command = _ENDS_A_COMMAND.split(text)[0]
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    bare = [word.strip("[]()…,").removesuffix("...") for word in words]
    return [word for word in bare if word]


def _problem(command: Any, words: list[str], *, typed: bool) -> str:
    inside = getattr(command, "commands", None)
    if inside is None:
        return _of_arguments(command, words, typed=typed)
    if not words or words[0].startswith("-"):
        return _of_options(command, words)
    first, *rest = words
    names = first.split("|")
    if _FILLED_IN in names:
        return ""
    if missing := [name for name in names if name not in inside]:
        return f"there is no command {missing[0]!r}"
    if len(names) > 1:
        found = [_of_options(inside[name], rest) for name in names]
        return next(filter(None, found), "")
    return _problem(inside[first], rest, typed=typed)


def _of_options(command: Any, words: list[str]) -> str:
    known = options_of(command)
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in known]
    return f"there is no option {unknown[0]}" if unknown else ""


def options_of(command: Any) -> frozenset[str]:
    """The options of a command, and what every command has."""
    own = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    return frozenset({*own, "--help", "-h"})


def every_option() -> frozenset[str]:
    todo: list[Any] = [_root()]
    found: set[str] = set()
    while todo:
        command = todo.pop()
        found |= options_of(command)
        todo += getattr(command, "commands", {}).values()
    return frozenset(found)


def every_command() -> frozenset[tuple[str, ...]]:
    """The commands of the product, as their words below `tanist`."""
    todo: list[tuple[tuple[str, ...], Any]] = [((), _root())]
    found: set[tuple[str, ...]] = set()
    while todo:
        path, command = todo.pop()
        inside = getattr(command, "commands", None)
        if inside is None:
            found.add(path)
        else:
            todo += [((*path, name), each) for name, each in inside.items() if (*path, name)[0] not in TESTKIT]
    return frozenset(found)


def takes_a_mirror(path: tuple[str, ...]) -> bool:
    """Whether the command line understands the command with the name of a mirror and nothing else."""
    command: Any = _root()
    for word in path:
        command = command.commands[word]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    return bool(arguments) and arguments[0].name == "name" and not _of_arguments(command, ["dr"], typed=True)


def _of_arguments(command: Any, words: list[str], *, typed: bool) -> str:
    if wrong := _of_options(command, words):
        return wrong
    named_only = not typed and (not words or words[0].startswith("-"))
    if named_only or "--help" in words:
        return ""
    try:
        command.make_context(command.name, list(words))
    except typer.TyperException as refused:
        why = str(refused.format_message())
        return "" if _is_placeholder(why, words) else why
    return ""


def _is_placeholder(why: str, words: list[str]) -> bool:
    """Whether only a value is refused that readers replace, as in `--until STEP`."""
    refused = _REFUSED_VALUE.match(why)
    return refused is not None and refused[1] in words and words[words.index(refused[1]) + 1].isupper()
