"""A DAG run from its begin to its end, by `dag.test()`; also in a process of its own, which can be stopped.

Airflow reads its settings when it is first imported: they are in the environment before anything here is called.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from airflow.sdk import DAG

_SLEEP = time.sleep  # noqa: TID251 -- Airflow's own
_WAITS: Final = {"awaiting_input", "up_for_retry"}


@dataclass(frozen=True)
class Ended:
    """Its id, its state, and the state of each task; a mapped one is told by its number."""

    run: str
    state: str
    tasks: dict[str, str]


def run(dag: DAG, conf: dict[str, Any], by_hand: str = "") -> Ended:
    """Run it; the tasks that `by_hand` matches are marked successful."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", _impatient)
        for name, kept in _known_files().items():
            patch.setattr(f"airflow.dag_processing.dagbag.{name}", kept)
        ended = dag.test(run_conf=conf, mark_success_pattern=re.compile(by_hand) if by_hand else None)
    tasks = {_named(ti): _state(ti) for ti in ended.get_task_instances()}
    return Ended(str(ended.run_id), str(ended.state), tasks)


def main() -> None:
    """`mirror_failover` with the parameters in `sys.argv` (JSON); the last line of standard output is its `Ended`."""
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 -- see above

    with pytest.MonkeyPatch.context() as patch:  # that an unfinished failover is watched is not tested here
        patch.setattr("tanist.usecases.failover.unfinished_runs.WATCH_SECONDS", 1.0)
        bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
        ended = run(bag.dags["mirror_failover"], json.loads(sys.argv[1]))
    print(json.dumps(vars(ended)))  # noqa: T201


def killed_in_the_rescue() -> None:
    """`mirror_failback` with the parameters in `sys.argv` (JSON), which is killed once it has rescued a few records."""
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 -- see above

    from tanist.airflow import failback  # noqa: PLC0415 -- see above
    from tanist.kafka.adapters import quarantine  # noqa: PLC0415 -- see above

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quarantine, "BATCH_BYTES", 50)
        patch.setattr(failback.Progress, "__call__", lambda *_said: os.kill(os.getpid(), signal.SIGKILL))
        bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
        run(bag.dags["mirror_failback"], json.loads(sys.argv[1]))


def _named(ti: Any) -> str:
    return str(ti.task_id) if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]"


def _state(ti: Any) -> str:
    return str(getattr(ti.state, "value", ti.state))


@cache
def _known_files() -> dict[str, Any]:
    """`dag.test()` parses all DAG files, and writes them to its database, for every run; they do not change."""
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db  # noqa: PLC0415 -- see above

    return {"BundleDagBag": cache(BundleDagBag), "sync_bag_to_db": cache(sync_bag_to_db)}


def _impatient(seconds: float) -> None:
    """`dag.test()` sleeps a whole second for every step that an earlier failure skips. Others sleep as they want.

    Where it waits for somebody, each look costs as much as it shall sleep.
    """
    caller = sys._getframe(1)
    if caller.f_code.co_filename.endswith("definitions/dag.py"):
        seconds = 0.2 if _WAITS & set(map(_state, caller.f_locals["all_tis"])) else 0.02
    _SLEEP(seconds)
