"""`tanist validate` as a task: the same job, submitted by Airflow's Spark operator. Its verdict decides the task."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowException, AirflowSkipException
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder

from tanist.airflow import connections
from tanist.airflow.params import PARAMS as WISHED
from tanist.airflow.params import parameters
from tanist.airflow.tasks import at_work, leave, translate_errors
from tanist.domain.checks import Mode
from tanist.domain.errors import CopyDiffers, CouldNotTell, Misconfigured, SourceSilent
from tanist.domain.names import mirror_name
from tanist.domain.validation.job import Level
from tanist.domain.validation.result import ValidationVerdict
from tanist.spark_submit.place import LOCAL, DeployMode, SparkPlace
from tanist.spark_submit.submission import application, bound, environment, spark_submit
from tanist.spark_submit.submit import handed_over, result_of
from tanist.usecases.validation.prepare import ValidationRequest
from tanist.wiring.validation import validation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from tanist.spark_submit.submission import Submission

SPARK: Final = "spark_default"
DEFAULT, NOTHING = "default", "nothing"
_LEVELS: Final = [DEFAULT, *(level.value for level in Level)]
_ABOUT: Final = "default: batches, or records for mirrors that do not copy whole batches. See `tanist validate --help`."
LEVEL: Final = Param(DEFAULT, type="string", enum=_LEVELS, title="Level", description=_ABOUT)
AFTERWARDS: Final = Param(
    DEFAULT,
    type="string",
    enum=[*(level for level in _LEVELS if level != Level.RANGES), NOTHING],  # ranges tell nothing of what is promoted
    title="Validation at the end",
    description=(
        f"How thoroughly source and destination are compared after the failover; no step waits for it. {_ABOUT}"
    ),
)
PARAMS: Final = {
    "destination": Param(
        type="string", pattern=WISHED["destination"].schema["pattern"], title="Destination", description="A connection."
    ),
    "mirror": WISHED["mirror"],
    "topics": Param(
        [],
        type="array",
        items={"type": "string"},
        title="Topics",
        description="Regular expressions that match whole topic names. Empty: all mirrored topics.",
    ),
    "level": LEVEL,
}


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


class Validate(SparkSubmitOperator):
    """Validates the mirror of the run's parameters at the level of the parameter `level`.

    Fails if the logs differ, or if that is unknown. The XCom contains the verdict and the folder of `result.json` and
    `report.html`. The job's file contains the clusters' secrets; only its owner can read it, and it is deleted when
    the task ends. Airflow sees its path.
    """

    def __init__(self, *, level: str = "level", **options: Any) -> None:
        super().__init__(conn_id=SPARK, deploy_mode="client", durable=False, **options)
        self.level = level

    def execute(self, context: Context) -> Any:
        """Prepare as the command line does, submit as Airflow does.

        Raises:
            AirflowFailException: the logs differ, or the parameters are invalid.
            AirflowException: the result is unknown.
            AirflowSkipException: the source of an unplanned failover does not answer.
        """
        params = parameters(context)
        if params[self.level] == NOTHING:
            return {"verdict": "SKIPPED", "reason": "validate=nothing"}
        submission = self._prepared(params, str(context["run_id"]))
        with translate_errors():
            result = self._submitted(context, submission)
            summary = {name: result[name] for name in ("verdict", "reason", "level", "records", "bytes", "seconds")}
            folder = str(submission.folder)
            print(f"{summary['verdict']}: {summary['reason']}; {folder}/report.html")  # noqa: T201  # the task's log
            if result["verdict"] == ValidationVerdict.DIFFERENT:
                raise CopyDiffers(f"{result['reason']}; {folder}/report.html")
            if result["verdict"] != ValidationVerdict.EQUAL:
                raise CouldNotTell(f"{result['reason']}; {folder}/report.html")
        return summary | {"folder": folder}

    def _prepared(self, params: Mapping[str, Any], run: str) -> Submission:
        level = None if params[self.level] == DEFAULT else Level(params[self.level])
        folder = connections.evidence() / "validation" / params["mirror"] / re.sub(r"[^\w.-]", "_", run)
        with at_work() as task:
            where = place()
            wanted = ValidationRequest(level=level, include=tuple(params["topics"]))
            try:
                there, mirror = task.registry.connect(params["destination"]), mirror_name(params["mirror"])
                there = task.registry.forwarded(there, mirror, task.context) or there  # reversed since
                return replace(validation(task.registry, there, mirror, wanted, folder, task.context), place=where)
            except SourceSilent as silent:
                if params.get("mode") != Mode.UNPLANNED:
                    raise
                leave(f"SKIPPED: {silent}")
                raise AirflowSkipException(str(silent)) from silent

    def _submitted(self, context: Context, submission: Submission) -> dict[str, Any]:
        """The result of the job; if there is none, Airflow's error."""
        self.name = f"validate {submission.job.mirror}"
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
