"""`tanist fetcher forget`: an operator says that workers have ended for good.

A worker is on record until then, and its login counts as one that the mirror copies with, because nothing that can be
read says whether a silent process has ended, or is frozen and will write again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import Refused
from tanist.domain.failover.limitations import SILENT_MS
from tanist.domain.problems import refuse
from tanist.domain.records import STATE_TOPIC
from tanist.domain.state_record import Tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tanist.domain.names import EpochMs
    from tanist.domain.records import WorkerAlive
    from tanist.ports.cluster import Cluster
    from tanist.ports.state import StateStore
    from tanist.usecases.command import CommandContext

WORKER_COLUMNS: Final = ("worker", "host", "version", "principal", "age_ms")


class UnknownWorker(Refused):
    name = "UNKNOWN_WORKER"
    operator_action = "`tanist state dump --key worker/` lists the workers; nothing was changed"


class WorkerRuns(Refused):
    name = "WORKER_RUNS"
    operator_action = (
        f"it has reported itself within {SILENT_MS // 1000} s: stop it, then run the same command again; "
        "nothing was changed"
    )


def forget_workers(
    ids: Sequence[str],
    destination: Cluster,
    open_store: Callable[[], AbstractContextManager[StateStore]],
    command: CommandContext,
) -> tuple[WorkerAlive, ...]:
    """Delete the records of workers; returns them. One that lives all the same is on record again within seconds.

    `open_store`: the state topic, open for changes.

    Raises:
        UnknownWorker, WorkerRuns: nothing was changed. AuthorizationFailed.
    """
    known = {each.worker: each for each in destination.state(STATE_TOPIC, command.by).workers()}
    now, wanted = command.clock.now(), tuple(dict.fromkeys(ids))
    if unknown := [each for each in wanted if each not in known]:
        refuse(UnknownWorker(f"{destination.name!r} has no worker {each!r} on record") for each in unknown)
    found = tuple(known[each] for each in wanted)
    if alive := [each.worker for each in found if now - each.at <= SILENT_MS]:
        refuse(WorkerRuns(f"worker {each!r} runs") for each in alive)
    if not command.dry_run:
        with open_store() as store:
            store.append([Tombstone(each.key) for each in found], command.by)
    return found


def worker_item(worker: WorkerAlive, now: EpochMs) -> dict[str, Any]:
    """A worker; `principal`: its login at the destination, None: not known."""
    age = max(0, now - worker.at)
    return {
        "worker": worker.worker,
        "host": worker.host,
        "version": worker.version,
        "started_at_ms": worker.started_at,
        "age_ms": age,
        "alive": age <= SILENT_MS,
        "principal": worker.principal,
    }
