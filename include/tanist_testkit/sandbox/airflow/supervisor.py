"""The process that keeps one Airflow running: starts all its parts, starts again what dies, ends them all.

    python -m tanist_testkit.sandbox.airflow.supervisor DIRECTORY

SIGTERM ends everything in order. When it is killed, its guardian kills everything at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import ProcessFailed, Stopped, TimedOut
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.airflow.config import environment, write_config
from tanist_testkit.sandbox.airflow.database import Database
from tanist_testkit.sandbox.airflow.home import Component, Home, Started
from tanist_testkit.sandbox.guardian import kill_session
from tanist_testkit.sandbox.processes import Guardian, Process

if TYPE_CHECKING:
    from collections.abc import Callable

_AIRFLOW: Final = (sys.executable, "-m", "airflow")
_COMMANDS: Final = {
    Component.API_SERVER: ("api-server",),
    Component.SCHEDULER: ("scheduler", "--skip-serve-logs"),  # all on one machine: logs are read from their files
    Component.DAG_PROCESSOR: ("dag-processor",),
    Component.TRIGGERER: ("triggerer", "--skip-serve-logs"),
}
_LOOK: Final = 0.3  # seconds
_DATABASE: Final = 30.0
_MIGRATION: Final = 120.0
_GRACE: Final = 6.0
"""Components are done within a second or two; the rest is Python taking itself apart, slowly on a busy machine."""
_LAST: Final = 3.0
_SLOWEST: Final = 10.0
_STEADY_MS: Final = 30_000
"""Who has run that long did not die of how it was started."""


class Supervisor:
    """Starts the database and every component, and again those that end."""

    def __init__(self, home: Home, guardian: Guardian, stop: threading.Event) -> None:
        self._home, self._guardian, self._stop = home, guardian, stop
        self._database = Database(home)
        guardian.remove_at_end(self._database.socket)
        self._started: dict[Component, Started] = {}
        self._deaths: dict[Component, int] = {}

    def run(self) -> None:
        """Until `stop` is set. Raises ProcessFailed, TimedOut: it cannot be started."""
        write_config(self._home, self._home.recall(), self._database)
        self._open_database()
        for component in _COMMANDS:
            self._start(component)
        while not self._stop.wait(_LOOK):
            for component, one in tuple(self._started.items()):
                if not one.process.alive:
                    self._restart(component, one)

    def end(self) -> None:
        """Components first, then the database; what does not end in time is killed, and what it has left behind."""
        database = self._started.pop(Component.DATABASE, None)
        _end([one.process for one in self._started.values()], signal.SIGTERM, _GRACE)
        if database:
            _end([database.process], signal.SIGINT, _LAST)
        self._database.close()

    def _open_database(self) -> None:
        migrated = self._home.directory / f"migrated-{_version()}"
        if not any(self._home.directory.glob("migrated-*")):
            self._database.remove()  # a first start that was never finished
            self._database.create()
        self._start(Component.DATABASE)
        server = self._started[Component.DATABASE].process
        self._wait_until(self._database.answers, server, _DATABASE, Component.DATABASE)
        if not migrated.exists():
            self._migrate(migrated)

    def _migrate(self, done: Path) -> None:
        """`done` is made when it has worked, and tells so for ever."""
        script = ("/bin/sh", "-c", '"$@" && : > "$0"', str(done))
        process = self._guardian.spawn([*script, *_AIRFLOW, "db", "migrate"], self._home.log("migration"))
        try:
            self._wait_until(done.exists, process, _MIGRATION, "migration")
        finally:
            kill_session(process.pid)

    def _wait_until(self, ready: Callable[[], bool], process: Process, seconds: float, name: str) -> None:
        by = Deadline(time.monotonic() + seconds)
        while True:
            alive = process.alive
            if ready():
                return
            if not alive:
                raise ProcessFailed(f"{name} has ended by itself, log: {self._home.log(name)}")
            if not by.left(time.monotonic()):
                raise TimedOut(f"{name} is not ready after {seconds:.0f} s, log: {self._home.log(name)}")
            if self._stop.wait(_LOOK / 3):
                raise Stopped("Airflow is stopping")

    def _start(self, component: Component) -> None:
        command = [*_AIRFLOW, *_COMMANDS[component]] if component in _COMMANDS else self._database.command()
        process = self._guardian.spawn(command, self._home.log(component))
        self._started[component] = Started(process, time.time_ns() // 1_000_000)
        self._home.write_processes(self._started)

    def _restart(self, component: Component, dead: Started) -> None:
        steady = time.time_ns() // 1_000_000 - dead.at_ms > _STEADY_MS
        deaths = self._deaths[component] = 1 if steady else self._deaths.get(component, 0) + 1
        print(f"{component} (pid {dead.process.pid}) has died, restart {deaths}", flush=True)  # noqa: T201 -- our log
        if not self._stop.wait(min(_SLOWEST, deaths - 1)):
            self._start(component)


def _end(processes: list[Process], sign: signal.Signals, seconds: float) -> None:
    by = Deadline(time.monotonic() + seconds)
    for process in processes:
        process.send(sign)
    for process in processes:
        process.wait(by)
        kill_session(process.pid)


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415

    return version("apache-airflow-core")


def main() -> None:
    """`argv[1]` is the directory."""
    home, stop = Home(Path(sys.argv[1])), threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: stop.set())
    inherited = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment(home, inherited))
    os.chdir(home.directory)
    with Guardian() as guardian:
        keeper = Supervisor(home, guardian, stop)
        try:
            keeper.run()
        except (ProcessFailed, TimedOut) as problem:
            print(problem.reason, flush=True)  # noqa: T201 -- our log
            sys.exit(problem.exit_code)
        except Stopped:
            pass
        finally:
            keeper.end()


if __name__ == "__main__":
    main()
