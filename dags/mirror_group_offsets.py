"""Translate the committed offsets of consumer groups of every mirror, every minute, like `tanist groups sync`.

The mirrors are those of the clusters in `TANIST_DESTINATIONS`. Offsets are translated, proved record by record, and
committed at the destination for groups without members there.

- Each mirror is a task of its own. A task that fails does not affect the others, and the next run retries it.
- A mirror that is locked by a failover is skipped: the failover translates the offsets itself.
- The last task, `report`, prints a table of all mirrors to its log.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, task, teardown

from tanist.airflow import periodic_sync

with DAG(
    "mirror_group_offsets",
    description="Commit translated consumer group offsets of every mirror at the destination",
    doc_md=__doc__,
    schedule="* * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["tanist", "kafka"],
    default_args={"owner": "tanist"},
):
    sync = task(task_id="sync", map_index_template="{{ of }}")(periodic_sync.sync_positions)
    sync.expand(target=task(periodic_sync.mirrors)()) >> teardown(periodic_sync.report)("sync").as_teardown()
