"""Fail over a mirror: show the plan, wait for an approver, run the steps, report.

This is the failover of `tanist failover plan|approve|run`. Trigger it with the mirror, its destination and the mode.

- `TANIST_APPROVERS` lists the **approvers**; with `TANIST_FOUR_EYES` (the default) nobody approves their own request.
- The approval is written to Kafka through the connection `<destination>_approver`, in the name of the approver. The
  steps obey this approval only: a gate that was marked successful by hand permits nothing.
- If you see the question twice, your first answer was lost: answer again. After a rejection or a cleared task, trigger
  a new run.
- `report` states the result and the next step. It fails, and so does the run, unless the failover is done. `validate`
  runs beside it and can take hours: it compares source and destination in Spark, undoes nothing, and fails the run if
  they differ or if the result is unknown.
- With `reverse` the mirror is reversed as the last step of a planned failover, so that it copies to its old source. If
  that step alone failed, trigger the DAG again with the same parameters: it completes the reversal.
- **If anything fails, trigger the DAG again with the same parameters.** The run resumes where the previous one stopped,
  with the same approval. If a different failover is unfinished, the run names it and changes nothing.
- **If the source dies during a planned failover**, trigger the DAG with `mode: unplanned` and `unfinished: abort`: the
  unfinished failover is undone and an unplanned one is planned for approval. `abort-only` only undoes it.
"""

from datetime import timedelta

from airflow.sdk import DAG, chain, task, teardown

from tanist.airflow import failover
from tanist.airflow.gate import PlanGate
from tanist.airflow.params import PARAMS
from tanist.airflow.validation import AFTERWARDS, Validate

BEFORE_THE_GATE = (failover.open_run, failover.undo, failover.observe, failover.plan)

with DAG(
    "mirror_failover",
    description="Plan, approve and run the failover of a mirror",
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
        # What a task returns is one XCom, not one more per key of it.
        *(task(multiple_outputs=False)(each)() for each in BEFORE_THE_GATE),
        PlanGate(task_id=failover.GATE),
        *(
            task(task_id=name, doc_md=title, multiple_outputs=False)(failover.step)(name)
            for name, title in failover.STEPS
        ),
        task(task_id=failover.REVERSE, multiple_outputs=False)(failover.reverse)(),
        [
            Validate(task_id=failover.VALIDATE, level="validate", retries=1),
            # Runs whatever became of the others, also of `open_run`, and also in a run that was marked by hand. Its
            # failure is the run's: a run is green only where the failover is done.
            teardown(task(multiple_outputs=False)(failover.report))().as_teardown(on_failure_fail_dagrun=True),
        ],
    )
