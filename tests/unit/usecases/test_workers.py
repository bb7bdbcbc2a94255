"""An operator says that workers have ended for good; nothing else removes them, and the logins that they reported."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from tanist.domain.logins import MirrorLogin, logins_of
from tanist.domain.records import STATE_TOPIC, WorkerAlive
from tanist.usecases.workers import UnknownWorker, WorkerRuns, forget_workers
from tests.builders import a_command, a_worker
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import MemoryCluster
from tests.fakes.state import WORKER, MemoryStateStore

if TYPE_CHECKING:
    from tanist.usecases.command import CommandContext


class Workers:
    """A destination with workers on record."""

    def __init__(self) -> None:
        self.clock, self.memory = JumpingClock(), MemoryCluster()
        self.memory.with_topic(STATE_TOPIC)
        self.store = MemoryStateStore(self.memory, STATE_TOPIC, WORKER)
        self.west = self.memory.side()

    def reports(self, worker: str, principal: str) -> None:
        now = self.clock.now()
        alive = a_worker(worker, at=now, principal=principal)
        self.store.append([alive], self.clock.deadline(9))

    def forget(self, *ids: str, command: CommandContext | None = None) -> tuple[WorkerAlive, ...]:
        return forget_workers(ids, self.west, lambda: nullcontext(self.store), command or a_command(self.clock))

    def logins(self) -> tuple[MirrorLogin, ...]:
        return logins_of(self.west.state(STATE_TOPIC, self.clock.deadline(9)).workers())


def test_login_of_an_ended_worker_counts_until_the_worker_is_forgotten() -> None:
    here = Workers()
    here.reports("old", "User:old")
    here.clock.jump(7 * 86_400)
    here.reports("new", "User:new")
    assert here.logins() == (MirrorLogin("User:new"), MirrorLogin("User:old"))
    assert [each.worker for each in here.forget("old", command=a_command(here.clock, dry_run=True))] == ["old"]
    assert len(here.logins()) == 2
    assert [each.worker for each in here.forget("old", "old")] == ["old"]
    assert here.logins() == (MirrorLogin("User:new"),)


def test_only_workers_on_record_that_are_silent_are_forgotten() -> None:
    here = Workers()
    here.reports("old", "User:old")
    here.clock.jump(60)
    here.reports("new", "User:new")
    with pytest.raises(UnknownWorker, match="'olt'"):
        here.forget("old", "olt")
    with pytest.raises(WorkerRuns, match="'new'"):
        here.forget("old", "new")
    assert len(here.logins()) == 2
