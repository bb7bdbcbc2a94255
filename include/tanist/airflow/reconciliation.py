"""`tanist reconcile --publish` of mirrors as tasks: each is one job, submitted by Airflow's Spark operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tanist.airflow import connections, periodic_sync
from tanist.airflow.connections import RECONCILE_MIRRORS
from tanist.airflow.markdown import table
from tanist.airflow.periodic_sync import name_of
from tanist.airflow.spark_task import SparkTask, place
from tanist.airflow.tasks import at_work, translate_errors
from tanist.domain.errors import TanistError
from tanist.domain.followed import is_followed
from tanist.domain.names import mirror_name
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import EVERY_TOPIC
from tanist.spark_submit.steps_file import found_partitions
from tanist.usecases.reconciliation.pair import of_mirror
from tanist.usecases.reconciliation.publish import PublishedPartition, publish
from tanist.wiring.reconciliation import reconciliation

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tanist.spark_submit.submission import Submission
    from tanist.usecases.reconciliation.pair import Paired

PUBLISHING_SECONDS: Final = 600.0
_MOST_SHOWN: Final = 100
_COLUMNS: Final = ("partition", "steps", "merged", "why not")


def mirrors() -> list[dict[str, str]]:
    """The mirrors that are reconciled: those that `TANIST_RECONCILE_MIRRORS` names, otherwise all that others copy.

    A name is that of a mirror, or `destination/mirror`. A destination that cannot be read also has an entry, whose task
    fails, and so has a name that no destination has.
    """
    found = periodic_sync.mirrors()
    if named := connections.words(RECONCILE_MIRRORS):
        return _chosen(found, named)
    return [each for each in found if "trouble" in each or _copied_by_others(each)]


def _chosen(found: list[dict[str, str]], named: tuple[str, ...]) -> list[dict[str, str]]:
    wanted, silent = set(named), {each["destination"] for each in found if "trouble" in each}
    names = [{each.get("mirror", ""), name_of(each)} for each in found]
    known = set[str]().union(*names)
    why = "no destination of TANIST_DESTINATIONS has this mirror: see TANIST_RECONCILE_MIRRORS"
    absent = [
        {"destination": "?", "mirror": name, "trouble": why}
        for name in named
        if name not in known and not (silent if "/" not in name else silent & {name.partition("/")[0]})
    ]
    return [each for each, own in zip(found, names, strict=True) if "trouble" in each or own & wanted] + absent


def _copied_by_others(target: Mapping[str, str]) -> bool:
    """Also where that cannot be told any more: the task of the mirror says why."""
    with at_work() as task:
        try:
            view = task.registry.connect(target["destination"]).state(STATE_TOPIC, task.context.by)
        except TanistError:
            return True
        spec = view.mirror(mirror_name(target["mirror"]))
    return spec is not None and is_followed(spec)


@dataclass(frozen=True, slots=True)
class _Prepared:
    paired: Paired
    submission: Submission


class Reconcile(SparkTask):
    """Reconciles one mirror, and publishes the result. `target`: one of `mirrors`.

    What is unknown of a partition leaves its last publication as it is, and fails the task. The XCom contains the
    numbers of partitions that were published, and of those that were not.
    """

    def __init__(self, *, target: Mapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self.target = target

    def execute(self, context: Context) -> Any:
        """Prepare and publish as the command line does, submit as Airflow does.

        Raises:
            AirflowFailException: there is no such mirror, or another reason that a retry does not change.
            AirflowException: something is unknown.
        """
        target, ti = self.target, context["ti"]
        context["of"] = name_of(target)  # type: ignore[typeddict-unknown-key]  # for the task's label
        if trouble := target.get("trouble"):
            raise AirflowFailException(trouble)
        prepared = self._prepared(str(context["run_id"]))
        with translate_errors():
            result = self.submitted(context, prepared.submission, f"reconcile {target['mirror']}")
        told = self._published(prepared, result)
        wrong = [
            f"{each['source_topic']}-{each['partition']}: {each['reason']}"
            for each in result["partitions"]
            if each["reason"]
        ]
        wrong += [f"{each.partition}: not published: {each.why_not}" for each in told if each.why_not]
        counts = {"published": sum(not each.why_not for each in told), "unknown": len(wrong)}
        summary = f"{counts['published']} of {len(result['partitions'])} partition(s) published"
        ti.xcom_push(key=periodic_sync.DONE, value={"summary": summary, "counts": counts, "wrong": wrong})
        print(f"Mirror `{name_of(target)}`: {summary}\n\n{_page(told)}")  # noqa: T201  # the task's log
        if wrong:
            raise AirflowException("; ".join(wrong[:_MOST_SHOWN]))
        return counts

    def _prepared(self, run: str) -> _Prepared:
        target = self.target
        folder = (
            connections.evidence()
            / "reconciliation"
            / target["destination"]
            / target["mirror"]
            / re.sub(r"[^\w.-]", "_", run)
        )
        with at_work() as task:
            there, mirror = task.registry.connect(target["destination"]), mirror_name(target["mirror"])
            found = task.registry.open_mirror(there, mirror, task.context, any_copier=True)
            paired = of_mirror(found, EVERY_TOPIC, task.context)
            submission = reconciliation(task.registry, there.name, paired, (), folder, publish=True)
            return _Prepared(paired, replace(submission, place=place()))

    def _published(self, prepared: _Prepared, result: Mapping[str, Any]) -> tuple[PublishedPartition, ...]:
        with at_work(PUBLISHING_SECONDS) as task:
            there, found = (
                task.registry.connect(self.target["destination"]),
                found_partitions(prepared.submission.folder),
            )
            assert prepared.paired.mirror is not None  # noqa: S101  # it is of a mirror
            run, read_at = result["run"], result["as_of_ms"]
            return publish(there, prepared.paired.mirror, run, read_at, found, task.context)


def _page(rows: tuple[PublishedPartition, ...]) -> str:
    shown = sorted(rows, key=lambda each: not each.why_not)[:_MOST_SHOWN]
    return table(_COLUMNS, ((str(each.partition), each.steps, each.merged, each.why_not) for each in shown))
