"""`tanist validate` as a task: the same job, submitted by Airflow's Spark operator. Its verdict decides the task."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowSkipException

from tanist.airflow import connections
from tanist.airflow.params import PARAMS as WISHED
from tanist.airflow.params import parameters
from tanist.airflow.spark_task import SparkTask, place
from tanist.airflow.tasks import at_work, leave, translate_errors
from tanist.domain.checks import Mode
from tanist.domain.errors import CopyDiffers, CouldNotTell, SourceSilent
from tanist.domain.names import mirror_name
from tanist.domain.validation.job import Level
from tanist.domain.validation.result import ValidationVerdict
from tanist.usecases.validation.prepare import ValidationRequest
from tanist.wiring.validation import validation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from tanist.spark_submit.submission import Submission

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


class Validate(SparkTask):
    """Validates the mirror of the run's parameters at the level of the parameter `level`.

    Fails if the logs differ, or if that is unknown. The XCom contains the verdict and the folder of `result.json` and
    `report.html`.
    """

    def __init__(self, *, level: str = "level", **options: Any) -> None:
        super().__init__(**options)
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
            result = self.submitted(context, submission, f"validate {submission.job.mirror}")
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
