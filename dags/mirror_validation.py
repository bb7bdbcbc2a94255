"""Is the copy the same data? What `tanist validate` does, as a Spark job of Airflow's own operator.

Trigger it with the mirror and its destination. It reads both clusters and changes nothing.

- Green: every partition was read to its end and is the same. Red: the copy differs, or that could not be told; the
  error says which, and what.
- `result.json` and `report.html` are below `TANIST_EVIDENCE`, in `validation/<mirror>/<run>`.
- Spark runs on the worker that has the task (connection `spark_default`): Java, and 3 GB of memory.
"""

from datetime import timedelta

from airflow.sdk import DAG

from tanist.airflow.validation import PARAMS, Validate

with DAG(
    "mirror_validation",
    description="Compare the copy of a mirror with its source, in Spark",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params=PARAMS,
    tags=["tanist", "kafka", "spark"],
    default_args={"owner": "tanist", "retries": 1, "retry_delay": timedelta(seconds=10)},
) as dag:
    Validate(task_id="validate")
