"""Status, page, plan and gate say the same of ten thousand mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode, Readiness, Verdict
from tanist.domain.failover.forecast import forecast
from tanist.domain.failover.health import judged
from tanist.domain.failover.limitations import make_plan, planned_intent
from tanist.usecases.failover.items import plan_item
from tanist.usecases.failover.planning import PlanBlocked, Planned, must_not_be_blocked
from tanist.usecases.failover.route import STEP_IDS
from tanist.usecases.items import reasons, status_item
from tests.unit.domain.facts_drawn import drawn, intents

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts

INTENTS = intents()
MAY_BE_APPROVED = {Readiness.GO, Readiness.ACCEPT}


def planned(facts: Facts, mode: Mode) -> Planned:
    """As `tanist failover plan` makes it: all topics, the loss that is forecast."""
    plan = make_plan(planned_intent(INTENTS[mode], facts, None), facts, STEP_IDS)
    return Planned(plan=plan, facts=facts, forecast=forecast(plan.intent, facts), left=(), destination="west")


def approvable(plan: Planned) -> bool:
    """What the gate, and `tanist failover approve`, ask."""
    try:
        must_not_be_blocked(plan)
    except PlanBlocked:
        return False
    return True


def test_drawn_facts_have_one_answer_each() -> None:
    """Healthy: GO, and the plan was BLOCKED; a partition PAUSED: NO-GO, and the plan was not. Two judges they were."""
    words = set()
    for seed in range(3_000):
        facts = drawn(seed)
        status = judged(INTENTS, facts)
        shown = status_item(status)
        for mode in Mode:
            plan = planned(facts, mode)
            item = plan_item(plan)
            assert (shown[mode], shown["limitations"][mode]) == (item["verdict"], item["limitations"]), seed
            assert {each["name"] for each in reasons(shown, mode)} == {each["name"] for each in item["limitations"]}
            assert approvable(plan) is (shown[mode] in MAY_BE_APPROVED), seed
            words.add((mode, shown[mode]))
        if any(check.verdict is not Verdict.PASS for check in status.checks):
            assert any(status.limitations.values()), seed
    assert len(words) == 2 * len(Readiness), "every word of both kinds was drawn"


def test_drawing_again_draws_the_same() -> None:
    """A seed that fails can be looked at."""
    assert drawn(77) == drawn(77)
