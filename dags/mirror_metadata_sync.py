"""Sync the metadata of every mirror, every five minutes, like `tanist metadata sync`.

The mirrors are those of the clusters in `TANIST_DESTINATIONS`. Partitions, configs and new topics follow the source;
nothing is ever deleted.

- Each mirror is a task of its own. A task that fails does not affect the others, and the next run retries it.
- A mirror that is locked by a failover is skipped.
- The last task, `report`, prints a table of all mirrors to its log.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, task, teardown

from tanist.airflow import periodic_sync

with DAG(
    "mirror_metadata_sync",
    description="Make partitions, configs and new topics of every mirror follow the source",
    doc_md=__doc__,
    schedule="*/5 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["tanist", "kafka"],
    default_args={"owner": "tanist", "retries": 1, "retry_delay": timedelta(seconds=10)},
):
    sync = task(task_id="sync", map_index_template="{{ of }}")(periodic_sync.sync_metadata)
    sync.expand(target=task(periodic_sync.mirrors)()) >> teardown(periodic_sync.report)("sync").as_teardown()
