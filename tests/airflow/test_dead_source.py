"""A source that is killed under load is failed over through Airflow at the first try, however long people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.airflow.conftest import Answering
from tests.airflow.mirrors import conf, connections, dag
from tests.kafka.failover.test_dead_source import PARTITIONS, killed_under_load, mirrored

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from tests.airflow.conftest import House
    from tests.kafka.failover.conftest import Pair

__all__ = ["connections", "dag"]  # fixtures

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.long
@pytest.mark.parametrize("reading", [45.0, 360.0])
def test_a_source_killed_under_load_is_failed_over_by_one_run_of_the_dag(
    house: House, dag: DAG, pair: Pair, reading: float
) -> None:
    """ANOTHER_PLAN at the gate, or APPROVAL_VOID: OFFSETS_MAY_BE_REUSED in the middle of the route."""
    name = f"dead-{reading:.0f}"
    pair.worker()
    mirrored(pair, name)
    killed_under_load(pair, name)

    def read(_asked: dict[str, Any]) -> None:
        pair.clock.wait(reading)

    try:
        person = Answering(house.client, "op", first=read)
        ran = house.run(dag, conf(name, mode="unplanned", budget=1), person)
        assert person.codes == [200], "one question, one answer"
        assert ran.report["verdict"] == "DONE", (ran.tasks, ran.report)
        assert pair.west.writes(name, range(PARTITIONS), partitions=PARTITIONS)
        assert "since then unknown" in person.asked["body"]
    finally:
        pair.east.cluster.start()
