"""What a run comes to, said and shown in its colour; and what keeps it from beginning. Without any broker."""

from __future__ import annotations

import re
import socket
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist.airflow import failover
from tanist.airflow.params import FailoverParams
from tanist.airflow.verdict import VerdictSeen, green, seen_of_a_failback, verdict
from tanist.domain.errors import MirrorLocked, RunUnderWay, Unreachable
from tanist.domain.names import EpochMs, mirror_name
from tanist.domain.records import FailoverRun, RunStatus
from tanist.usecases.failover import unfinished_runs
from tanist_testkit.sandbox.airflow.rest import AirflowConnection
from tests.airflow.conftest import SPARK, environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import DAG

    from tests.airflow.conftest import House, Ran

pytestmark = pytest.mark.filterwarnings("default")

PLAN: Final = "6aa47345f0740105"
WANTED: Final = {"mirror": "dr", "destination": "west", "validate": "nothing"}
RECORD: Final = FailoverRun(
    mirror=mirror_name("dr"),
    plan=PLAN,
    plan_json="",
    approval="1",
    approver="alice",
    runner="",
    status=RunStatus.DONE,
    started_at=EpochMs(0),
    at=EpochMs(0),
)
RUNNING: Final = replace(RECORD, status=RunStatus.RUNNING)
ABORTED: Final = replace(RECORD, status=RunStatus.ABORTED, reason="by eve")


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens where the destination should be."""
    west = AirflowConnection(
        id="west", type="kafka", extra={"bootstrap.servers": "127.0.0.1:1", "tanist.allow_small_state": True}
    )
    for name, value in environment(west, SPARK).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def dag(house: House) -> DAG:
    return house.dag("mirror_failover")


# ── the words ─────────────────────────────────────────────────────────────────────────────────────────────────────


def of_a_failback(last: str, failed: Mapping[str, str]) -> VerdictSeen:
    """The switch is done; `last`: the state of the task that reverses the mirror again."""
    states = {"survey": "success", "reverse": "success", "reverse_again": last}
    return seen_of_a_failback(VerdictSeen(record=RECORD, failed=failed), states, "east")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (of_a_failback("success", {}), "DONE$"),
        (VerdictSeen(record=RECORD, failed={}), "DONE$"),
        (VerdictSeen(record=RECORD, failed={"hold": "RUN_UNDER_WAY"}), "DONE; failed tasks: hold$"),
        (VerdictSeen(record=ABORTED, failed={}, abort_only=True), "UNDONE, as asked: by eve$"),
    ],
    ids=["failed back", "done", "done by another", "undone as asked"],
)
def test_what_was_asked_for_is_green(seen: VerdictSeen, said: str) -> None:
    assert re.match(said, verdict(seen))
    assert green(verdict(seen))


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (VerdictSeen(record=None, failed={}), "NOT STARTED: nothing was changed; fix the failure named under `failed`"),
        (VerdictSeen(record=None, failed={}, undone="1c0ffee2"), "NOT STARTED: plan 1c0ffee2 was undone, nothing else"),
        (
            VerdictSeen(record=None, failed={"approve_reversal": "TAIL_UNDECIDED"}, before=("survey", "rescue")),
            "NOT STARTED: the failover has not begun; tasks that succeeded before it: survey, rescue; fix",
        ),
        (VerdictSeen(record=None, failed={"plan": "PLAN_BLOCKED: SOURCE_DOWN"}), ".* cannot be approved: .*unplanned"),
        (VerdictSeen(record=ABORTED, failed={"seal": "failed"}), "UNDONE: by eve$"),
        (VerdictSeen(record=RUNNING, failed={}), "UNFINISHED: .* `unfinished: continue`; or with `unfinished: abort`"),
        (VerdictSeen(record=replace(RUNNING, no_return=True), failed={}), "UNFINISHED past .* to complete it$"),
        (VerdictSeen(record=RUNNING, failed={}, abort_only=True), "UNFINISHED: "),
        (VerdictSeen(record=RECORD, failed={}, abort_only=True), f"NOT UNDONE: plan {PLAN} is done$"),
        (VerdictSeen(record=None, failed={}, abort_only=True), "NOT STARTED: nothing was changed"),
        (
            VerdictSeen(
                record=RECORD,
                failed={"reverse": "SURVEY_NOT_FINAL"},
                not_reversed="SURVEY_NOT_FINAL",
                destination="west",
            ),
            f"FAILED OVER, NOT REVERSED: .*; trigger it again .* failover run dr --destination west --plan {PLAN}`",
        ),
        (
            VerdictSeen(record=RECORD, failed={}, not_reversed="REVERSAL_WITHDRAWN: plan 1", destination="west"),
            "FAILED OVER, NOT REVERSED: [^;]*; `tanist mirrors reverse dr --destination west --dry-run` shows",
        ),
        (
            of_a_failback("upstream_failed", {"approve_next_reversal": "TOPIC_NOT_IN_MIRROR: no topic"}),
            "FAILED BACK, NOT REVERSED: TOPIC_NOT_IN_MIRROR.*; trigger it again .* reverse dr --destination east",
        ),
        (
            of_a_failback("failed", {"reverse_again": "NOT_APPROVED: plan 1 is not"}),
            "FAILED BACK, NOT REVERSED: NOT_APPROVED: .*; trigger it again",
        ),
        (of_a_failback("upstream_failed", {"hold": "RUN_UNDER_WAY"}), "FAILED BACK, NOT REVERSED: task reverse_again"),
    ],
    ids=[
        "no record",
        "undone first",
        "stopped before the reversal",
        "blocked",
        "undone",
        "unfinished",
        "past no return",
        "not aborted",
        "too late to abort",
        "nothing to abort",
        "not reversed",
        "reversal withdrawn",
        "next reversal not approved",
        "next reversal failed",
        "next reversal not reached",
    ],
)
def test_anything_else_is_red_and_says_what_to_do(seen: VerdictSeen, said: str) -> None:
    """Past the barrier no way back is named."""
    assert re.match(said, verdict(seen))
    assert not green(verdict(seen))


# ── the colour ────────────────────────────────────────────────────────────────────────────────────────────────────


def marked(house: House, dag: DAG, record: FailoverRun | None, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Ran:
    """A run whose tasks somebody has marked successful, all but the report, which finds `record` in Kafka."""
    monkeypatch.setattr(failover, "_planned", lambda _: PLAN)
    monkeypatch.setattr(failover, "_record", lambda *_: record)
    monkeypatch.setattr(failover, "_take_back", lambda *_: None)
    return house.run(dag, WANTED | more, by_hand="(?!report).*")


@pytest.mark.parametrize("record", [None, RUNNING, replace(RUNNING, no_return=True), ABORTED])
def test_tasks_that_were_marked_by_hand_make_no_unfinished_failover_green(
    house: House, dag: DAG, record: FailoverRun | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alerts on failed runs stayed silent: the source fenced, the destination not open."""
    ran = marked(house, dag, record, monkeypatch)
    assert (ran.tasks["movers"], ran.tasks["report"], ran.state) == ("success", "failed", "failed")
    assert ran.report["verdict"].startswith(("NOT STARTED", "UNFINISHED", "UNDONE"))


def test_a_failover_that_is_done_is_green_whoever_has_marked_its_tasks(
    house: House, dag: DAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = marked(house, dag, RECORD, monkeypatch)
    assert (ran.state, ran.report["verdict"]) == ("success", "DONE")


def test_a_destination_that_does_not_answer_at_the_end_is_no_green(
    house: House, dag: DAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is done cannot be told: it is asked again for a while, and then the run is red."""
    monkeypatch.setattr(failover, "_planned", lambda _: PLAN)
    monkeypatch.setattr(failover, "OPEN_SECONDS", 0.5)
    vars(dag.get_task("report"))["retries"] = 0
    ran = house.run(dag, WANTED, by_hand="(?!report).*")
    assert ran.state == "failed"
    assert ran.report["verdict"].startswith("UNKNOWN: ")


# ── what keeps it from beginning ──────────────────────────────────────────────────────────────────────────────────


def test_a_dead_destination_is_told_within_a_minute_with_a_report(
    house: House, dag: DAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs: whatever connects is kept. It took two minutes of tries, and no task said what had become of it."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        extra = {"bootstrap.servers": f"127.0.0.1:{deaf.getsockname()[1]}"}
        for name, value in environment(AirflowConnection(id="west", type="kafka", extra=extra)).items():
            monkeypatch.setenv(name, value)
        began = time.monotonic()
        ran = house.run(dag, WANTED)
        assert time.monotonic() - began < 60
    assert ran.state == "failed"
    assert ran.tasks["open_run"] == "failed"
    assert re.match("UNREACHABLE|TIMED_OUT", ran.why("open_run"))
    assert ran.report["verdict"].startswith("NOT STARTED: nothing was changed")
    assert ran.report["failed"]["open_run"] == ran.why("open_run")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RunUnderWay("eve is at work on plan 1"), "RUN_UNDER_WAY: eve is at work"),
        (MirrorLocked("eve is at work: mirrors pause"), "MIRROR_LOCKED: eve is at work"),
        (Unreachable("east"), "UNREACHABLE"),
    ],
    ids=["a failover", "a change", "no answer"],
)
def test_a_busy_mirror_is_reported_as_busy_not_as_a_crash(
    house: House, dag: DAG, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    """After six tries the report said "failed without a word: its process was lost"."""

    def busy(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(failover, "run_plan", busy)
    monkeypatch.setattr(failover, "_planned", lambda _: PLAN)
    monkeypatch.setattr(failover, "_record", lambda *_: None)
    monkeypatch.setattr(failover, "_take_back", lambda *_: None)
    monkeypatch.setattr(unfinished_runs, "must_be_ours", lambda *_: None)
    monkeypatch.setattr(FailoverParams, "clusters", lambda *_: nullcontext())
    vars(dag.get_task("hold"))["retries"] = 0
    ran = house.run(dag, WANTED, by_hand="^(open_run|undo|observe|plan|approve)$")
    assert ran.report["failed"]["hold"].startswith(said)
