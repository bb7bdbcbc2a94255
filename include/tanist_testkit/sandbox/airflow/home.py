"""The directory of one Airflow: what lies where, and what is remembered of it.

airflow.cfg  keys.json  passwords.json     only their owner can read them
airflow.json                               what was asked for, and who keeps it running
processes.json                             what runs, written by the keeper
database/  logs/  *.log                    PostgreSQL's data, Airflow's task logs, one log per process
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tanist.domain.endpoint import Secret
from tanist.domain.errors import Misconfigured
from tanist_testkit.sandbox.processes import Process

PLACE: Final = "airflow"
"""Where Airflow lives in the directory of a sandbox."""
USERS: Final = {"admin": "admin", "op": "op", "op2": "op", "viewer": "viewer"}
"""User to role. Two of them may operate, so that one can approve what the other has asked for."""


class Component(StrEnum):
    """A process of Airflow, by the name of its command."""

    API_SERVER = "api-server"
    SCHEDULER = "scheduler"
    DAG_PROCESSOR = "dag-processor"
    TRIGGERER = "triggerer"
    DATABASE = "database"


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowSpec:
    """What one Airflow shall be. `parallelism`: tasks at a time; two double the time of a runbook."""

    dags: Path
    plugins: Path
    parallelism: int = 4

    def __post_init__(self) -> None:
        for folder in (self.dags, self.plugins):
            if not folder.is_dir():
                raise Misconfigured(f"there is no folder {folder}")
            if not folder.is_absolute():
                raise Misconfigured(f"{folder} must be an absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What `airflow.json` says. `keeper` is None before the first start."""

    spec: AirflowSpec
    port: int
    keeper: Process | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """A process of ours. `at_ms`: when it was started; a heartbeat from before is not its own."""

    process: Process
    at_ms: int


class Home:
    """One directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.config = self.directory / "airflow.cfg"
        self.keys = self.directory / "keys.json"
        self.passwords = self.directory / "passwords.json"
        self.database = self.directory / "database"
        self.logs = self.directory / "logs"
        self._remembered = self.directory / "airflow.json"
        self._processes = self.directory / "processes.json"

    @property
    def exists(self) -> bool:
        """Whether an Airflow was made here."""
        return self._remembered.exists()

    def log(self, of: str) -> Path:
        """The log of a component, or of `database`."""
        return self.directory / f"{of}.log"

    def remember(self, state: Remembered) -> None:
        """Writes what the next command on this directory has to know."""
        spec = {"dags": str(state.spec.dags), "plugins": str(state.spec.plugins), "parallelism": state.spec.parallelism}
        keeper = asdict(state.keeper) if state.keeper else None
        _replace(self._remembered, {"spec": spec, "port": state.port, "keeper": keeper})

    def recall(self) -> Remembered:
        """Raises Misconfigured when there is no Airflow here, or its file cannot be read."""
        try:
            read = json.loads(self._remembered.read_text(encoding="utf-8"))
            spec = read["spec"] | {key: Path(read["spec"][key]) for key in ("dags", "plugins")}
            keeper = Process(**read["keeper"]) if read["keeper"] else None
            return Remembered(spec=AirflowSpec(**spec), port=read["port"], keeper=keeper)
        except FileNotFoundError:
            raise Misconfigured(f"no Airflow in {self.directory}: start one with `tanist sandbox airflow up`") from None
        except (ValueError, KeyError, TypeError) as problem:
            raise Misconfigured(f"{self._remembered} is damaged ({problem}): remove {self.directory}") from problem

    def write_processes(self, started: dict[Component, Started]) -> None:
        """For `read_processes`."""
        _replace(self._processes, {name: asdict(one) for name, one in started.items()})

    def read_processes(self) -> dict[Component, Started]:
        """As the keeper last wrote them; each may have ended since."""
        try:
            read = json.loads(self._processes.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return {Component(name): Started(Process(**one["process"]), one["at_ms"]) for name, one in read.items()}

    def password(self, user: str) -> Secret:
        """Raises Misconfigured when there is no such user, or nothing was started yet."""
        try:
            return Secret(json.loads(self.passwords.read_text(encoding="utf-8"))[user])
        except (OSError, ValueError, KeyError):
            raise Misconfigured(f"{self.passwords} holds no user {user!r}, only: {', '.join(USERS)}") from None


def _replace(file: Path, content: dict[str, Any]) -> None:
    """In one go: a reader, or a crash, sees the old file or the new one."""
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(content, indent=1), encoding="utf-8")
    fresh.replace(file)
