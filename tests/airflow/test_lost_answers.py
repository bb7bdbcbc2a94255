"""An answer that Airflow loses: the gate is tried again, looks in Kafka, and asks only if there is nothing.

A task that fails with an error of nobody's leaves behind what a killed one does, and what one leaves behind that the
scheduler gave up: another try. That the scheduler does so is in `whole/test_lost_answer.py`.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist.airflow import gate
from tanist.airflow.gate import TWICE, PlanGate
from tanist.airflow.params import request_of
from tanist.domain.acls import AclBinding
from tanist.domain.approval.entries import APPROVALS_TOPIC, ApprovalRequest
from tanist.domain.names import MirrorName
from tanist.kafka.protocol.stored import encode_approval
from tanist.usecases import approvals
from tanist.usecases.failover import planning
from tests.airflow.conftest import Answering, open_questions, respond
from tests.airflow.mirrors import ROUTE, conf, connections, dag, mirror, mirrors, nothing_was_done, runs
from tests.kafka.failover.conftest import ALLOW, LITERAL, TOPIC, WRITE, give, take

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import DAG, Context

    from tests.airflow.conftest import House, Ran
    from tests.kafka.failover.conftest import Pair

__all__ = ["connections", "dag", "mirror", "mirrors"]

pytestmark = pytest.mark.filterwarnings("default")
GATE_ONLY: Final = "|".join((*ROUTE, "reverse"))


@dataclass
class Patient(Answering):
    """Answers each time that the gate asks: with one of `options` after the other, the last one from then on."""

    options: tuple[str, ...] = ("Approve",)
    between: Callable[[], object] = lambda: None
    questions: list[str] = field(default_factory=list)

    def answer(self, headers: dict[str, str]) -> None:
        while not self.ended.wait(0.2):
            for asked in open_questions(self.client, headers):
                self.questions.append(asked["body"])
                option = self.options[min(len(self.questions), len(self.options)) - 1]
                self.codes.append(respond(self.client, headers, asked, option))
                if len(self.questions) == 1:
                    self.between()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process of these tests lives on for longer than 4 s after it was given up."""
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "1")
    monkeypatch.setenv("AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT", "0")
    monkeypatch.setattr(gate, "_KILL_SECONDS", 0.0)


def killed_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool) -> None:
    """The process dies at the first call of a function: before it, or after it."""
    real, calls = getattr(owner, name), list[str]()

    def dying(*given: Any, **named: Any) -> Any:
        calls.append(name)
        first = len(calls) == 1
        found = real(*given, **named) if after or not first else None
        if first:
            raise RuntimeError(f"killed at {name}")
        return found

    monkeypatch.setattr(owner, name, dying)


def stored_approvals(pair: Pair, name: str) -> list[dict[str, Any]]:
    """What stands in the approvers' topic of this mirror, withdrawals too."""
    rows = [json.loads(value or b"") for _, _, value in pair.west.read(APPROVALS_TOPIC, 1)]
    return [row for row in rows if row["mirror"] == name]


def plan_of(ran: Ran) -> str:
    assert ran.tasks["approve"] == "success", ran.why("approve")
    return str(ran.left("approve", "return_value")["plan"])


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        pytest.param(PlanGate, "execute", False, marks=pytest.mark.long),
        pytest.param(PlanGate, "_put_question", False, marks=pytest.mark.long),
        pytest.param(PlanGate, "_put_question", True, marks=pytest.mark.long),
        pytest.param(PlanGate, "approver", False, marks=pytest.mark.long),
        (planning, "approve", False),
    ],
    ids=["at its begin", "before it asks", "when it has asked", "when it is answered", "before it approves"],
)
def test_a_gate_that_is_killed_before_it_approves_asks_the_first_question_again(  # noqa: PLR0917, PLR0913
    house: House, dag: DAG, mirror: str, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, after: bool
) -> None:
    """It failed "without an error message" and no step ran, although somebody had approved."""
    killed_once(monkeypatch, owner, name, after=after)
    person = Patient(house.client, "op")
    ran = house.run(dag, conf(mirror), person, by_hand=GATE_ONLY)
    plan = plan_of(ran)
    assert len(set(person.questions)) == 1
    assert len(person.questions) == (2 if name in {"approver", "approve"} else 1)
    assert f"Plan `{plan}`" in person.questions[0]
    assert TWICE in person.questions[0]


@pytest.mark.long
def test_a_failover_whose_first_answer_was_lost_is_done(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_once(monkeypatch, PlanGate, "approver", after=False)
    person = Patient(house.client, "op")
    ran = house.run(dag, conf(mirror), person)
    assert (ran.state, ran.report["verdict"], person.codes) == ("success", "DONE", [200, 200])
    assert [run["value"]["status"] for run in runs(pair, mirror)] == ["DONE"]


def test_an_approval_that_was_written_is_enough_though_its_process_was_killed(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authority is in Kafka: nobody is asked twice for what stands there."""
    killed_once(monkeypatch, planning, "approve", after=True)
    person = Patient(house.client, "op")
    ran = house.run(dag, conf(mirror), person, by_hand=GATE_ONLY)
    assert len(person.questions) == 1
    (approval, *withdrawn) = stored_approvals(pair, mirror)
    assert ran.left("approve", "return_value")["plan"] == approval["plan"]
    assert all("withdrawn" in each for each in withdrawn), "by the report: no step was run"


@pytest.mark.long
def test_an_approval_that_a_process_writes_after_it_was_given_up_is_waited_for(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler gives up a task that runs; its process hears of that with its next heartbeat only."""
    timers: list[threading.Timer] = []

    def given_up(_gate: PlanGate, context: Context, _event: object, shown: dict[str, str]) -> None:
        signed = ApprovalRequest(
            mirror=MirrorName(mirror),
            plan=shown["plan"],
            plan_json=shown["words"],
            request=request_of(context),
            reason="late",
            valid_for_ms=60_000,
        )

        def late() -> None:
            producer = Producer(pair.west.client("approver"))
            producer.produce(APPROVALS_TOPIC, encode_approval(signed, "op via Airflow (User:approver)"), partition=0)
            producer.flush()

        timers.append(threading.Timer(8.0, late))  # the next try begins after 5 s
        timers[0].start()
        raise RuntimeError("given up")

    monkeypatch.setattr(PlanGate, "approver", given_up)
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "5")
    person = Patient(house.client, "op")
    ran = house.run(dag, conf(mirror), person, by_hand=GATE_ONLY)
    assert len(person.questions) == len(timers) == 1
    assert ran.left("approve", "return_value")["approver"] == "op via Airflow (User:approver)"


@pytest.mark.long  # a lost yes is asked for again above
def test_a_no_that_was_lost_is_asked_for_again(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_once(monkeypatch, PlanGate, "approver", after=False)
    person = Patient(house.client, "op", options=("Reject",))
    ran = house.run(dag, conf(mirror), person)
    assert len(person.questions) == 2
    assert "op answered Reject" in ran.why("approve")
    nothing_was_done(pair, mirror, ran)


def test_a_no_that_was_written_ends_its_run_for_good(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's yes to the question that was asked again counted."""
    killed_once(monkeypatch, approvals, "withdraw", after=True)
    person = Patient(house.client, "op", options=("Reject", "Approve"))
    ran = house.run(dag, conf(mirror), person)
    assert len(person.questions) == 1
    assert "an approver has answered before: op answered Reject" in ran.why("approve")
    nothing_was_done(pair, mirror, ran)


@pytest.mark.long
def test_a_no_of_an_earlier_run_does_not_end_a_later_one_of_the_same_plan(
    house: House, dag: DAG, pair: Pair, mirror: str
) -> None:
    no = Patient(house.client, "op", options=("Reject",))
    first = house.run(dag, conf(mirror), no)
    assert first.tasks["approve"] == "failed"
    yes = Patient(house.client, "op")
    second = house.run(dag, conf(mirror), yes)
    assert yes.questions == no.questions, "the same plan"
    assert second.report["verdict"] == "DONE"
    assert pair.west.writes(mirror, range(2))


@pytest.mark.long  # tests/airflow/test_gate_answers.py
def test_a_question_that_does_not_cover_what_is_so_now_is_not_asked_again(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_once(monkeypatch, PlanGate, "approver", after=False)

    def worse() -> None:
        pair.tanist("mirrors", "pause", mirror, "--topic", mirror, "--yes")
        pair.tanist("mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "200s")

    person = Patient(house.client, "op", between=worse)
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "3")
    ran = house.run(dag, conf(mirror), person)
    assert len(person.questions) == 1
    assert "NOT_APPROVED: the first answer was lost, and " in ran.why("approve")
    assert "trigger the failover again" in ran.why("approve")
    nothing_was_done(pair, mirror, ran)


@pytest.mark.long
def test_the_first_question_is_asked_again_though_less_speaks_against_the_plan_by_now(
    house: House, dag: DAG, pair: Pair, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow shows the first question for ever, so no other plan may be approved by its answer."""
    killed_once(monkeypatch, PlanGate, "approver", after=False)
    eve = AclBinding(TOPIC, mirror, LITERAL, "User:eve", "*", WRITE, ALLOW)
    give(pair.west.cluster, eve)
    person = Patient(house.client, "op", between=lambda: take(pair.west.cluster, eve))
    ran = house.run(dag, conf(mirror), person, by_hand=GATE_ONLY)
    plan = plan_of(ran)
    assert len(person.questions) == 2
    assert len(set(person.questions)) == 1
    assert f"Plan `{plan}`" in person.questions[0]
    assert "OTHERS_MAY_WRITE" in person.questions[0]
    assert pair.tanist("failover", "plan", mirror, "--json").item["plan_hash"] != plan
