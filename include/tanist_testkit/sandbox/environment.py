"""Two clusters, a configuration that names them, and fetcher workers: everything that must not outlive its owner."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tanist.domain.errors import Misconfigured
from tanist_testkit.sandbox.airflow.home import PLACE
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.fleet import Fleet, start_all
from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.sandbox.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.ports.clock import Clock
    from tanist_testkit.sandbox.airflow.home import AirflowSpec
    from tanist_testkit.sandbox.airflow.service import Airflow
    from tanist_testkit.sandbox.spec import ClusterSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """`directory` holds the clusters, their logs, those of the workers, and the configuration."""

    directory: Path
    source: SandboxCluster
    destination: SandboxCluster
    workers: Workers
    guardian: Guardian
    airflow: Airflow | None = None

    @property
    def evidence(self) -> Path:
        """One folder for each plan that was run."""
        return self.directory / "evidence"

    @property
    def validation(self) -> Path:
        """What Spark has found."""
        return self.directory / "validation"

    @property
    def config(self) -> Path:
        """The `tanist.toml` that names both clusters."""
        return self.directory / "tanist.toml"


@contextmanager
def environment(  # noqa: PLR0913 -- its options, named
    source: ClusterSpec,
    destination: ClusterSpec,
    clock: Clock,
    *,
    directory: Path | None = None,
    say: Callable[[str], None],
    bound: bool = True,
    keep_data: bool = False,
    airflow: AirflowSpec | None = None,
) -> Iterator[Environment]:
    """Both clusters, started side by side, and an Airflow beside them that may not be ready yet.

    Everything ends with the block, or with this process, however it goes. So do their data, unless `keep_data` or
    something failed; a directory that was given keeps workers' logs and evidence.
    `bound=False`: whoever calls `guardian.release()` lets everything live on.

    Raises:
        Misconfigured: there are clusters, or there is an Airflow, in that directory already.
    """
    with Guardian() as guardian, ExitStack() as until_the_end:
        names = (source.name, destination.name, PLACE)
        home = _empty(directory, names)
        remove = bound and not keep_data
        try:
            orchestrator = _launched(airflow, home, guardian, bound=bound) if airflow else None
            if orchestrator and bound:
                until_the_end.callback(orchestrator.close)  # before the guardian removes what lies there
            east, west = (
                SandboxCluster.new(spec, home / spec.name, guardian=guardian, bound=bound)
                for spec in (source, destination)
            )
            start_all((east, west), say)
            Fleet(home).up([source, destination], lambda _text: None)  # they run: this writes tanist.toml
            command = ("--destination", destination.name, "--config", str(home / "tanist.toml"))
            yield Environment(
                directory=home,
                source=east,
                destination=west,
                workers=Workers(guardian, home, command, clock, bound=bound),
                guardian=guardian,
                airflow=orchestrator,
            )
        except Exception:  # an error may name a log in there
            remove = False
            raise
        finally:
            for made in ([home] if directory is None else [home / name for name in names]) if remove else ():
                guardian.remove_at_end(made)


def _launched(spec: AirflowSpec, home: Path, guardian: Guardian, *, bound: bool) -> Airflow:
    from tanist_testkit.sandbox.airflow.service import Airflow  # noqa: PLC0415 -- its packages may not be there

    one = Airflow.new(spec, home / PLACE, guardian=guardian, bound=bound)
    one.launch()
    return one


def _empty(directory: Path | None, names: Sequence[str]) -> Path:
    """The folder, made if need be, in which there is nothing of these names yet."""
    home = (directory or Path(tempfile.mkdtemp(prefix="tanist-demo-"))).resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        if (home / name).exists():
            down = "sandbox airflow down" if name == PLACE else "sandbox down"
            raise Misconfigured(f"{home / name} is there already: `tanist {down} --dir {home} --delete` first")
    return home
