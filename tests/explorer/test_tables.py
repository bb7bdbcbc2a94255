"""Each table of rows is run by many people, each of them killed after another row: the same holds after each row."""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.explorer import rows
from tests.explorer.broken_tables import BREAKS, broken_table
from tests.explorer.explore import describe, play, shortest
from tests.explorer.product import RunRow, RunTable
from tests.explorer.rows import points, tables
from tests.explorer.stage import Effect
from tests.explorer.table_story import BEHIND, drawn_rows, relays, seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.explorer.circle import Circle
    from tests.explorer.explore import Played
    from tests.explorer.stage import Order

pytestmark = pytest.mark.timeout(1_200)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def _played(seed: int) -> tuple[Played, Circle]:
    seen: list[Circle] = []
    found = play(drawn_rows(seed), keep=seen.append)
    (circle,) = seen
    return found, circle


def _has_come(circle: Circle, order: Order) -> bool:
    who = (each for each in circle.stage.actors if each.name == order.actor)
    return any(each.seen[order.label] >= order.nth for each in who)


def test_somebody_is_killed_after_each_row_of_each_table_and_no_rule_breaks() -> None:
    """A table that is new in the code is not played by itself: `table_story.WAYS` says how people come to run it."""
    killed, left_behind = set[str](), 0
    for seed in range(1, len(relays()) + 1):
        found, circle = _played(seed)
        if found.violations:
            rule = found.violations[0].rule
            pytest.fail(describe(shortest(found, rule), rule), pytrace=False)
        assert {each.effect for each in found.story.orders} == {Effect.KILL}
        killed |= {each.label for each in found.story.orders if _has_come(circle, each)}
        left_behind += circle.is_behind(BEHIND)
    assert killed == points(tables().values())
    assert left_behind == 1


def test_a_table_that_nobody_plays_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a module that is new in the product: no way leads to its rows, so nobody is killed there."""
    new: Any = ModuleType("tanist.new")
    new.TABLE = RunTable("a new run", (RunRow("begin", "it has begun", print, print), RunRow("end", "", print)), "end")
    monkeypatch.setitem(sys.modules, new.__name__, new)
    monkeypatch.setattr(rows, "PRODUCT", tmp_path)
    (tmp_path / "new.py").write_text("TABLE: Final[RunTable[Any, Any, None]] = RunTable('a new run', (), 'end')\n")
    found = tables.__wrapped__()
    assert points(found.values()) == {
        "row:begin of a new run", "row:undo begin of a new run", "row:end of a new run",
    }  # fmt: skip
    assert not found.keys() & tables().keys()
    (tmp_path / "new.py").write_text("def run(): RunTable[Any, Any, None]('a new run', (), 'end').put_back(1)\n")
    with pytest.raises(LookupError, match=r"tanist\.new makes a table"):
        tables.__wrapped__()


def test_a_story_of_a_table_is_played_again_exactly() -> None:
    """With people who are frozen until all others are done; and the seed alone says who that is."""
    seed = seed_of("a failover", 3) + 3 * len(relays())
    first, again = (play(drawn_rows(seed), traced=True) for _ in range(2))
    assert first.trace == again.trace
    assert drawn_rows(seed) == drawn_rows(seed) != drawn_rows(seed + len(relays()))


@pytest.mark.parametrize("name", BREAKS)
def test_a_story_shows_that_a_table_is_broken(name: str) -> None:
    """Nothing is wrong with that story otherwise: it is one of those that play each row."""
    rule, what, table, nth, _ = BREAKS[name]
    with broken_table(name):
        found = play(drawn_rows(seed_of(table, nth)))
    assert [each for each in found.violations if each.rule == rule and what in each.what], found.violations
