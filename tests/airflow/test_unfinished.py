"""What a run of the DAG does with a failover that another one has left, and with what was approved for another one."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tests.airflow.conftest import Answering
from tests.airflow.mirrors import ROUTE, conf, connections, dag, mirror, mirrors, nothing_was_done, runs, untouched
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from tests.airflow.conftest import House
    from tests.kafka.failover.conftest import Pair

__all__ = ["connections", "dag", "mirror", "mirrors", "untouched"]  # fixtures

pytestmark = pytest.mark.filterwarnings("default")
LIFTED_SECONDS = 30.0
"""A worker settles what is owed every few seconds."""


@pytest.fixture(autouse=True)
def watched_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """That an unfinished failover is watched is not tested here."""
    monkeypatch.setattr("tanist.usecases.failover.unfinished_runs.WATCH_SECONDS", 1.0)


def states(pair: Pair, mirror: str) -> list[tuple[str, str]]:
    """Plan and status of every failover on record."""
    return [(run["value"]["plan"], run["value"]["status"]) for run in runs(pair, mirror)]


def fences(pair: Pair, mirror: str) -> list[str]:
    """The status on record of every source fence."""
    (found,) = json.loads(pair.tanist("state", "dump", "--key", f"fence/{mirror}", "--json").out)["items"]
    return [each["status"] for each in found["value"]["topics"]]


def stopping(dag: DAG, task: str, how: type[Exception]) -> None:
    """Somebody stops the run, or skips the task, before `task` begins."""

    def stopped(_name: str) -> None:
        raise how("by hand")

    vars(dag.get_task(task))["python_callable"] = stopped


# ── what is unfinished is not what is asked for ───────────────────────────────────────────────────────────────────


@pytest.mark.long
def test_a_trigger_for_one_topic_does_not_promote_another_by_its_old_approval(
    house: House, dag: DAG, pair: Pair, untouched: str
) -> None:
    """Topic j1 approved and stopped, j2 asked for: j1 was promoted, and j2 never touched."""
    name, one, other = f"{untouched}-of-two", f"{untouched}-1", f"{untouched}-2"
    pair.mirrors({name: [one, other]})
    plan = pair.approved(name, "--topic", one)
    assert pair.killed("nowhere", name, plan, "hold") == 0
    ran = house.run(dag, conf(name, topics=[other]))
    assert f"ANOTHER_FAILOVER_UNFINISHED: plan {plan}" in ran.why("open_run")
    assert f"its topics is {one}, requested is {other}" in ran.why("open_run")
    assert "`unfinished: abort`" in ran.why("open_run")
    assert ran.report["verdict"].startswith("NOT STARTED: nothing was changed")
    assert states(pair, name) == [(plan, "RUNNING")]
    by_hand = house.run(dag, conf(name, topics=[other]), by_hand="open_run|undo|observe|approve")
    assert f"ANOTHER_FAILOVER_UNFINISHED: plan {plan}" in by_hand.why("plan")
    vars(dag.get_task("plan"))["python_callable"] = lambda: {"plan": plan, "page": ""}
    forged = house.run(dag, conf(name, topics=[other]), by_hand="open_run|undo|observe|approve")
    assert f"ANOTHER_FAILOVER_UNFINISHED: plan {plan}" in forged.why("hold")
    assert states(pair, name) == [(plan, "RUNNING")]
    assert pair.east.writes(one, range(2)), "no step after `hold` was done"


@pytest.mark.long  # every `make test` undoes an unfinished one; what is new here is a fence that a worker lifts
def test_a_planned_failover_whose_source_died_goes_over_to_an_unplanned_one(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was adopted whatever was asked for: nobody was asked, it failed again, and no DAG could undo it.

    A worker reaches the source again and lifts the fence that is owed, while somebody is asked: the yes was void then.
    An unplanned plan says nothing of that fence, because it needs one.
    """
    planned = pair.approved(mirror)
    assert pair.killed("nowhere", mirror, planned, "fence") == 0
    gone = {"bootstrap.servers": "127.0.0.1:1", "tanist.allow_small_state": True}
    monkeypatch.setenv("AIRFLOW_CONN_EAST", json.dumps({"conn_type": "kafka", "extra": gone}))
    wanted = conf(mirror, mode="unplanned", budget=1)
    refused = house.run(dag, wanted)
    assert "its mode is planned, requested is unplanned" in refused.why("open_run")
    assert states(pair, mirror) == [(planned, "RUNNING")]
    worker = pair.worker()

    def lifted(asked: dict[str, Any]) -> None:
        assert "SOURCE_FENCED" not in asked["body"]
        worker.send(signal.SIGCONT)
        until(lambda: fences(pair, mirror) == ["lifted"], LIFTED_SECONDS)

    person = Answering(house.client, "op", first=lifted)
    worker.send(signal.SIGSTOP)
    try:
        ran = house.run(dag, wanted | {"unfinished": "abort"}, person)
    finally:
        worker.send(signal.SIGCONT)
    assert person.codes == [200], "somebody was asked anew"
    assert (ran.state, ran.report["verdict"]) == ("success", "DONE"), (ran.tasks, ran.report)
    assert ran.left("undo", "return_value") == {"undone": planned}
    unplanned = ran.report["plan_hash"]
    assert unplanned != planned
    assert sorted(states(pair, mirror)) == sorted([(planned, "ABORTED"), (unplanned, "DONE")])
    assert pair.west.writes(mirror, range(2))


def test_an_unfinished_failover_is_undone_and_nothing_else_where_only_that_is_asked_for(
    house: House, dag: DAG, pair: Pair, mirror: str
) -> None:
    """Also one that is not what the other parameters say. A second trigger finds nothing to undo, and says so."""
    plan = pair.approved(mirror)
    assert pair.killed("nowhere", mirror, plan, "fence") == 0
    assert not pair.east.writes(mirror, range(2)), "it is fenced"
    wanted = conf(mirror, mode="unplanned", unfinished="abort-only")
    ran = house.run(dag, wanted)
    assert ran.state == "success", (ran.tasks, ran.report)
    assert ran.report["verdict"].startswith("UNDONE, as asked: aborted by ")
    assert not {name for name in ("observe", "plan", "approve", *ROUTE) if ran.tasks[name] == "success"}
    assert pair.east.writes(mirror, range(2))
    again = house.run(dag, wanted)
    assert again.state == "failed"
    assert "NOTHING_TO_ABORT" in again.why("open_run")


def test_an_undo_that_comes_late_undoes_no_other_failover(house: House, dag: DAG, pair: Pair, mirror: str) -> None:
    """Frozen, or cleared: what was unfinished when its run was opened was undone by somebody, and another one began."""
    first = pair.approved(mirror)
    assert pair.killed("nowhere", mirror, first, "hold") == 0
    second: list[str] = []
    undo = vars(dag.get_task("undo"))["python_callable"]

    def late() -> dict[str, Any]:
        pair.tanist("failover", "abort", mirror)
        second.append(pair.approved(mirror))
        assert pair.killed("nowhere", mirror, second[0], "hold") == 0
        return dict(undo())

    vars(dag.get_task("undo"))["python_callable"] = late
    ran = house.run(dag, conf(mirror, unfinished="abort"))
    assert ran.tasks["undo"] == "success"
    assert f"RUN_UNDER_WAY: plan {second[0]}" in ran.why("plan")
    assert states(pair, mirror) == [(second[0], "RUNNING")]
    assert ran.state == "failed"


def test_past_the_point_of_no_return_nothing_is_undone_and_the_way_on_is_named(
    house: House, dag: DAG, pair: Pair, mirror: str
) -> None:
    """What is unfinished is finished first, by asking for just that; the run of somebody who skipped a step is red."""
    plan = pair.approved(mirror)
    assert pair.killed("after:seal", mirror, plan) == -9
    refused = house.run(dag, conf(mirror, unfinished="abort"))
    assert "PAST_POINT_OF_NO_RETURN" in refused.why("open_run")
    other = house.run(dag, conf(mirror, mode="unplanned"))
    assert "FAILOVER_MUST_BE_FINISHED" in other.why("open_run")
    stopping(dag, "open", AirflowSkipException)
    ran = house.run(dag, conf(mirror))
    assert (ran.tasks["canary"], ran.tasks["open"], ran.tasks["movers"]) == (
        "success",
        "skipped",
        "skipped",
    ), json.dumps(ran.report["failed"])
    assert (ran.tasks["report"], ran.state) == ("failed", "failed")
    assert ran.report["verdict"].startswith("UNFINISHED past the point of no return")
    assert states(pair, mirror) == [(plan, "RUNNING")]


# ── what was approved for another run ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.long  # what takes an approval back has two quicker tests below
@pytest.mark.parametrize("report", ["", "report"], ids=["reported", "its report marked by hand"])
def test_a_yes_does_not_outlive_its_run_and_a_later_no(
    house: House, dag: DAG, pair: Pair, untouched: str, report: str
) -> None:
    """Stopped before it began, then a new run answered with Reject, then one whose gate was marked by hand: DONE.

    A report also withdraws the approval; where it was marked by hand nothing else is in the way.
    """
    stopping(dag, "hold", AirflowFailException)
    stopped = house.run(dag, conf(untouched), Answering(house.client, "op"), by_hand=report)
    assert (stopped.tasks["approve"], stopped.tasks["fence"]) == ("success", "upstream_failed")
    dag = house.dag("mirror_failover")
    no = house.run(dag, conf(untouched), Answering(house.client, "op", option="Reject"))
    assert "op answered Reject" in no.why("approve")
    ran = house.run(dag, conf(untouched), by_hand="approve")
    assert "NOT_APPROVED: approval" in ran.why("hold")
    nothing_was_done(pair, untouched, ran)


@pytest.mark.long
def test_a_no_takes_back_what_was_approved_on_the_command_line(house: House, dag: DAG, pair: Pair, mirror: str) -> None:
    plan = pair.approved(mirror)
    no = house.run(dag, conf(mirror), Answering(house.client, "op", option="Reject"))
    assert "op answered Reject" in no.why("approve")
    refused = pair.tanist("failover", "run", mirror, "--plan", plan, expected=1)
    assert "was withdrawn: op answered Reject" in refused.err
    assert pair.east.writes(mirror, range(2))


@pytest.mark.long
def test_a_gate_marked_successful_by_hand_uses_no_approval_of_the_command_line(
    house: House, dag: DAG, pair: Pair, mirror: str
) -> None:
    """It was given to a command, and nobody has seen this run."""
    pair.approved(mirror)
    ran = house.run(dag, conf(mirror), by_hand="approve")
    assert "cannot be used here: it answers the request command/" in ran.why("hold")
    nothing_was_done(pair, mirror, ran)
