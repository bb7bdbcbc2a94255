"""The model is what real brokers do, and a story would show it if they did not."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.conftest import PROJECT
from tests.explorer.broken import BREAKS, DIRECTED, broken
from tests.explorer.broken_rows import BREAKS as WAY_BACK
from tests.explorer.broken_rows import broken_row
from tests.explorer.circle_story import drawn_circle
from tests.explorer.explore import explore, play
from tests.explorer.mapped_story import drawn_mapped
from tests.explorer.rules import ON_THE_WAY_BACK, RULES
from tests.explorer.story import drawn
from tests.explorer.test_explorer import CIRCLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.explorer.place import Place

ENOUGH: Final = 300
"""So many stories at most until a broken rule is seen."""
OF_NO_CLUSTER: Final = re.compile(
    r"\*|clock\.wait|worker\.copy|sources\..*|(groups|failover|rescue|replay|reverse|withdraw|row):.*"
)
"""Points of a story that ask the model nothing of their own: what they ask has points of its own, or is our clock."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_each_rule_of_the_model_is_a_test_on_a_real_broker() -> None:
    asked = [sys.executable, "-m", "pytest", "tests/contracts", "--collect-only", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=120).stdout
    runs: dict[str, str] = {}
    for line in found.splitlines():
        test, _, over = line.removeprefix("tests/contracts/").partition("[")
        runs[test] = runs.get(test, "") + over
    lacking = {
        each.contract: over for each in RULES for over in ("memory", "kafka") if over not in runs.get(each.contract, "")
    }
    assert not lacking, f"these contract tests do not run over {lacking}"


def test_each_call_of_the_model_in_a_story_rests_on_a_rule() -> None:
    asked: set[str] = set()

    def keep(place: Place) -> None:
        asked.update(*(each.seen for each in place.stage.actors))

    for seed in range(1, 26):
        play(drawn(seed), keep=keep)
    for seed in (6, 10, 17):
        play(drawn_circle(seed), keep=keep)
    for seed in range(1, 10):
        play(drawn_mapped(seed), keep=keep)
    calls = {each.removeprefix("source ") for each in asked if not OF_NO_CLUSTER.fullmatch(each)}
    assert len(calls) > 30
    assert calls - {call for rule in (*RULES, *ON_THE_WAY_BACK) for call in rule.calls} == set()


def test_each_rule_of_the_way_back_names_two_tests_that_exist() -> None:
    for each in (*(rule.real for rule in ON_THE_WAY_BACK), *(rule.model for rule in ON_THE_WAY_BACK)):
        file, _, test = each.partition("::")
        assert f"def {test}(" in (PROJECT / file).read_text(encoding="utf-8"), each


@pytest.mark.parametrize("rule", [each for each in BREAKS if each not in DIRECTED])
def test_a_story_shows_that_a_rule_of_the_model_is_broken(rule: str) -> None:
    with broken(rule):
        assert any(played.violations for played in explore(1, ENOUGH)), f"nobody has noticed within {ENOUGH} stories"


@pytest.mark.parametrize("name", WAY_BACK)
def test_a_story_shows_that_the_way_back_is_broken(name: str) -> None:
    """Nothing is wrong with that story otherwise: `test_no_story_breaks_a_rule` plays the first ones."""
    rule, _, seed = WAY_BACK[name]
    with broken_row(name):
        found = play(drawn_circle(seed))
    assert found.broke(rule), found.violations
    assert seed <= CIRCLES or not play(drawn_circle(seed)).violations


@pytest.mark.parametrize("rule", DIRECTED)
def test_where_no_story_shows_it_a_directed_test_does(rule: str) -> None:
    asked = ["-q", "-p", "no:cacheprovider", DIRECTED[rule]]
    code = f"import pytest; from tests.explorer.broken import broken\nwith broken({rule!r}): pytest.main({asked!r})"
    reported = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert "1 failed" in reported.stdout, reported.stdout + reported.stderr
