"""People read, sleep and wait: whatever time passes over a dead source, its failover is the one that was approved.

`tests/unit/domain/test_dead_source.py` has the same of drawn facts. Here they come from what is stored, through
observer, gate and steps, while the destination ages: what expires there is made again by the run.
"""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain.approval.entries import LONGEST_MS, NotPermitted
from tanist.domain.checks import Mode
from tanist.domain.failover.limitations import make_plan
from tanist.domain.failover.objections import news
from tanist.domain.failover.plan import ApprovedPlan, past_return
from tanist.domain.logins import NOT_KNOWN_MS
from tanist.domain.names import EpochMs
from tanist.domain.records import STATE_TOPIC, RunStatus, WorkerAlive
from tanist.domain.states import MirrorState
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failover import abort, planning
from tanist.usecases.failover.abort import NothingToAbort
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.route import STEP_IDS
from tests.builders import DR, a_worker
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld
from tests.unit.usecases.failover.runs import assert_promoted, lose_source

if TYPE_CHECKING:
    from tanist.domain.approval.entries import Approval
    from tanist.domain.approval.words import PlanHash
    from tanist.domain.failover.plan import Plan

DAY = 24 * 3600
SEEDS = range(16)


def lost(luck: Random) -> FailoverWorld:
    """The source is dead, after any past: fences of an earlier failover in any state, writers, paused partitions."""
    world = FailoverWorld(authorizer=luck.random() < 0.7)
    past = luck.choice(("", "fence", "drain"))
    if past:
        world.run(world.approve().plan, until=past)
        world.east.dead = luck.random() < 0.7
        abort.abort(world.clusters(), world.tools(), world.command())
    if luck.random() < 0.3:
        world.west.deny.add(("orders", "User:eve"))
    if luck.random() < 0.3:
        world.observe(MirrorState.PAUSED, PARTITIONS[0])
    if luck.random() < 0.3:
        world.worker.append([_nameless(world)], world.soon())
    if luck.random() < 0.7:
        world.east.dead = False
        lose_source(world)
    world.copying, world.east.dead = luck.random() < 0.5, True
    return world


def _nameless(world: FailoverWorld) -> WorkerAlive:
    """It has just started, and ends before it knows its login."""
    now = world.clock.now()
    return a_worker("late", started_at=now, at=now)


def wait(world: FailoverWorld, luck: Random) -> None:
    """0 s to 7 days. What leaders and coordinators of the destination remember of producers expires meanwhile."""
    seconds = luck.choice((0, 1, 31, 600, luck.randrange(DAY), luck.randrange(7 * DAY), 7 * DAY))
    world.clock.jump(seconds)
    if seconds >= DAY:
        world.west.epochs.clear()
    if seconds >= 7 * DAY:
        world.west.operators.clear()
    world.tick()


def planned(world: FailoverWorld, request: FailoverRequest) -> Plan:
    """The plan, as it is kept, once no login of a worker is waited for."""
    found = planning.plan_and_keep(request, world.clusters("operator"), world.command())
    if not found.blocked:
        return found.plan
    assert {each.name for each in found.plan.limitations if each.blocks} == {"MIRROR_LOGIN_UNKNOWN"}
    world.clock.jump(NOT_KNOWN_MS / 1000)
    return planned(world, request)


def approved(world: FailoverWorld, plan: PlanHash) -> Approval:
    terms = ApprovalTerms.of("drill", LONGEST_MS / 1000)
    return planning.approve_typed(plan, {}, world.clusters(), world.command(), terms=terms)


def must_be_as_approved(world: FailoverWorld, plan: Plan) -> None:
    """What the run sees makes the same plan, and holds nothing that was not accepted."""
    observer = Observer(clusters=world.clusters(), context=world.command())
    facts = observer.look_for(plan.intent, plan.hash)
    if not past_return(facts):
        assert make_plan(plan.intent, facts, STEP_IDS).hash == plan.hash
    assert not news(ApprovedPlan.read(plan.canonical_plan), facts)


def refused(world: FailoverWorld, plan: PlanHash, until: str) -> list[str]:
    """Why the run does not do the step `until`; empty: it has done it."""
    try:
        world.run(plan, until=until)
    except NotPermitted as why:
        return re.findall(r"(?:^|; )([A-Z_]+): ", why.reason)
    return []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_failover_ends_by_its_plan_however_long_people_wait_before_each_step(seed: int) -> None:
    luck = Random(seed)
    world = lost(luck)
    attested = luck.choice((None, EpochMs(world.clock.now() + 1_000)))
    request = FailoverRequest(mode=Mode.UNPLANNED, reserve=20, dead_since=attested)
    plan = planned(world, request)
    wait(world, luck)
    assert planned(world, request).hash == plan.hash
    approval = approved(world, plan.hash)
    for step in STEP_IDS:
        wait(world, luck)
        must_be_as_approved(world, plan)
        if why := refused(world, plan.hash, step):
            assert why == ["APPROVAL_EXPIRED"]
            assert world.clock.now() >= approval.expires_at
            with suppress(NothingToAbort):
                abort.abort(world.clusters(), world.tools(), world.command())
            assert planned(world, request).hash == plan.hash, "what was undone makes no other plan"
            approval = approved(world, plan.hash)
            assert not refused(world, plan.hash, step)
    held = world.west.view(STATE_TOPIC).failover(DR, plan.hash)
    assert held is not None
    assert held.status is RunStatus.DONE
    assert not any(world.zombie(at) for at in PARTITIONS), "barriers that leaders forgot were made again"
    if world.authorizer:
        assert_promoted(world)
