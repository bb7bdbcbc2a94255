"""The reconciliation as a DAG: in this process, on real clusters with access rules, by a real spark-submit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tanist.airflow import reconciliation
from tests.airflow.conftest import SPARK, environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.airflow.conftest import House
    from tests.kafka.failover.conftest import Pair

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("default")]


@pytest.fixture
def reconciling(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """East and west as the mirror's user, and Spark on this machine."""
    for name, value in environment(*pair.connections(), SPARK).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TANIST_EVIDENCE", str(tmp_path / "evidence"))
    monkeypatch.setenv("TANIST_DESTINATIONS", "west")
    return monkeypatch


def test_a_mirror_that_is_named_is_reconciled_and_published(
    house: House, pair: Pair, topic_name: str, reconciling: pytest.MonkeyPatch
) -> None:
    """One that nobody has fails for its own reason, and stops no other."""
    pair.worker()
    pair.mirror(topic_name, topic_name)
    reconciling.setenv("TANIST_RECONCILE_MIRRORS", f"west/{topic_name},nosuch")
    dag = house.dag("mirror_reconciliation")
    mapped: Any = dag.get_task("reconcile")
    mapped.partial_kwargs["retries"] = 0
    ran = house.run(dag, {})
    done, absent = ran.left("report", "return_value")
    assert (done["mirror"], done["wrong"]) == (f"west/{topic_name}", "")
    assert done["done"] == "2 of 2 partition(s) published"
    assert absent["mirror"] == "?/nosuch"
    assert "TANIST_RECONCILE_MIRRORS" in absent["wrong"]


def test_without_names_those_that_others_copy_are_reconciled(pair: Pair, reconciling: pytest.MonkeyPatch) -> None:
    """What Tanist copies has an exact map: reading both logs each hour would tell nothing new."""
    pair.worker()
    pair.mirror("own", "own")
    theirs = ("--copied-by", "other", "--topic", "own", "--rename", "dr-{topic}")
    pair.tanist("mirrors", "create", "theirs", "--source", "east", *theirs)
    assert reconciliation.mirrors() == [{"destination": "west", "mirror": "theirs"}]
