"""The failover as a DAG: in this process, on real clusters with access rules, answered through Airflow's own API."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tanist.airflow import failover
from tanist.ports.clock import Deadline
from tests.airflow.conftest import ASKING, Answering, Sweeping, login, respond
from tests.airflow.mirrors import ROUTE, conf, connections, dag, mirror, mirrors, nothing_was_done, runs, untouched

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from tests.airflow.conftest import House
    from tests.kafka.failover.conftest import Pair

__all__ = ["connections", "dag", "mirror", "mirrors", "untouched"]  # fixtures

pytestmark = pytest.mark.filterwarnings("default")

XCOM_BYTES = 16_384
"""What a task returns is a summary: the evidence and Kafka hold the rest."""
VALID_SECONDS = 15
"""Of an approval that is to expire: long enough for four steps on a busy machine."""


def test_an_approved_failover_runs_to_its_end(house: House, dag: DAG, pair: Pair, mirror: str) -> None:
    """Every step by the use cases, the approval in the name of who answered; all of it is in the evidence."""
    person = Answering(house.client, "op")
    ran = house.run(dag, conf(mirror), person)
    assert person.codes == [200]
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert ran.state == "success"
    assert pair.west.writes(mirror, range(2)), "the destination takes over"
    assert not pair.east.writes(mirror, range(2)), "the source is fenced"
    report = ran.report
    assert report["verdict"] == "DONE"
    assert report["approver"] == "op via Airflow (User:approver)"
    assert report["next"][0]["command"].startswith(f"tanist mirrors reverse {mirror} --destination west ")
    evidence = json.loads((Path(report["evidence"]) / "evidence.json").read_text())
    assert evidence["head"]["approval"]["by"] == report["approver"]
    assert ASKING in evidence["head"]["approval"]["reason"]
    assert {"hold", "fence", "seal", "open", "end"} <= {e["step"] for e in evidence["events"] if e["what"] == "done"}
    body = person.asked["body"]
    assert f"`{report['plan_hash']}`" in body
    assert "offsets at risk" in body
    assert all(f"| {step} |" in body for step in ROUTE)
    again = {step: ran.left(step, "return_value")["did_again"] for step in ROUTE}
    assert again == {step: [] for step in ROUTE} | {"seal": ["groups"]}, "each task names the other steps that it did"
    left = {task: ran.keys(task) for task in ran.tasks}
    assert left == {task: ["return_value"] for task in ran.tasks}, "each task leaves one XCom"
    sizes = {task: len(json.dumps(ran.left(task, "return_value"))) for task in ran.tasks}
    assert max(sizes.values()) < XCOM_BYTES, sizes


@pytest.mark.long
def test_a_validation_that_cannot_tell_makes_the_run_red_and_undoes_nothing(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failover, which was done but for its last step, is; clients write; the report has not waited for it."""
    plan = pair.approved(mirror)
    assert pair.killed("nowhere", mirror, plan, ROUTE[-2]) == 0
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    ran = house.run(
        dag, conf(mirror, validate="batches"), by_hand="|".join(("open_run", "undo", "observe", *ROUTE[:-1]))
    )
    assert {task for task, state in ran.tasks.items() if state != "success"} == {"validate"}
    assert ran.state == "failed"
    assert "connection 'spark_default' does not exist" in ran.why("validate")
    assert (ran.report["verdict"], ran.report["failed"]) == ("DONE", {})
    assert dag.get_task("report").upstream_task_ids == {"reverse"}
    assert pair.west.writes(mirror, range(2))


def test_only_approvers_may_answer_and_their_first_no_stands(
    house: House, dag: DAG, pair: Pair, untouched: str
) -> None:
    """Airflow refuses a viewer, an administrator, and an operator who is no approver; the report says who said no."""
    refused: list[int] = []

    def others(asked: dict[str, Any]) -> None:
        users = ("viewer", "admin", "op2")
        refused.extend(respond(house.client, login(house.client, user), asked, "Approve") for user in users)

    person = Answering(house.client, "op", option="Reject", first=others, times=2)
    ran = house.run(dag, conf(untouched), person)
    assert refused == [403, 403, 403]
    assert person.codes == [200, 409]
    assert "op answered Reject" in ran.report["failed"]["approve"]
    nothing_was_done(pair, untouched, ran)


def test_who_asks_does_not_approve(house: House, dag: DAG, pair: Pair, untouched: str) -> None:
    """Four eyes: Airflow takes the answer of an approver, the gate does not take it of the one who triggered."""
    person = Answering(house.client, ASKING)
    ran = house.run(dag, conf(untouched), person)
    assert person.codes == [200]
    assert "another user must approve it" in ran.why("approve")
    nothing_was_done(pair, untouched, ran)


def test_a_gate_marked_successful_by_hand_permits_nothing(house: House, dag: DAG, pair: Pair, untouched: str) -> None:
    """The steps look for an approval in Kafka, and there is none."""
    ran = house.run(dag, conf(untouched), by_hand="^approve$")
    assert "is not approved" in ran.why("hold")
    assert ran.tasks["fence"] == "upstream_failed"
    nothing_was_done(pair, untouched, ran)


def test_nobody_answers(house: House, dag: DAG, pair: Pair, untouched: str) -> None:
    """A gate that nobody answers in time fails, and is not asked again."""
    vars(dag.get_task("approve"))["response_timeout"] = timedelta(seconds=1)
    ran = house.run(dag, conf(untouched), Sweeping(house.client, "admin"))
    assert "no answer within 0:00:01" in ran.why("approve")
    nothing_was_done(pair, untouched, ran)


@pytest.mark.long
def test_a_plan_that_has_changed_since_it_was_shown_is_not_approved(
    house: House, dag: DAG, pair: Pair, mirror: str
) -> None:
    """What the approver saw is not what would be done: the answer is void."""

    def worse(_asked: dict[str, Any]) -> None:
        pair.tanist("mirrors", "pause", mirror, "--topic", mirror, "--yes")
        pair.tanist("mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "200s")

    ran = house.run(dag, conf(mirror), Answering(house.client, "op", first=worse))
    assert "PLAN_BLOCKED: PARTITION_STOPPED_COPYING" in ran.why("approve")
    nothing_was_done(pair, mirror, ran)


@pytest.mark.long
def test_facts_that_got_worse_after_the_approval_void_it(house: House, dag: DAG, pair: Pair, mirror: str) -> None:
    """The first step refuses, whatever Airflow says of the gate."""

    def worse_first(name: str) -> dict[str, Any]:
        pair.tanist("mirrors", "pause", mirror, "--topic", mirror, "--yes")
        pair.tanist("mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "200s")
        return failover.step(name)

    vars(dag.get_task("hold"))["python_callable"] = worse_first
    ran = house.run(dag, conf(mirror), Answering(house.client, "op"))
    assert "NOT_PERMITTED: PARTITION_STOPPED_COPYING" in ran.why("hold")
    nothing_was_done(pair, mirror, ran)


@pytest.mark.long
def test_a_failover_that_began_while_the_gate_asked_is_not_joined(
    house: House, dag: DAG, pair: Pair, mirror: str
) -> None:
    """Single flight: an Approve that comes after somebody else has begun starts nothing, and that one goes on."""
    begun: list[str] = []

    def meanwhile(_asked: dict[str, Any]) -> None:
        begun.append(pair.approved(mirror))
        assert pair.killed("nowhere", mirror, begun[0], "hold") == 0

    person = Answering(house.client, "op", first=meanwhile)
    ran = house.run(dag, conf(mirror), person)
    assert person.codes == [200]
    assert (ran.state, ran.tasks["hold"]) == ("failed", "upstream_failed")
    assert f"RUN_UNDER_WAY: plan {begun[0]}" in ran.why("approve")
    assert [(run["value"]["plan"], run["value"]["status"]) for run in runs(pair, mirror)] == [(begun[0], "RUNNING")]
    assert pair.east.writes(mirror, range(2)), "no step after `hold` was done"


@pytest.mark.long  # test_unfinished.py has one that is finished in every `make test`
def test_an_unfinished_run_past_the_point_of_no_return_is_finished_without_asking(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the barrier, its approval expired, its source gone, nobody left who may approve: it is finished."""
    plan = pair.approved(mirror, valid=f"{VALID_SECONDS}s")
    expired = Deadline(time.monotonic() + VALID_SECONDS)
    assert pair.killed("after:seal", mirror, plan) == -9
    gone = {"bootstrap.servers": "127.0.0.1:1", "tanist.allow_small_state": True}
    monkeypatch.setenv("AIRFLOW_CONN_EAST", json.dumps({"conn_type": "kafka", "extra": gone}))
    monkeypatch.setenv("TANIST_APPROVERS", "")
    # that it watches is not tested here
    monkeypatch.setattr("tanist.usecases.failover.unfinished_runs.WATCH_SECONDS", 1.0)
    threading.Event().wait(expired.left(time.monotonic()))
    ran = house.run(dag, conf(mirror))
    assert ran.state == "success", ran.report
    assert ran.left("approve", "return_value")["asked"] is False
    assert ran.report["verdict"] == "DONE"
    assert ran.report["plan_hash"] == plan
    assert pair.west.writes(mirror, range(2))
    assert [run["value"]["status"] for run in runs(pair, mirror)] == ["DONE"]
