"""Reconcile mirrors with their sources in Spark, every hour, and publish the result, like `tanist reconcile --publish`.

`mirror_group_offsets` then translates committed offsets by it: for mirrors whose records MirrorMaker 2 or another tool
copies.

- The mirrors are those that `TANIST_RECONCILE_MIRRORS` names (`destination/mirror` or `mirror`, separated by commas);
  without it all mirrors of the clusters in `TANIST_DESTINATIONS` that others copy.
- Each mirror is a task of its own, one after the other. A task that fails leaves what was published before, and the
  next run repeats it.
- Both logs of each mirror are read to their ends each time: choose the schedule by their size.
- Spark runs where the connection `spark_default` says; its driver, on the worker of the task, needs Java and 3 GB of
  memory. The last task, `report`, prints a table of all mirrors to its log.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, task, teardown

from tanist.airflow import periodic_sync, reconciliation

with DAG(
    "mirror_reconciliation",
    description="Reconcile mirrors in Spark, and publish where their consumers go on",
    doc_md=__doc__,
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["tanist", "kafka", "spark"],
    default_args={"owner": "tanist", "retries": 1, "retry_delay": timedelta(seconds=10)},
):
    reconcile = reconciliation.Reconcile.partial(
        task_id="reconcile", map_index_template="{{ of }}", max_active_tis_per_dag=1
    ).expand(target=task(reconciliation.mirrors)())
    reconcile >> teardown(periodic_sync.report)("reconcile").as_teardown()
