"""A planned failover whose last step reverses the mirror: what the plan says, and whose approval it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.acl_entries import ANYBODY, AclEntry
from tanist.domain.checks import Mode
from tanist.domain.errors import Misconfigured
from tanist.domain.failback.reversal import MIRROR_TOPIC_WRITABLE
from tanist.domain.failover.plan import ApprovedPlan
from tanist.usecases.failover import planning, unfinished_runs
from tanist.usecases.failover.items import plan_item
from tanist.usecases.failover.planning import FailoverRequest, Planned
from tests.unit.usecases.failover.in_memory import TOPICS, FailoverWorld

WANTED = FailoverRequest(reverse=True)


def planned(world: FailoverWorld, request: FailoverRequest = WANTED) -> Planned:
    return planning.plan(request, world.clusters(), world.command())


def test_the_reversal_is_in_the_plan_and_its_hash() -> None:
    world = FailoverWorld()
    found, without = planned(world), world.plan()
    assert found.plan.hash != without.plan.hash
    assert found.plan.limitations == without.plan.limitations
    assert plan_item(found)["steps"][-1]["id"] == "reverse"
    assert "reverse" not in {each["id"] for each in plan_item(without)["steps"]}
    assert "reverse" not in without.plan.canonical_plan, "the plans of a failover without it keep their hash"
    assert ApprovedPlan.read(found.plan.canonical_plan).intent == found.plan.intent


@pytest.mark.parametrize("authorizer", [True, False])
def test_who_could_write_to_the_old_source_afterwards_is_accepted_topic_by_topic(authorizer: bool) -> None:
    world = FailoverWorld(authorizer=authorizer)
    world.east.rules = {"orders": (AclEntry(ANYBODY, "*", allowed=True),)} if authorizer else {}
    (named,) = (each for each in planned(world).plan.limitations if each.name == MIRROR_TOPIC_WRITABLE)
    assert set(named.about) == ({"orders"} if authorizer else set(TOPICS))


def test_super_users_of_any_broker_and_topics_without_acls_are_accepted_topic_by_topic() -> None:
    """A broker reports that its file has them, and hides who they are."""
    world = FailoverWorld()
    world.east.rules = {"orders": (AclEntry("User:app", "*", allowed=True),)}
    world.east.files = {2: frozenset({"super.users"})}
    (named,) = (each for each in planned(world).plan.limitations if each.name == MIRROR_TOPIC_WRITABLE)
    assert set(named.about) == set(TOPICS)
    assert "super.users is set on broker 2" in named.detail
    world.east.files = {1: frozenset({"allow.everyone.if.no.acl.found"})}
    (named,) = (each for each in planned(world).plan.limitations if each.name == MIRROR_TOPIC_WRITABLE)
    assert set(named.about) == set(TOPICS) - {"orders"}


def test_it_needs_a_planned_failover_of_all_topics() -> None:
    world = FailoverWorld()
    with pytest.raises(Misconfigured, match="is for planned failovers"):
        planned(world, replace(WANTED, mode=Mode.UNPLANNED))
    with pytest.raises(Misconfigured, match="payments would stay"):
        planned(world, replace(WANTED, include=("orders",)))


def test_an_unfinished_failover_is_not_continued_by_a_request_for_another_end() -> None:
    intent = planned(FailoverWorld()).plan.intent
    assert not unfinished_runs.differences(intent, WANTED, TOPICS)
    (found,) = unfinished_runs.differences(intent, replace(WANTED, reverse=False), TOPICS)
    assert found == "its reversal afterwards is True, requested is False"
