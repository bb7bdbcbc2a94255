"""The table of limitations and the judges say the same: a NO-GO stood beside checks that all passed."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Check, Mode, Verdict
from tanist.domain.failover.health import judged
from tanist.domain.limitation_kinds.kind import Effect
from tanist.domain.limitation_kinds.table import KINDS, TABLE
from tests import quoted
from tests.unit.domain.facts_drawn import drawn, intents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.limitation import Limitation
    from tests.quoted import Quoted

PRODUCT = Path(__file__).parents[3] / "include" / "tanist"
READ_FROM_PLANS = {"domain/failback/reversal.py", "domain/failover/objections.py"}
"""These make limitations of names that are stored in a plan, beside those that they declare."""
SELDOM = ("runs", "reserves", "tail_findings", "openings", "fences", "workers", "groups", "losses", "reading")
"""The checks that `judged` is handed: they pass here, if no limitation says otherwise."""


@cache
def declared() -> tuple[tuple[str, str | None], ...]:
    """Each limitation that a module makes: where, and its name; None: one that was stored."""
    return tuple(_declared())


def _declared() -> Iterator[tuple[str, str | None]]:
    for file in PRODUCT.rglob("*.py"):
        where = file.relative_to(PRODUCT).as_posix()
        calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        for call in calls:
            if isinstance(call.func, ast.Name) and call.func.id == "Limitation":
                module = importlib.import_module(f"tanist.{where.removesuffix('.py').replace('/', '.')}")
                try:
                    yield where, eval(ast.unparse(call.args[0]), vars(module))  # noqa: S307  # our own code
                except NameError:
                    yield where, None


def test_every_limitation_has_a_row_and_every_row_is_a_limitation() -> None:
    made = declared()
    assert {name for _, name in made if name} == set(KINDS)
    assert {where for where, name in made if name is None} == READ_FROM_PLANS


def test_each_name_has_one_row_with_words() -> None:
    assert not [name for name, rows in Counter(each.name for each in TABLE).items() if rows > 1]
    for each in TABLE:
        assert each.means, each.name
        assert each.next_step, each.name
        assert each.planned | each.unplanned | each.reversal, f"{each.name} is in no plan"


def of_check(check: str) -> set[str]:
    """The limitations by which `check` does not pass."""
    return {each.name for each in TABLE if check in each.checks}


def effect(found: Limitation) -> Effect:
    return Effect.BLOCKS if found.blocks else Effect.USUAL if found.usual else Effect.ACCEPT


@pytest.mark.parametrize("first", range(0, 2_000, 200))
def test_the_judge_does_what_the_table_says(first: int) -> None:
    """With any facts a limitation is only where it may be, blocks only where it may, and fails a check."""
    passing = tuple(Check(name=each, verdict=Verdict.PASS) for each in SELDOM)
    for facts in map(drawn, range(first, first + 200)):
        status = judged(intents(), facts, passing)
        checks = {each.name: each for each in status.checks}
        for mode, found in status.limitations.items():
            for each in found:
                kind = KINDS[each.name]
                may = kind.planned if mode is Mode.PLANNED else kind.unplanned
                assert effect(each) in may, (mode, each)
                assert each.usual or kind.checks, f"{each.name} is in a status, and no check fails by it"
                for check in () if each.usual else kind.checks:
                    assert checks[check].verdict is not Verdict.PASS, (each, checks[check])


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_each_command_that_a_status_quotes_can_be_typed(first: int) -> None:
    """`tanist status` said `tanist mirrors add` and `tanist failover abort` without the mirror that it was about."""
    quotes: list[Quoted] = []
    for seed in range(first, first + 100):
        status = judged(intents(), replace(drawn(seed), destination="west"))
        said = [(each.name, each.detail) for mode in Mode for each in status.limitations[mode]]
        said += [(each.name, each.reason) for each in status.checks]
        quotes += [replace(each, typed=True) for name, text in said for each in quoted.in_text(name, text)]
    assert len(quotes) > 100
    assert {each.text: why for each in quotes if (why := quoted.problem(each))} == {}
    selecting = {
        each.text for each in quotes if each.text.startswith(("tanist mirrors add ", "tanist mirrors remove "))
    }
    assert {text for text in selecting if " --topic " not in text} == set(), "refused: no topic is selected"
    assert selecting


def test_what_fails_which_check() -> None:
    """Also where facts that are drawn never have it."""
    assert {check: of_check(check) for check in SELDOM} == {
        "runs": {"RUN_UNFINISHED", "PRODUCER_FENCED"},
        "reserves": {"OFFSETS_MAY_BE_REUSED"},
        "tail_findings": {"TAIL_UNDECIDED"},
        "openings": {"MIRROR_CANNOT_BE_SHUT_OUT", "WRITERS_NOT_GRANTED"},
        "fences": {"SOURCE_FENCED", "SOURCE_NOT_FENCED"},
        "workers": {"NO_WORKER", "MIRROR_LOGIN_UNKNOWN"},
        "groups": {"GROUP_POSITIONS_OLD"},
        "losses": {"TOMBSTONES_MAY_BE_MISSING"},
        "reading": {"READING_OLD"},
    }


def test_what_a_reversal_may_have_is_what_its_plan_declares() -> None:
    """Nothing blocks it: what does is an error before there is a plan."""
    made = {name for where, name in declared() if where == "domain/failback/reversal.py" and name}
    accepted = {each.name for each in TABLE if each.reversal is Effect.ACCEPT}
    assert accepted == made
    assert {each.name for each in TABLE if Effect.BLOCKS in each.reversal} == {"APPROVAL_EXPIRED", "CLOCK_BEHIND"}


def test_a_limitation_makes_an_unknown_check_fail_and_its_reason_stays() -> None:
    facts = next(facts for facts in map(drawn, range(100)) if facts.others_running)
    told = Check(name="runs", verdict=Verdict.UNKNOWN, reason="not read")
    (check,) = [each for each in judged(intents(), facts, (told,)).checks if each.name == "runs"]
    assert check.verdict is Verdict.FAIL
    assert check.reason.startswith("not read; ")
    assert "RUN_UNFINISHED" in check.reason


def test_a_check_that_fails_by_itself_keeps_its_reason() -> None:
    facts = next(facts for facts in map(drawn, range(100)) if facts.others_running)
    told = Check(name="runs", verdict=Verdict.FAIL, observed="1 unfinished of 1", reason="plan cafe of nobody")
    assert told in judged(intents(), facts, (told,)).checks


def test_every_check_of_the_table_exists() -> None:
    """That of detached topics only where there are some."""
    present = {each.name for number in range(50) for each in judged(intents(), drawn(number)).checks}
    assert {check for each in TABLE for check in each.checks} <= present | set(SELDOM)
    assert of_check("offset_map") == {"OFFSET_MAP_MISSING"}
