"""A job of Tanist as a task: submitted by Airflow's own Spark operator, where the connection `spark_default` says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder

from tanist.airflow import connections
from tanist.domain.errors import Misconfigured
from tanist.spark_submit.place import LOCAL, DeployMode, SparkPlace
from tanist.spark_submit.submission import application, bound, environment, spark_submit
from tanist.spark_submit.submit import handed_over, result_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tanist.spark_submit.submission import Submission

SPARK: Final = "spark_default"


class _Bound(SparkSubmitHook):
    """The JVM ends with the task's process and with its supervisor, however they end: a retry would run beside it."""

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command = super()._build_spark_submit_command(application)
        self._env = dict(self._env_vars or {})  # for Kubernetes the hook would set it in the driver's pod alone
        return bound(command, Path(self._env["TMPDIR"]), *supervisors())


def place() -> SparkPlace:
    """Where Spark runs, as the connection says: its master, and keys of Tanist in its extra (docs/spark.md).

    Raises:
        Misconfigured: there is no such connection, or what it says cannot be.
    """
    connection = connections.found(SPARK, "spark")
    extra = connection.extra_dejson
    host = connection.host or ""
    scheme = (
        ""
        if connection.conn_type == "spark" and ("://" in host or not connection.port)
        else f"{connection.conn_type}://"
    )
    file = extra.get("tanist.properties-file")
    return SparkPlace(
        master=scheme + host + (f":{connection.port}" if connection.port else ""),
        deploy_mode=_deploy_mode(extra.get("deploy-mode") or LOCAL.deploy_mode),
        properties=Path(file) if file else None,
        python=extra.get("tanist.python") or LOCAL.python,
        image=bool(extra.get("tanist.no-packages")),
        unencrypted=bool(extra.get("tanist.allow-unencrypted")),
        ui=bool(extra.get("tanist.ui")),
    )


def _deploy_mode(given: str) -> DeployMode:
    try:
        return DeployMode(given)
    except ValueError:
        raise Misconfigured(f"deploy-mode {given!r} of connection {SPARK!r} is neither client nor cluster") from None


def supervisors() -> tuple[int, ...]:
    """The process that supervises this task, if it runs in a process of its own."""
    comms = getattr(task_runner, "SUPERVISOR_COMMS", None)
    return (os.getppid(),) if isinstance(comms, CommsDecoder) else ()


class SparkTask(SparkSubmitOperator):
    """Runs one job at a time, with its driver in the task's process.

    The job's file contains the clusters' secrets; only its owner can read it, and it is deleted when the task ends.
    Airflow sees its path.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(conn_id=SPARK, deploy_mode="client", durable=False, **options)

    def submitted(self, context: Context, submission: Submission, name: str) -> dict[str, Any]:
        """The result of the job, which Spark calls `name`; if there is none, Airflow's error."""
        self.name = name
        self.application = str(application(submission.application))
        self._spark_binary, self._driver_memory = spark_submit(), submission.driver_memory
        with handed_over(submission) as file:
            self.application_args = [*submission.arguments(file)]
            self.conf = dict(submission.settings(file.parent))
            self.env_vars = environment(file.parent, submission.place)
            shipped = submission.shipped(file.parent)
            self.py_files, self._archives = shipped.get("py-files"), shipped.get("archives")
            self.properties_file = str(submission.place.properties) if submission.place.properties else None
            try:
                super().execute(context)
            except AirflowException:  # an exit code, behind which is a verdict, an error, or nothing
                if result := result_of(submission):
                    return result
                raise
            finally:
                self._close()
        return result_of(submission)

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook()
        hook.__class__ = _Bound  # the operator has no other place for one's own
        return hook

    def _close(self) -> None:
        """Close the pipe that Airflow's hook leaves open."""
        process = self._hook and self._hook._submit_sp  # noqa: SLF001  # it has no method for that
        if process and process.stdout:
            process.stdout.close()
        self._hook = None
