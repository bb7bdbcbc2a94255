"""Scenarios of the robot through Airflow: what is triggered and answered, and what the report says is next."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.airflow.mirrors import conf, connections, dag
from tests.airflow.test_mirror_failback import AnsweringAll, both_ways, fails_over_with_a_tail
from tests.robot import Journey
from tests.scenarios import record

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from tests.airflow.conftest import House
    from tests.kafka.failover.conftest import Pair

__all__ = ["both_ways", "connections", "dag"]  # fixtures

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]


def followed(house: House, of: DAG, wanted: dict[str, Any], journey: Journey) -> list[dict[str, Any]]:
    """One trigger, and an answer to each question; what is next by its report."""
    began, person = time.monotonic(), AnsweringAll(house.client, "op")
    ran = house.run(of, wanted, person)
    assert ran.report["verdict"] == "DONE", (ran.tasks, ran.report)
    journey.commands += [f"trigger {of.dag_id}", *(f"answer {n}" for n, _ in enumerate(person.codes))]
    journey.decisions += ["approve what the page shows"] * len(person.codes)
    journey.seconds += time.monotonic() - began
    return list(ran.report["next"])


@pytest.mark.usefixtures("both_ways")
def test_a_dead_source_takes_one_trigger_and_one_answer(house: House, dag: DAG, pair: Pair) -> None:
    pair.worker()
    pair.mirror("followed-dead", "followed-dead")
    pair.east.cluster.kill()
    try:
        made = Journey()
        assert followed(house, dag, conf("followed-dead", mode="unplanned", budget=1), made) == []
        record("a dead source, through Airflow", made)
        assert len(made.commands) == 2
    finally:
        pair.east.cluster.start()


@pytest.mark.usefixtures("both_ways")
def test_a_planned_failover_names_the_reversal_as_what_is_next(house: House, dag: DAG, pair: Pair) -> None:
    pair.mirror("followed-planned", "followed-planned")
    made = Journey()
    following = followed(house, dag, conf("followed-planned"), made)
    record("a planned failover, through Airflow", made)
    assert following[0]["command"].startswith("tanist mirrors reverse followed-planned --destination west")


@pytest.mark.usefixtures("both_ways")
def test_the_way_back_with_a_tail_takes_one_trigger(house: House, pair: Pair) -> None:
    """Its rescued records stay in quarantine: no other login is configured here that may write to the topic."""
    name = "followed-back"
    fails_over_with_a_tail(pair, name)
    wanted = {"mirror": name, "primary": "west", "destination": "east", "fence_proof": 0.3, "validate": "nothing"}
    made = Journey()
    followed(house, house.dag("mirror_failback"), wanted | {"replay": []}, made)
    record("the whole way back with a tail, through Airflow", made)
    assert len(made.commands) == 5
