"""The circle with the documented permissions only, led through Airflow: a failover, and a failback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.airflow.conftest import ASKING, SPARK, environment
from tests.airflow.test_mirror_failback import AnsweringAll
from tests.kafka.failover import documented_circle as circle
from tests.kafka.failover.conftest import CERTIFICATES, EAST
from tests.kafka.failover.documented_circle import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.airflow.conftest import House
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Pair

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]
QUICK = {"mirror": ORDERS, "fence_proof": 0.3, "validate": "nothing"}


@pytest.fixture(params=[pytest.param(EAST, id="scram"), pytest.param(CERTIFICATES, id="certificates")])
def least(
    request: pytest.FixtureRequest,
    guardian: Guardian,
    client_config: ClientConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    """Airflow knows both clusters as the mirror's login and as the approver's."""
    home = tmp_path_factory.mktemp("least")
    with (
        circle.with_documented_rights(guardian, client_config, home, request.param) as pair,
        pytest.MonkeyPatch.context() as patch,
    ):
        reported = environment(*pair.connections(), SPARK)
        reported |= {"TANIST_APPROVERS": f"op,{ASKING}", "TANIST_EVIDENCE": str(home / "evidence")}
        for name, value in reported.items():
            patch.setenv(name, value)
        yield pair


def led(house: House, dag: str, answers: int, **given: object) -> None:
    """A run of this DAG that asks so often, and is done."""
    person = AnsweringAll(house.client, "op")
    ran = house.run(house.dag(dag), QUICK | given, person)
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert (person.codes, ran.report["verdict"]) == ([200] * answers, "DONE")


def test_a_circle_through_airflow_with_documented_permissions_leaves_acls_as_they_were(
    house: House, least: Pair
) -> None:
    """`doctor` passed and the plan was GO, but approve and run lacked permissions that no page named."""
    before = circle.copied(least)
    led(house, "mirror_failover", 1, destination="west")
    circle.west_took_over(least)
    led(house, "mirror_failback", 3, primary="west", destination="east")
    circle.east_took_over_again(least)
    circle.all_is_as_it_was(least, before)
