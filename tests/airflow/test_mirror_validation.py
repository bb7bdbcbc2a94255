"""The validation as a DAG: in this process, on real clusters with access rules, by a real spark-submit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.airflow.conftest import SPARK, environment

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import DAG

    from tests.airflow.conftest import House, Ran
    from tests.kafka.failover.conftest import Pair

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("default")]


@pytest.fixture
def evidence(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """East and west as the mirror's user, and Spark on this machine."""
    for name, value in environment(*pair.connections(), SPARK).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TANIST_EVIDENCE", str(tmp_path / "evidence"))
    return tmp_path / "evidence"


def run(house: House, mirror: str, **more: Any) -> Ran:
    dag: DAG = house.dag("mirror_validation")
    vars(dag.get_task("validate"))["retries"] = 0
    return house.run(dag, {"mirror": mirror, "destination": "west"} | more)


def test_equal_is_green_and_different_is_red(house: House, pair: Pair, topic_name: str, evidence: Path) -> None:
    """Both with a report; no secret is in what is left, nor in what Airflow shows."""
    pair.worker()
    pair.mirror(topic_name, topic_name)
    equal = run(house, topic_name, level="ranges")
    assert equal.tasks == {"validate": "success"}, equal.why("validate")
    reported = equal.left("validate", "return_value")
    assert (reported["verdict"], reported["level"]) == ("EQUAL", "ranges")
    at = TopicPartition(topic_name, 0, 3)
    admin = AdminClient(pair.west.client("admin"))  # kept alive: it must outlive its futures
    admin.delete_records([at])[at].result(20)
    different = run(house, topic_name, level="ranges")
    assert different.tasks == {"validate": "failed"}
    assert "COPY_DIFFERS" in different.why("validate")
    why = f"{topic_name}-0: 3 missing; the first 3 offsets of the source are missing at the destination"
    assert why in different.why("validate")
    files = [file for file in evidence.rglob("*") if file.is_file()]
    assert sorted(file.name for file in files) == ["report.html", "report.html", "result.json", "result.json"]
    secrets = {side.cluster.password_file("mirror").read_text() for side in (pair.east, pair.west)}
    shown = [file.read_text() for file in files] + [json.dumps(reported), different.why("validate")]
    assert not [text[:200] for text in shown for secret in secrets if secret in text]


def test_what_cannot_be_asked_for_is_told_before_spark_starts(
    house: House, pair: Pair, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such mirror; and a missing connection is not taken for YARN, as the operator would."""
    pair.worker()
    pair.mirror("asked", "asked")
    assert "UNKNOWN_MIRROR" in run(house, "nosuch").why("validate")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    assert "connection 'spark_default' does not exist" in run(house, "asked").why("validate")
    assert not evidence.exists()
