"""The periodic DAGs: metadata sync and commits of group offsets, for every mirror.

Each mirror is a mapped task, and each task stores its result under `DONE`, whether it fails or not. While a failover
holds the lock of a mirror its task is skipped, and so is that of the metadata sync if somebody else copies the mirror.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from tanist.airflow.connections import DESTINATIONS, destinations
from tanist.airflow.markdown import table
from tanist.airflow.tasks import WHY, at_work, next_of
from tanist.domain.copier import CopiedByAnother
from tanist.domain.errors import MirrorLocked, Misconfigured, TanistError
from tanist.domain.followed import sync_is_due
from tanist.domain.names import mirror_name
from tanist.domain.records import STATE_TOPIC
from tanist.usecases import periodic
from tanist.usecases.mirror import identify
from tanist.usecases.periodic import PeriodicResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.airflow.tasks import FailoverTask
    from tanist.domain.records import MirrorSpec

DONE: Final = "done"
"""The XCom in which each mapped task stores its result."""
MIRRORS: Final = "mirrors"
_MOST_SHOWN: Final = 100


def mirrors() -> list[dict[str, str]]:
    """All mirrors of all destinations. A destination that cannot be read also has an entry, whose task fails."""
    with at_work() as task:
        if not (names := destinations()):
            raise Misconfigured(f"no destination is configured: list the clusters that hold mirrors in {DESTINATIONS}")
        return [found for name in names for found in _mirrors_of(name, task)]


def _mirrors_of(destination: str, task: FailoverTask) -> list[dict[str, str]]:
    try:
        side = task.registry.connect(destination)
        identify((side,), task.context)
        found = side.state(STATE_TOPIC, task.context.by).mirrors()
    except TanistError as error:
        return [{"destination": destination, "trouble": str(error)}]
    return [{"destination": destination, "mirror": spec.mirror} for spec in found]


def sync_metadata(target: Mapping[str, str]) -> None:
    """`tanist metadata sync` of one mirror."""
    _sync_one(target, _metadata)


def sync_positions(target: Mapping[str, str]) -> None:
    """`tanist groups sync` of one mirror."""
    _sync_one(target, _positions)


def _sync_one(target: Mapping[str, str], do: Callable[[FailoverTask, str, str], PeriodicResult]) -> None:
    """Run the sync, store its result, and fail or succeed accordingly."""
    context = get_current_context()
    context["of"] = name_of(target)  # type: ignore[typeddict-unknown-key]  # for the mapped task's label
    if trouble := target.get("trouble"):
        raise AirflowFailException(trouble)
    with at_work() as task:
        try:
            done = do(task, target["destination"], target["mirror"])
        except (MirrorLocked, CopiedByAnother) as held:
            context["ti"].xcom_push(key=DONE, value={"summary": f"skipped: {held.reason}"})
            raise AirflowSkipException(str(held)) from held
    wrong = [*done.decide, *done.again]
    context["ti"].xcom_push(key=DONE, value={"summary": done.summary, "counts": dict(done.counts), "wrong": wrong})
    page = _page(done.columns, done.items)
    print(f"Mirror `{name_of(target)}`: {done.summary}\n\n{page}")  # noqa: T201  # the task's log
    if done.decide:
        raise AirflowFailException("; ".join(done.decide))
    if done.again:
        raise AirflowException("; ".join(done.again))


def report(task_id: str) -> list[dict[str, Any]]:
    """The results of all mirrors in this run: a table in the log, and items."""
    ti = get_current_context()["ti"]
    targets = ti.xcom_pull(task_ids=MIRRORS) or []
    found = [_reported(ti, task_id, number, target) for number, target in enumerate(targets)]
    wrong = [n for n, each in enumerate(found) if each["wrong"] and "mirror" in targets[n]]
    advised = next_of(*((targets[n]["destination"], targets[n]["mirror"]) for n in wrong))
    for n, steps in zip(wrong, advised, strict=True):
        found[n]["next"] = steps[0]["command"] if steps else ""
    print(table(("mirror", "what was done", "what is wrong", "next"), (tuple(each.values()) for each in found)))  # noqa: T201
    return found


def _reported(ti: Any, task_id: str, number: int, target: Mapping[str, str]) -> dict[str, Any]:
    done = ti.xcom_pull(task_ids=task_id, key=DONE, map_indexes=number) or {}
    why = ti.xcom_pull(task_ids=task_id, key=WHY, map_indexes=number)
    wrong = target.get("trouble") or "; ".join(done.get("wrong", ())) or why or ""
    return {"mirror": name_of(target), "done": done.get("summary", "nothing"), "wrong": wrong, "next": ""}


def name_of(target: Mapping[str, str]) -> str:
    """Of a mirror that is one task of several."""
    return f"{target['destination']}/{target.get('mirror', '?')}"


# ── what is done ──────────────────────────────────────────────────────────────────────────────────────────────────


def _metadata(task: FailoverTask, destination: str, mirror: str) -> PeriodicResult:
    return periodic.sync_metadata(
        mirror_name(mirror), task.registry.connect(destination), task.registry.connect, task.context
    )


def _positions(task: FailoverTask, destination: str, mirror: str) -> PeriodicResult:
    there = task.registry.connect(destination)
    found = task.registry.open_mirror(there, mirror_name(mirror), task.context, any_copier=True)
    if not _is_due(found.spec):
        return PeriodicResult(summary=f"not due: every {found.spec.sync_groups_seconds} s")
    return periodic.sync_positions(found, task.context)


def _is_due(spec: MirrorSpec) -> bool:
    """Runs that somebody has triggered are due for every mirror. One that has failed does not count as a run."""
    context = get_current_context()
    run, before = context["dag_run"], context.get("prev_start_date_success")
    if before is None or run.start_date is None or run.run_type != "scheduled":
        return True
    return sync_is_due(spec, int(before.timestamp()), int(run.start_date.timestamp()))


def _page(columns: Sequence[str], items: Sequence[Mapping[str, Any]]) -> str:
    if not items:
        return ""
    rows = ([item[column] for column in columns] for item in islice(items, _MOST_SHOWN))
    more = f"\n\nand {len(items) - _MOST_SHOWN} more" if len(items) > _MOST_SHOWN else ""
    return table(columns, rows) + more
