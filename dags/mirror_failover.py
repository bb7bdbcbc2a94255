"""Failover of a mirror: shows the plan, waits for an approver, does one step after the other, and reports.

It is the failover of `tanist failover plan|approve|run`. Trigger it with the mirror, its destination and the mode.

- **Who approves** is said in `TANIST_APPROVERS`; nobody approves what they have asked for (`TANIST_FOUR_EYES`).
- The approval is written to Kafka, by the connection `<destination>_approver`, in the name of who answered. The steps
  obey that approval alone: a gate that was marked successful by hand permits nothing.
- A run asks once: after a no, a lost answer or a clear, trigger a new one.
- `report` says what came of it and what to do now; it is red, and so is the run, unless the failover is done.
  `validate` goes on beside it, for hours if there is much: it compares source and copy,
  in Spark, undoes nothing, and makes the run red where they differ or that cannot be told.
- **If anything fails, trigger it again with the same parameters.** It goes on where it ended, on the same approval.
  Where something else is unfinished than what is asked for, it says what, and does nothing.
- **If the source dies during a planned failover**, trigger it with `mode: unplanned` and `unfinished: abort`: what is
  unfinished is undone, and an unplanned one is planned and asked for. `abort-only` undoes it and does nothing else.
"""

from datetime import timedelta

from airflow.sdk import DAG, chain, task, teardown

from tanist.airflow import failover
from tanist.airflow.gate import PlanGate
from tanist.airflow.validation import AFTERWARDS, Validate
from tanist.airflow.wish import PARAMS

with DAG(
    "mirror_failover",
    description="Plan, have approved, and run the failover of a mirror",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    # A run that waits for an answer counts as active. What must not run twice is kept apart by each mirror's own lock.
    max_active_runs=1000,
    params=PARAMS | {"validate": AFTERWARDS},
    tags=["tanist", "kafka"],
    # What would be refused again is not tried again: see tanist.airflow.tasks.
    default_args={"owner": "tanist", "retries": 5, "retry_delay": timedelta(seconds=5)},
) as dag:
    chain(
        task(failover.open_run)(),
        task(failover.undo)(),
        task(failover.observe)(),
        task(failover.plan)(),
        PlanGate(task_id=failover.GATE),
        *(task(task_id=name, doc_md=title)(failover.step)(name) for name, title in failover.STEPS),
        [
            Validate(task_id=failover.VALIDATE, level="validate", retries=1),
            # Runs whatever became of the others, also of `open_run`, and also in a run that was marked by hand. Its
            # failure is the run's: a run is green only where the failover is done.
            teardown(failover.report)().as_teardown(on_failure_fail_dagrun=True),
        ],
    )
