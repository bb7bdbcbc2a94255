"""What counts as a yes, and what a run comes to: decided by functions, without any broker."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.timezone import utcnow
from sqlalchemy import event

from tanist.airflow import validation
from tanist.airflow.connections import four_eyes
from tanist.airflow.gate import RETRIES, NotAnswered, PlanGate, old_process_seconds
from tanist.airflow.params import PARAMS, FailoverParams
from tanist.domain.errors import CouldNotTell, Misconfigured, SourceSilent, Unreachable
from tanist.wiring.registry import ClusterRegistry
from tanist_testkit.sandbox.airflow.rest import AirflowConnection
from tests.airflow.conftest import ROOT, SPARK, environment

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tests.airflow.conftest import House

pytestmark = pytest.mark.filterwarnings("default")

YES: Final = {
    "chosen_options": ["Approve"],
    "params_input": {},
    "responded_at": utcnow(),
    "responded_by_user": {"id": "7", "name": "alice"},
    "timedout": False,
}
WISHED: Final = {name: param.value for name, param in PARAMS.items()} | {"mirror": "dr", "destination": "west"}


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may approve, and clusters that nobody asks for anything: nothing listens there."""
    west = AirflowConnection(
        id="west", type="kafka", extra={"bootstrap.servers": "127.0.0.1:1", "tanist.allow_small_state": True}
    )
    monkeypatch.setenv("TANIST_APPROVERS", "7,8")
    monkeypatch.setenv("TANIST_FOUR_EYES", "on")
    for name, value in environment(west, SPARK).items():
        monkeypatch.setenv(name, value)


def run_of(user: str | None = "bob", *, max_tries: int = RETRIES, clears: int = 0, **params: Any) -> Context:
    """The context of a run that `user` has triggered."""
    found: Any = {
        "dag": SimpleNamespace(params=PARAMS),
        "dag_run": SimpleNamespace(
            dag_id="mirror_failover",
            triggering_user_name=user,
            clear_number=clears,
            run_id="manual__1",
            start_date=utcnow(),
        ),
        "params": WISHED | params,
        "run_id": "manual__1",
        "ti": SimpleNamespace(try_number=1, max_tries=max_tries),
    }
    return found  # type: ignore[no-any-return]  # as much of a context as a gate asks for


def answered(context: Context, **event: Any) -> str:
    return PlanGate(task_id="approve").answered(context, YES | event)


def test_an_approver_who_did_not_ask_may_say_yes() -> None:
    assert answered(run_of()) == "alice"
    assert answered(run_of(), responded_by_user={"id": "8", "name": ""}) == "8"


@pytest.mark.parametrize(
    ("user", "event", "why"),
    [
        ("bob", {"chosen_options": ["Reject"]}, "alice answered Reject"),
        ("bob", {"chosen_options": []}, "alice answered Reject"),
        ("bob", {"timedout": True}, "the answer is not from a user"),
        ("bob", {"responded_by_user": None}, "the answer is not from a user"),
        ("bob", {"responded_by_user": {"id": "9", "name": "eve"}}, r"eve is not an approver \(TANIST_APPROVERS=7,8\)"),
        ("bob", {"responded_by_user": {"id": "9", "name": "7"}}, r"7 is not an approver \(TANIST_APPROVERS=7,8\)"),
        ("alice", {}, "alice requested this run"),
        ("7", {}, "alice requested this run"),
        ("bob", {"error": "", "error_type": "timeout"}, "no answer within 1:00:00"),
        ("bob", {"error": "broken", "error_type": "unknown"}, "the answer cannot be used"),
    ],
    ids=["no", "neither", "default", "nobody", "no approver", "named as one", "own name", "own id", "late", "error"],
)
def test_what_is_no_yes(user: str, event: dict[str, Any], why: str) -> None:
    """Whatever Airflow lets through; and the task fails for good."""
    with pytest.raises(NotAnswered, match=why):
        answered(run_of(user), **event)
    with pytest.raises(AirflowFailException, match=why):
        PlanGate(task_id="approve").execute_complete(run_of(user), YES | event)


def test_a_run_that_nobody_triggered_needs_four_eyes_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule or another DAG has no name that could be held against the approver's."""
    with pytest.raises(Misconfigured, match="the run was not triggered by a user"):
        answered(run_of(None))
    monkeypatch.setenv("TANIST_FOUR_EYES", "off")
    assert answered(run_of(None)) == answered(run_of("alice")) == "alice"


def test_four_eyes_are_on_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert four_eyes() is True
    monkeypatch.setenv("TANIST_FOUR_EYES", "off")
    assert four_eyes() is False
    monkeypatch.setenv("TANIST_FOUR_EYES", "no")
    with pytest.raises(Misconfigured, match="must be on or off"):
        four_eyes()


@pytest.mark.parametrize("context", [run_of(max_tries=RETRIES + 1), run_of(clears=1)], ids=["a task", "a run"])
def test_what_was_cleared_is_never_asked_again(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever clears it asks for it, and Airflow does not say who that is; a no stands, too."""
    monkeypatch.setattr(FailoverParams, "clusters", lambda *_: nullcontext())
    monkeypatch.setattr(FailoverParams, "to_adopt", lambda *_: None)
    with pytest.raises(AirflowFailException, match="this run was cleared"):
        PlanGate(task_id="approve").execute(context)


def test_a_further_try_looks_for_longer_than_the_old_process_may_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its supervisor misses all heartbeats but the last one, each only after its timeout, and then has to kill it."""
    assert old_process_seconds() == (5 + 5) * (1 + 3) + 5
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "7")
    monkeypatch.setenv("AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT", "1.5")
    monkeypatch.setenv("AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS", "2")
    assert old_process_seconds() == (7 + 1.5) * (1 + 2) + 5


def test_a_run_that_was_cleared_is_not_asked_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever clears a run asks for it, and would be another user than who had triggered it. A no stands, too."""
    monkeypatch.setattr(FailoverParams, "clusters", lambda *_: nullcontext())
    monkeypatch.setattr(FailoverParams, "to_adopt", lambda *_: None)

    def clear(_mapper: object, _connection: object, run: DagRun) -> None:
        run.clear_number = 1

    event.listen(DagRun, "before_insert", clear)
    try:
        wanted = {"mirror": "dr", "destination": "west"}
        ran = house.run(house.dag("mirror_failover"), wanted, by_hand="^(open_run|undo|observe|plan|report)$")
    finally:
        event.remove(DagRun, "before_insert", clear)
    assert "NOT_APPROVED: this run was cleared" in ran.why("approve")
    assert (ran.state, ran.tasks["hold"], ran.tasks["validate"]) == ("failed", "upstream_failed", "upstream_failed")


def test_a_parameter_that_there_is_not_is_refused_before_anything(house: House) -> None:
    """The command line's `--topic` is `topics` here: taken in silence, the whole mirror would be in the plan."""
    wanted = {"mirror": "dr", "destination": "west"}
    ran = house.run(house.dag("mirror_failover"), wanted | {"topic": ["orders"]})
    assert "INVALID_CONFIG: unknown parameters: topic; valid are destination, mirror," in ran.why("open_run")
    assert (ran.state, ran.tasks["observe"]) == ("failed", "upstream_failed")
    assert ran.report["verdict"].startswith("NOT STARTED: nothing was changed")
    ran = house.run(house.dag("mirror_validation"), wanted | {"topic": ["orders"]})
    assert ran.tasks == {"validate": "failed"}
    assert "INVALID_CONFIG: unknown parameters: topic; valid are destination, mirror," in ran.why("validate")


def test_a_gate_is_tried_again_whatever_the_defaults_are_and_the_report_waits_for_no_validation() -> None:
    """Whatever the DAG's defaults are. The report's failure is the run's; nothing that failed keeps it from running."""
    bag = DagBag(str(ROOT / "dags" / "mirror_failover.py"))
    assert not bag.import_errors
    dag = bag.dags["mirror_failover"]
    assert dag.get_task("approve").retries == RETRIES >= 3
    report = dag.get_task("report")
    assert (report.is_teardown, report.on_failure_fail_dagrun) == (True, True)
    assert report.upstream_task_ids == {"reverse"}
    assert {task.task_id for task in dag.leaves} == {"validate", "report"}


def validated(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a mirror that was not reversed since."""
    monkeypatch.setattr(ClusterRegistry, "forwarded", lambda *_: None)
    asked = {"mode": mode, "validate": "default", "mirror": "dr", "destination": "west", "topics": [".*"]}
    validation.Validate(task_id="validate", level="validate")._prepared(asked, "manual__1")


def raising(error: Exception) -> Any:
    def raises(*_: object) -> None:
        raise error

    return raises


def test_only_a_silent_source_of_an_unplanned_failover_leaves_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is skipped, which is no red; a source that was alive, and a destination, must answer."""
    monkeypatch.setattr(validation, "validation", raising(SourceSilent("east does not answer")))
    with pytest.raises(AirflowSkipException, match="SOURCE_SILENT: east"):
        validated("unplanned", monkeypatch)
    with pytest.raises(AirflowException, match="SOURCE_SILENT: east") as planned:
        validated("planned", monkeypatch)
    assert not isinstance(planned.value, AirflowSkipException)


@pytest.mark.parametrize("error", [Unreachable("west does not answer"), CouldNotTell("something")])
def test_a_validation_that_cannot_tell_for_another_reason_is_red(
    error: CouldNotTell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "validation", raising(error))
    with pytest.raises(AirflowException, match=error.reason) as red:
        validated("unplanned", monkeypatch)
    assert not isinstance(red.value, AirflowSkipException)


def test_what_can_never_be_green_after_a_failover_cannot_be_asked_for() -> None:
    """Of a promoted topic offsets alone do not tell whether it is equal."""
    assert list(validation.AFTERWARDS.schema["enum"]) == ["default", "batches", "records", "nothing"]
    assert "ranges" in validation.PARAMS["level"].schema["enum"]
