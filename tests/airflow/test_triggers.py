"""What Airflow takes when somebody triggers a failover, and how many may be open at a time. Without any broker."""

from __future__ import annotations

import math
from datetime import timedelta
from http import HTTPStatus
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.timezone import utcnow
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import delete, select, update

from tanist.airflow.params import PARAMS, FailoverParams, request_of
from tests.airflow.conftest import login

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.airflow.conftest import House

pytestmark = pytest.mark.filterwarnings("default")

DAG: Final = "mirror_failover"
WANTED: Final = {"mirror": "dr", "destination": "west", "validate": "nothing"}
TOO_MUCH: Final = [
    {"max_loss": 10**21},
    {"max_loss": -1},
    {"fence_proof": 1e300},
    {"fence_proof": -0.1},
    {"drain": 86401},
    {"drain": 0},
    {"budget": 1e300},
]
"""Each hung the process of a task, with an empty log, or could."""


@pytest.fixture(scope="module")
def unpaused(house: House) -> None:
    """The DAG is in Airflow's database, unpaused, as its processor would put it there."""
    house.run(house.dag(DAG), WANTED, by_hand=".*")
    house.client.patch(f"/api/v2/dags/{DAG}", json={"is_paused": False}, headers=login(house.client, "op"))


@pytest.fixture
def known(unpaused: None) -> Iterator[None]:
    """As `unpaused`, and the runs of a test are gone afterwards."""
    yield
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == DAG))


def trigger(house: House, **more: Any) -> tuple[int, str]:
    """Code and body of Airflow's answer over REST, which knows no form."""
    asked = {"logical_date": None, "conf": WANTED | more}
    answer = house.client.post(f"/api/v2/dags/{DAG}/dagRuns", json=asked, headers=login(house.client, "op"))
    return answer.status_code, answer.text


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("more", TOO_MUCH, ids=str)
def test_a_number_out_of_its_bounds_is_refused_when_it_is_asked_for(house: House, more: dict[str, Any]) -> None:
    """By name, before there is a run."""
    code, said = trigger(house, **more)
    assert code == HTTPStatus.BAD_REQUEST
    assert f"Invalid input for param {next(iter(more))}" in said


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    "more", [{"max_loss": 2**63 - 1}, {"fence_proof": 3600}, {"drain": 1}, {"unfinished": "abort"}]
)
def test_a_number_within_its_bounds_is_taken(house: House, more: dict[str, Any]) -> None:
    code, said = trigger(house, **more)
    assert code == HTTPStatus.OK, said


@pytest.mark.parametrize("more", [*TOO_MUCH, {"budget": math.nan}, {"drain": math.inf}, {"max_loss": "7"}], ids=str)
def test_a_number_that_came_past_the_schema_is_refused_by_the_first_task(more: dict[str, Any]) -> None:
    """NaN is within all bounds of a schema; and one of an older version may have none."""
    given = {name: param.value for name, param in PARAMS.items()} | {"mirror": "dr", "destination": "west"} | more
    context: Any = {"params": given, "dag": SimpleNamespace(params=PARAMS)}
    with pytest.raises(AirflowFailException, match=f"INVALID_CONFIG: {next(iter(more))} is .*: it must be a number"):
        FailoverParams.of(context)


def test_a_whole_number_with_a_point_is_the_same_plan() -> None:
    """JSON takes 5.0 for an integer; as such it would have another hash than 5."""
    given = {name: param.value for name, param in PARAMS.items()} | {"mirror": "dr", "destination": "west"}
    context: Any = {"params": given | {"max_loss": 5.0}, "dag": SimpleNamespace(params=PARAMS)}
    assert repr(FailoverParams.of(context).request.loss_tolerance) == "5"


def test_a_run_that_takes_the_id_of_one_that_was_deleted_is_another_request() -> None:
    """What was approved of the first permits nothing to the second."""

    def request(**run: Any) -> str:
        made: Any = {"dag_run": SimpleNamespace(**{"dag_id": DAG, "run_id": "manual__1", "start_date": "1"} | run)}
        return request_of(made)

    assert request() == request()
    assert len({request(), request(start_date="2"), request(run_id="manual__2"), request(dag_id="mine")}) == 4


@pytest.mark.usefixtures("known")
def test_eight_questions_that_nobody_answers_block_no_other_failover(house: House) -> None:
    """A run that waits for an answer counts as active: the ninth was queued, without a task or a log."""
    for _ in range(9):
        code, said = trigger(house)
        assert code == HTTPStatus.OK, said
    with create_session() as session:
        scheduler = SchedulerJobRunner(job=Job())  # type: ignore[no-untyped-call]  # Airflow's own
        due = utcnow() - timedelta(minutes=1)  # SQLite's clock knows whole seconds
        session.execute(update(DagRun).where(DagRun.dag_id == DAG).values(run_after=due))
        scheduler._start_queued_dagruns(session)
        session.flush()
        states = session.scalars(select(DagRun.state).where(DagRun.dag_id == DAG)).all()
    assert states.count(DagRunState.RUNNING) == 9
