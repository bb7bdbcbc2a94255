"""Positions of the consumer groups of every mirror, every minute: what `tanist groups sync` does.

The mirrors are those of the clusters that `TANIST_DESTINATIONS` names. Positions are translated, proved record by
record, and committed at the destination for groups without members there.

- Each mirror is a task of its own; one that fails leaves the others alone, and the next run tries again.
- A mirror that a failover holds is skipped: the failover translates for itself.
- The last task, `report`, has a table of all of them in its log.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, task, teardown

from tanist.airflow import upkeep

with DAG(
    "mirror_group_offsets",
    description="Positions of the consumer groups of every mirror are committed at the destination",
    doc_md=__doc__,
    schedule="* * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["tanist", "kafka"],
    default_args={"owner": "tanist"},
):
    sync = task(task_id="sync", map_index_template="{{ of }}")(upkeep.sync_positions)
    sync.expand(target=task(upkeep.mirrors)()) >> teardown(upkeep.report)("sync").as_teardown()
