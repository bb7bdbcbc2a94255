"""The Airflow of a sandbox's directory, which outlives the command that started it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import tanist
from tanist.domain.errors import Misconfigured
from tanist.spark_submit.jars import locked
from tanist_testkit.sandbox.airflow.home import PLACE, AirflowSpec, Home
from tanist_testkit.sandbox.airflow.service import Airflow
from tanist_testkit.sandbox.processes import Guardian

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist_testkit.sandbox.airflow.rest import AirflowConnection


def find(directory: Path) -> Airflow | None:
    """The one of `directory`, running or not."""
    home = directory / PLACE
    return Airflow.open(home) if Home(home).exists else None


def up(
    directory: Path,
    spec: AirflowSpec,
    connections: Sequence[AirflowConnection],
    variables: Mapping[str, str],
    say: Callable[[str], None],
) -> bool:
    """Makes it run and be healthy; False: it did already. When it does not return, what it started is gone.

    Raises:
        Misconfigured: it runs with other folders.
        TanistError: see `Airflow.start`.
    """
    home = directory / PLACE
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(home / ".lock"):
        found = find(directory)
        if found and found.running:
            if found.spec != spec:
                raise Misconfigured(f"it runs with {found.spec.dags} and {found.spec.plugins}: `down` comes first")
            found.start(connections, variables)
            return False
        say(f"airflow: starting, logs: {home}/*.log")
        _start(home, spec, connections, variables)
    return True


def _start(
    home: Path, spec: AirflowSpec, connections: Sequence[AirflowConnection], variables: Mapping[str, str]
) -> None:
    with Guardian() as guardian:
        airflow = Airflow.new(spec, home, guardian=guardian, bound=False)
        try:
            airflow.start(connections, variables)
        except BaseException:
            airflow.close()
            raise
        guardian.release()


def down(directory: Path, *, delete: bool, say: Callable[[str], None]) -> bool:
    """Stops it; False: it did not run. `delete` removes it and its database as well."""
    home = directory / PLACE
    if not home.is_dir():
        return False
    with locked(home / ".lock"):
        found = find(directory)
        running = found is not None and found.running
        if running:
            say("airflow: stopping")
        if found:
            found.stop()
        if delete:
            shutil.rmtree(home)
    return running


def folder(name: str) -> Path:
    """`dags` or `plugins` of the project that this package runs from.

    Raises:
        Misconfigured: it is installed without a project around it.
    """
    project = Path(tanist.__file__).resolve().parents[2]
    if not (project / "pyproject.toml").is_file() or not (project / name).is_dir():
        raise Misconfigured(f"this is no checkout of Tanist with a folder {name}: give --{name} FOLDER")
    return project / name
