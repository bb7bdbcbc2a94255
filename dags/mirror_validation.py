"""Compare a mirror with its source, like `tanist validate`, as a Spark job of Airflow's own operator.

Trigger it with the mirror and its destination. It reads both clusters and changes nothing.

- Success: every partition was read to its end and is equal. Failure: the mirror differs or the result is unknown; the
  error states which, and lists the differences.
- `result.json` and `report.html` are written to `validation/<mirror>/<run>` below `TANIST_EVIDENCE`.
- Spark runs where the connection `spark_default` says; its driver, on the worker of the task, needs Java and 3 GB of
  memory.
"""

from datetime import timedelta

from airflow.sdk import DAG

from tanist.airflow.validation import PARAMS, Validate

with DAG(
    "mirror_validation",
    description="Compare a mirror with its source, in Spark",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params=PARAMS,
    tags=["tanist", "kafka", "spark"],
    default_args={"owner": "tanist", "retries": 1, "retry_delay": timedelta(seconds=10)},
) as dag:
    Validate(task_id="validate")
