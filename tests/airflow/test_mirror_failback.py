"""The failback as a DAG: in this process, on real clusters with access rules, answered through Airflow's own API."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tanist.kafka.protocol.client_config import client_config as connection
from tanist_testkit.sandbox.airflow.rest import AirflowConnection
from tests.airflow.conftest import Answering, environment, login, open_questions
from tests.airflow.mirrors import connections
from tests.kafka.failover.own.test_reverse import begin, fail_over, records, tanist

if TYPE_CHECKING:
    from tests.airflow.conftest import House
    from tests.kafka.failover.conftest import Pair

__all__ = ["connections"]  # a fixture

pytestmark = [pytest.mark.timeout(300), pytest.mark.long, pytest.mark.filterwarnings("default")]


class AnsweringAll(Answering):
    """An approver who answers every question of the run."""

    def work(self) -> None:
        try:
            headers = login(self.client, self.user)
            while not self.ended.wait(0.2):
                for asked in open_questions(self.client, headers):
                    self.asked = asked
                    self.answer(headers)
        except BaseException as error:  # noqa: BLE001  # told by the test, which would wait for ever otherwise
            self.error = error


@pytest.mark.usefixtures("connections")
def test_an_approved_failback_ends_with_the_mirror_in_its_first_direction(
    house: House, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three answers; the old source is the primary again, and the mirror copies from it."""
    extra = connection(pair.east.cluster.endpoint_for("approver")) | {"tanist.allow_small_state": True}
    for name, value in environment(AirflowConnection(id="east_approver", type="kafka", extra=extra)).items():
        monkeypatch.setenv(name, value)
    pair.east.topic("__mirror_approvals", 1, retention_ms="-1", message_timestamp_type="LogAppendTime")
    pair.worker()
    begin(pair, "east")
    pair.east.topic("circle")
    assert pair.east.writes("circle", range(10))
    tanist(pair, "west", "mirrors", "create", "circle", "--source", "east", "--topic", "circle")
    fail_over(pair, "circle", "west")
    assert pair.west.writes("circle", range(100, 110))
    person = AnsweringAll(house.client, "op")
    conf = {"mirror": "circle", "primary": "west", "destination": "east", "fence_proof": 0.3, "validate": "nothing"}
    ran = house.run(house.dag("mirror_failback"), conf, person)
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert person.codes == [200, 200, 200]
    assert ran.report["verdict"] == "DONE"
    assert pair.east.writes("circle", range(200, 210))
    assert not pair.west.writes("circle", range(1))
    tanist(pair, "west", "mirrors", "wait", "circle", "--for", "lag=0", "--timeout", "60s")
    assert records(pair.east, "circle") == records(pair.west, "circle")
    pair.workers["east"].send(signal.SIGTERM)
