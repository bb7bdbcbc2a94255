"""`mirror_validation` through a whole Airflow, whose connection `spark_default` leads to a Spark cluster."""

from __future__ import annotations

import re
import time
import venv
from typing import TYPE_CHECKING, Final

import pytest

from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.airflow.connections import SPARK
from tanist_testkit.sandbox.airflow.rest import AirflowConnection
from tanist_testkit.sandbox.spark import SparkCluster
from tests.airflow.whole import variables
from tests.kafka.fetcher.rig import until
from tests.spark.leaks import commands, files, leaks, pages, secrets_of

if TYPE_CHECKING:
    from pathlib import Path

    from tanist_testkit.sandbox.airflow.rest import Rest
    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import SharedAirflow
    from tests.kafka.failover.conftest import Pair

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1500)]

DAG: Final = "mirror_validation"
_PAGES: Final = re.compile(r"Spark's pages: (http://[\w.:]+)")


def soon(seconds: float = 120) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def test_a_mirror_is_validated_on_the_cluster_of_the_connection(
    airflow: SharedAirflow, pair: Pair, topic_name: str, guardian: Guardian, tmp_path: Path
) -> None:
    """By the first try, on both workers, with a bare Python; the log tells of tasks and MB/s, no secret is anywhere."""
    venv.create(tmp_path / "bare", symlinks=True)
    pair.worker()
    pair.mirror(topic_name, topic_name)
    cluster = SparkCluster(tmp_path / "spark", guardian)
    cluster.start(2, soon())
    extra = {
        "tanist.properties-file": str(cluster.properties),
        "tanist.python": f"{tmp_path}/bare/bin/python",
        "tanist.ui": True,
    }
    there = AirflowConnection(id=SPARK.id, type="spark", host=cluster.master, extra=extra)
    try:
        with airflow([*pair.connections(), there]).rest("admin") as admin:
            variables.name(admin.call, TANIST_EVIDENCE=str(tmp_path / "evidence"))
            admin.wait_for_dag(DAG, soon())
            admin.unpause(DAG)
            run = admin.trigger(DAG, {"mirror": topic_name, "destination": "west", "level": "batches"})
            shown = pages_of(admin, run)
            state = admin.wait_for_run(DAG, run, soon(900))
            [task] = admin.tasks(DAG, run)
            logs = [admin.log(DAG, run, "validate", tries=n + 1) for n in range(task.tries)]
            assert (state, task.tries) == ("success", 1), "\n\n".join(logs)
            assert admin.result(DAG, run, "validate")["verdict"] == "EQUAL"
    finally:
        airflow([SPARK])
        cluster.stop()
    [log] = logs
    assert "2 executors with 2 cores" in log
    assert re.search(r"batches: \d+ ", log)
    assert re.search(r"[1-9]\d* tasks done, \d+ MB \(\d+ MB/s\) read", log)
    assert all(list(worker.work.glob("app-*/*/tanist-packages/xxhash")) for worker in cluster.workers)
    shown |= files(cluster.home, tmp_path / "evidence") | {"log of the task": log}
    shown.pop(str(cluster.properties))
    for expected in ("SparkListenerApplicationEnd", "spark.redaction.regex", '"verdict": "EQUAL"', "<!doctype html>"):
        assert any(expected in text for text in shown.values()), expected
    assert not leaks(secrets_of(pair, cluster), shown)


def pages_of(admin: Rest, run: str) -> dict[str, str]:
    """Spark's pages while the first try runs, and the command line of every process then; nothing if it has failed."""
    addresses: list[str] = []

    def served() -> bool:
        [task] = admin.tasks(DAG, run)
        if task.state == "running":
            addresses.extend(_PAGES.findall(admin.log(DAG, run, "validate")))
        return bool(addresses) or task.state in {"up_for_retry", "success", "failed"}

    until(served, 600)
    if not addresses:
        return {}
    page = addresses[0]
    shown = pages(page + "/environment/", page + "/SQL/", page + "/executors/")
    assert "spark.redaction.regex" in shown[page + "/environment/"]
    return shown | {f"command {pid}": line for pid, line in commands().items()}
