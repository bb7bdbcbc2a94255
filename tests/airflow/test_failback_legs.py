"""The two reversals of a failback and the decision before them, from the parameters of a run. Without any broker."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tanist.airflow import connections, tasks
from tanist.airflow.failback import PARAMS, FailbackParams
from tanist.airflow.failback_decision import DecisionGate, _decided
from tanist.airflow.failover import _advised
from tanist.domain.approval.entries import NotApproved
from tanist.domain.failback.decision import DEFAULT_ACTIONS, TailAction, TailClass
from tanist.domain.moves import MirrorMoved
from tanist.domain.selection import EVERY_TOPIC
from tanist.usecases.approvals import ApprovalTerms, approve
from tanist.usecases.failback.deciding import DECISIONS, plan_decision
from tanist.usecases.failback.replay import ReplayTools, replay
from tanist.usecases.failback.rescue import RescueTools, rescue
from tests.unit.domain.test_pending_reversal import MOVE
from tests.unit.usecases.failover.in_memory import Killed
from tests.unit.usecases.way_back import MemoryRegistry, WayBack

pytestmark = pytest.mark.filterwarnings("default")


def of(**given: object) -> FailbackParams:
    run = SimpleNamespace(dag_id="mirror_failback", run_id="r", start_date="now")
    defaults = {name: param.value for name, param in PARAMS.items()}
    wanted = {"mirror": "dr", "primary": "west", "destination": "east", **given}
    context: Any = {"params": defaults | wanted, "dag_run": run, "dag": SimpleNamespace(params=PARAMS)}
    return FailbackParams.of(context)


def test_the_reversal_after_the_failback_goes_the_other_way_and_takes_back_all_that_has_returned() -> None:
    params = of(exclude=["stays"], recreate=[".*"], accept=["TAIL_UNDECIDED"])
    assert (params.back.home, params.back.to) == ("west", "east") == (params.again.to, params.again.home)
    first, last = params.back.request, params.again.request
    assert (first.exclude, first.recreate, first.accept) == (("stays",), (".*",), ("TAIL_UNDECIDED",))
    assert (last.exclude, last.recreate, last.accept) == ((), (), ())
    assert (first.answers, last.answers) == (
        f"{str(first.answers).rpartition('/')[0]}/reverse",
        f"{first.answers}_again",
    )


def test_a_mirror_that_has_moved_to_where_the_reversal_takes_it_is_reversed() -> None:
    """To a cluster that the run does not name it is not: that is another circle."""

    def moved_to_east(*_: object) -> NoReturn:
        raise MirrorMoved(MOVE, "west")

    registry = SimpleNamespace(connect=lambda name: name, open_mirror=moved_to_east)
    task: Any = SimpleNamespace(registry=registry, context=None)
    assert of().back.clusters(task) is None
    assert of().back.to_reverse(task) is None
    with pytest.raises(MirrorMoved):
        of(destination="north").back.clusters(task)


def at(world: WayBack) -> Any:
    """What a task of a run is given."""
    return SimpleNamespace(registry=MemoryRegistry(world), context=world.command())


def test_nobody_is_asked_about_records_where_none_waits_for_a_decision() -> None:
    """Before the rescue, after the replay, and where it is accepted that nobody decides."""
    world, gate, params = WayBack(), DecisionGate(task_id="approve_decision"), of()
    unasked = {"asked": False}
    assert gate._left_alone(params, at(world)) == unasked
    rescue(world.opened().returned(), EVERY_TOPIC, RescueTools(manifest=lambda _: None), world.command())
    assert gate._left_alone(params, at(world)) is None
    assert gate._left_alone(of(accept=["TAIL_UNDECIDED"]), at(world)) == unasked

    def kill(_point: str) -> None:
        raise Killed

    clusters, terms = world.opened().returned(), ApprovalTerms.of("drill", 60)
    made = plan_decision(clusters, EVERY_TOPIC, params.actions, world.command()).plan
    approve(DECISIONS, made.hash, made, terms, clusters, world.command(), request=params.decision)
    tools = ReplayTools(manifest=lambda _: None)
    with pytest.raises(NotApproved, match="it answers the request"):
        replay(made.hash, clusters, tools, world.command())
    killed = ReplayTools(manifest=lambda _: None, checkpoint=kill)
    with pytest.raises(Killed):
        replay(made.hash, clusters, killed, world.command(), params.decision)
    world.clock.jump(60)
    assert gate._left_alone(params, at(world)) == {"plan": made.hash, "asked": False}
    assert _decided(params, clusters, at(world)) == made.hash
    done = replay(made.hash, clusters, tools, world.command(), params.decision)
    assert sum(each.replayed for each in done.progress) == 1
    assert gate._left_alone(params, at(world)) == unasked
    assert _decided(params, clusters, at(world)) == made.hash, "the answer of this run: nothing is left to do"


def test_without_a_choice_safe_records_are_replayed_and_an_empty_one_keeps_all_in_quarantine() -> None:
    assert of().actions == DEFAULT_ACTIONS
    assert set(of(replay=[]).actions.values()) == {TailAction.DROP}
    assert of(replay=["conflict"]).actions[TailClass.CONFLICT] is TailAction.REPLAY


def test_a_decision_is_carried_out_between_the_rescue_and_the_reversal() -> None:
    dag = runpy.run_path(str(Path(__file__).parents[2] / "dags" / "mirror_failback.py"))["dag"]
    first = [task.task_id for task in dag.topological_sort()][:6]
    assert first == ["survey", "rescue", "approve_decision", "replay", "approve_reversal", "reverse"]


def test_advice_finds_the_mirror_at_the_present_primary_and_fails_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failback that stopped before its reversal said nothing; a bug in the advice made a finished run red."""
    world = WayBack()
    monkeypatch.setattr(tasks, "ClusterRegistry", MemoryRegistry(world))
    monkeypatch.setattr(tasks, "SystemClock", lambda: world.clock)
    monkeypatch.setattr(connections, "settings", lambda: None)
    steps = _advised({"primary": "west", "destination": "east", "mirror": "dr"})
    assert steps[0]["command"] == "tanist failback survey dr --destination west"

    def bug(*_: object) -> NoReturn:
        raise KeyError("x")

    monkeypatch.setattr(tasks, "advise", bug)
    assert tasks.next_of(("west", "dr"), ("east", "dr")) == [[], []]
