"""A DAG for the tests of the sandbox: what a task sees, and a gate."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseHook, dag, task

import tanist


@dag(schedule=None, catchup=False)
def probe() -> None:
    @task
    def look() -> dict[str, Any]:
        password = str(BaseHook.get_connection("vault").extra_dejson["sasl.password"])
        logging.getLogger(__name__).warning("the password is %s", password)
        return {
            "tanist": tanist.__file__,
            "password": hashlib.sha256(password.encode()).hexdigest(),
            "spark_submit": shutil.which("spark-submit"),
            "environment": dict(os.environ),
        }

    look() >> ApprovalOperator(task_id="gate", subject="Go on?")


probe()
