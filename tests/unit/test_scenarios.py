"""The robot that follows `tanist next`, and the page of what it types."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests import robot, scenarios

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLLOWING = (
    "tests/kafka/failover/test_following.py",
    "tests/kafka/groups/test_beside_mm2.py",
    "tests/airflow/test_following.py",
)
RECORDING = {"record": 0, "copied_again": 2}
"""What keeps a journey, and which of its arguments is the scenario."""


def test_the_robot_imports_nothing_of_the_product() -> None:
    """Nor anything else that could know it."""
    tree = ast.parse(Path(robot.__file__).read_text("utf-8"))
    found = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    found |= {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    assert {name.partition(".")[0] for name in found} <= sys.stdlib_module_names


def rows() -> dict[str, int]:
    """The scenarios of the page, with the commands that each took."""
    return {name: int(count) for name, count in re.findall(r"^\| (.+?) \| (\d+) \|", page(), re.MULTILINE)}


def page() -> str:
    return scenarios.PAGE.read_text(encoding="utf-8")


def recorded() -> Iterator[re.Pattern[str]]:
    """The scenarios that tests record, each as what matches its name."""
    for file in FOLLOWING:
        for node in ast.walk(ast.parse((scenarios.ROOT / file).read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RECORDING):
                continue
            match node.args[RECORDING[node.func.id]]:
                case ast.Constant(value=str(name)):
                    yield re.compile(re.escape(name))
                case ast.JoinedStr(values=parts):
                    yield re.compile(
                        "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".+" for p in parts)
                    )
                case ast.Name(id="why"):
                    pass  # of `copied_again`, whose callers say it
                case other:
                    raise AssertionError(ast.unparse(other))


def test_the_page_has_every_scenario_that_is_recorded_and_no_other() -> None:
    """`python -m tests.scenarios` makes it, of those that were run: one that was not, or was renamed, was missing."""
    assert page().startswith(scenarios._HEAD)
    names, known = rows(), list(recorded())
    assert [each.pattern for each in known if not any(each.fullmatch(name) for name in names)] == []
    assert [name for name in names if not any(each.fullmatch(name) for each in known)] == []


def test_a_failover_takes_three_commands_and_the_way_back_at_most_seven() -> None:
    """A new user took fifty, and thirteen."""
    found = rows()
    assert found["a dead source"] == found["five mirrors of a dead source"] == 3
    assert found["a dead source that returns with a tail: the whole way back"] <= 7
