"""A whole Airflow on this machine.

    with Airflow.new(AirflowSpec(dags=dags, plugins=plugins)) as airflow, airflow.rest("op") as op:
        op.trigger("mirror_failover")

Its processes end with the `with` block, with this Python process, or with both, whatever comes first and however.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from tanist.domain.errors import PortTaken, ProcessFailed, TimedOut, Unreachable
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.airflow.config import environment, url
from tanist_testkit.sandbox.airflow.home import Component, Home, Remembered
from tanist_testkit.sandbox.airflow.rest import Rest, health, prepare_for_tasks
from tanist_testkit.sandbox.ports import check_free, free_ports
from tanist_testkit.sandbox.processes import Guardian

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from tanist_testkit.sandbox.airflow.home import AirflowSpec, Started
    from tanist_testkit.sandbox.airflow.rest import AirflowConnection

READY_SECONDS: Final = 300.0
"""A first start takes 20 s on two idle cores, and twice that on busy ones."""
NONE: Final[Mapping[str, str]] = MappingProxyType({})
_STOP: Final = 13.0
_GONE: Final = 5.0
_POLL: Final = 0.4
_TOLD: Final = {
    Component.DATABASE: "metadatabase",
    Component.SCHEDULER: "scheduler",
    Component.DAG_PROCESSOR: "dag_processor",
    Component.TRIGGERER: "triggerer",
}
_HEALTHY: Final = "healthy"


@dataclass(frozen=True, slots=True)
class Part:
    """One process as it is now. `healthy`: what Airflow says of it; None: it says nothing of the launcher."""

    component: str
    pid: int | None
    alive: bool
    healthy: bool | None


class Airflow:
    """Made by `new` or `open`."""

    def __init__(self, home: Home, guardian: Guardian | None, *, bound: bool, temporary: bool) -> None:
        self._home, self._bound, self._temporary = home, bound, temporary
        self._guardian, self._own_guardian = guardian or Guardian(), guardian is None

    @classmethod
    def new(
        cls,
        spec: AirflowSpec,
        directory: Path | None = None,
        *,
        guardian: Guardian | None = None,
        bound: bool = True,
    ) -> Self:
        """One that is not started yet, in `directory`, or in a temporary one that `close` removes.

        A database that is in `directory` is kept. Unbound ones (`bound=False`) live on after `guardian.release()`;
        `open` finds them again.
        """
        home = Home(directory or Path(tempfile.mkdtemp(prefix="tanist-airflow-")))
        home.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        port = home.recall().port if home.exists else free_ports(1)[0]
        home.remember(Remembered(spec=spec, port=port))
        return cls(home, guardian, bound=bound, temporary=directory is None)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """The one that was started in `directory`, running or not. Raises Misconfigured when there is none."""
        home = Home(directory)
        home.recall()
        return cls(home, None, bound=True, temporary=False)

    def __repr__(self) -> str:
        return f"Airflow({str(self._home.directory)!r}, {self.url!r})"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ── what it is ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def spec(self) -> AirflowSpec:
        """What it was asked to be."""
        return self._home.recall().spec

    @property
    def directory(self) -> Path:
        """Where its configuration, its database and its logs are."""
        return self._home.directory

    @property
    def url(self) -> str:
        """Of its web page and its REST API."""
        return url(self._home.recall().port)

    @property
    def passwords(self) -> Path:
        """The file with the users' passwords, made by the first start."""
        return self._home.passwords

    @property
    def running(self) -> bool:
        """Whether its supervisor runs; see `healthy` for its components."""
        keeper = self._home.recall().keeper
        return keeper is not None and keeper.alive

    def rest(self, user: str) -> Rest:
        """The REST API as `user`, one of `tanist_testkit.sandbox.airflow.home.USERS`. Raises Misconfigured."""
        return Rest(self.url, user, self._home.password(user))

    def log_file(self, component: str) -> Path:
        """The log of one component, or of `database`."""
        return self._home.log(component)

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """For a command `airflow ...` of the same installation."""
        return environment(self._home, inherited)

    def parts(self) -> tuple[Part, ...]:
        """Every component, the database, and the launcher that keeps them running."""
        started, keeper, statuses = self._home.read_processes(), self._home.recall().keeper, self._statuses()
        shown = (_part(component, started.get(component), statuses) for component in Component)
        return (*shown, Part("launcher", keeper.pid if keeper else None, keeper is not None and keeper.alive, None))

    @property
    def healthy(self) -> bool:
        """Whether every part is alive and has told so since it was started."""
        return all(part.alive and part.healthy is not False for part in self.parts())

    def _statuses(self) -> Mapping[str, Any] | None:
        try:
            return health(self.url)
        except Unreachable:
            return None

    # ── what it does ──────────────────────────────────────────────────────────────────────────────────────────────

    def start(
        self,
        connections: Sequence[AirflowConnection] = (),
        variables: Mapping[str, str] = NONE,
        seconds: float = READY_SECONDS,
    ) -> None:
        """Starts it if it is not running, waits until it is healthy, and stores `connections` and `variables`.

        Raises:
            ProcessFailed: it ended by itself; names its log.
            TimedOut: not healthy within `seconds`.
            MissingDependency: of the extras `airflow` and `sandbox`.
        """
        by = Deadline(time.monotonic() + seconds)
        self.launch()
        self.wait_ready(by)
        self.announce(connections, variables)

    def launch(self) -> None:
        """Starts it if it is not running, and does not wait: `start` does. Raises ProcessFailed."""
        if self.running:
            return
        state = self._home.recall()
        try:
            check_free(state.port)
        except PortTaken:
            state = replace(state, port=free_ports(1)[0])
        self._home.remember(state)
        self._home.write_processes({})
        if self._temporary:
            self._guardian.remove_at_end(self.directory)
        self._home.log("keeper").write_text("", encoding="utf-8")
        argv = [sys.executable, "-m", "tanist_testkit.sandbox.airflow.supervisor", str(self.directory)]
        keeper = self._guardian.spawn(argv, self._home.log("keeper"), bound=self._bound)
        self._home.remember(replace(state, keeper=keeper))

    def announce(self, connections: Sequence[AirflowConnection], variables: Mapping[str, str]) -> None:
        """Stores them in Airflow's database, where people can see and edit them. Replaces namesakes."""
        with self.rest("admin") as admin:
            for connection in connections:
                admin.put_connection(connection)
            for name, value in variables.items():
                admin.put_variable(name, value)

    def wait_ready(self, by: Deadline) -> None:
        """Returns when it is healthy and can run tasks. Raises as `start` does."""
        while not self._can_run_tasks(by):
            if not self.running:
                raise ProcessFailed(self._last_words())
            if not by.left(time.monotonic()):
                unwell = ", ".join(part.component for part in self.parts() if part.healthy is False)
                raise TimedOut(f"Airflow is not healthy yet ({unwell}), logs: {self.directory}")
            time.sleep(_POLL)

    def _can_run_tasks(self, by: Deadline) -> bool:
        if not self.healthy:
            return False
        try:
            prepare_for_tasks(self.url, by.left(time.monotonic()))
        except Unreachable:
            return False
        return True

    def stop(self, seconds: float = _STOP) -> None:
        """Ends it in order; what is left after `seconds` is killed. Its database stays."""
        state = self._home.recall()
        if state.keeper:
            state.keeper.send(signal.SIGTERM)
            state.keeper.wait(Deadline(time.monotonic() + seconds))
        self._kill()
        self._home.remember(replace(state, keeper=None))

    def close(self) -> None:
        """Ends it at once; a temporary directory goes with it, a given one stays and can be started again."""
        self._kill()
        if self._own_guardian:
            self._guardian.close()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    # ── how ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _kill(self) -> None:
        """The launcher's guardian kills the rest, when it sees that the launcher has gone."""
        keeper = self._home.recall().keeper
        if keeper:
            keeper.send(signal.SIGKILL)
            keeper.wait(Deadline(time.monotonic() + _GONE))
        by = Deadline(time.monotonic() + _GONE)
        for one in self._home.read_processes().values():
            one.process.wait(by)

    def _last_words(self) -> str:
        log = self._home.log("keeper")
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        return f"Airflow has ended by itself: {lines[-1] if lines else 'without a word'}, log: {log}"


def _part(component: Component, started: Started | None, statuses: Mapping[str, Any] | None) -> Part:
    alive = started is not None and started.process.alive
    well = started is not None and alive and _well(component, started, statuses)
    return Part(component, started.process.pid if started else None, alive, well)


def _well(component: Component, started: Started, statuses: Mapping[str, Any] | None) -> bool:
    """A heartbeat of the process before this one does not count."""
    if statuses is None or component not in _TOLD:
        return statuses is not None
    said = statuses.get(_TOLD[component]) or {}
    beats = [datetime.fromisoformat(at).timestamp() * 1000 for key, at in said.items() if "heartbeat" in key and at]
    return said.get("status") == _HEALTHY and all(at >= started.at_ms for at in beats)
