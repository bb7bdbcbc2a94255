"""Mirrors that are failed over through Airflow, in this process, on real clusters with access rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist.usecases.failover.route import STEP_IDS
from tests.airflow.conftest import ASKING, SPARK, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import DAG

    from tests.airflow.conftest import House, Ran
    from tests.kafka.failover.conftest import Pair

ROUTE: Final = STEP_IDS


@pytest.fixture(scope="module")
def connections(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """East and west as the mirror's user, and the one connection that may approve."""
    reported = {"TANIST_APPROVERS": f"op,{ASKING}", "TANIST_EVIDENCE": str(tmp_path_factory.mktemp("evidence"))}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (reported | environment(*pair.connections(), SPARK)).items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def dag(house: House, connections: None) -> DAG:
    return house.dag("mirror_failover")


@pytest.fixture(scope="module")
def mirrors(pair: Pair, request: pytest.FixtureRequest) -> list[str]:
    """A mirror for each test that is to run and wants one, and `untouched`; made together, which takes least time."""
    wanted = [item for item in request.session.items if isinstance(item, pytest.Function)]
    count = sum(item.module is request.module and "mirror" in item.fixturenames for item in wanted)
    of = request.module.__name__.rpartition("_")[2]  # the clusters are those of the whole folder
    names = [f"{of}-untouched", *(f"{of}-{n}" for n in range(count))]
    pair.worker()
    pair.mirrors({name: [name] for name in names})
    return names


@pytest.fixture
def mirror(mirrors: list[str]) -> str:
    """A mirror of one topic of the same name, all of it copied, for this test alone."""
    return mirrors.pop()


@pytest.fixture
def untouched(mirrors: list[str]) -> str:
    """The mirror of those tests after which nothing may have happened."""
    return mirrors[0]


def conf(mirror: str, **more: Any) -> dict[str, Any]:
    return {"mirror": mirror, "destination": "west", "fence_proof": 0.3, "validate": "nothing"} | more


def runs(pair: Pair, mirror: str) -> list[dict[str, Any]]:
    """What is on record of failovers of this mirror."""
    found = pair.tanist("state", "dump", "--key", f"failover/{mirror}/", "--json").out
    return list(json.loads(found)["items"])


def nothing_was_done(pair: Pair, mirror: str, ran: Ran) -> None:
    """No step did anything, which the report says: no run on record, and producers are free at the source."""
    assert ran.state == "failed"
    assert not {name for name in ROUTE if ran.tasks[name] == "success"}
    assert ran.report["verdict"].startswith("NOT STARTED")
    assert runs(pair, mirror) == []
    assert pair.east.writes(mirror, range(2))
