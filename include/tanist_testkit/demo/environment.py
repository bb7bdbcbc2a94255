"""Two clusters, a configuration that names them, and fetcher workers: everything that must not outlive its owner."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tanist.domain.errors import Misconfigured
from tanist_testkit.demo.workers import Workers
from tanist_testkit.sandbox.airflow.home import PLACE
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.fleet import Fleet
from tanist_testkit.sandbox.processes import Guardian

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.ports.clock import Clock
    from tanist_testkit.demo.screen import Screen
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
    bound: bool
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
        return self.directory / "tanist.toml"

    def start_worker(self, worker: str) -> int:
        """Its process id."""
        return self.workers.start(worker, bound=self.bound)


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
        home = _empty(directory, (source.name, destination.name, PLACE))
        remove = bound and not keep_data
        try:
            orchestrator = _launched(airflow, home, guardian, bound=bound) if airflow else None
            if orchestrator and bound:
                until_the_end.callback(orchestrator.close)  # before the guardian removes what lies there
            clusters = [
                SandboxCluster.new(spec, home / spec.name, guardian=guardian, bound=bound)
                for spec in (source, destination)
            ]
            _start(clusters, say)
            Fleet(home).up([source, destination], lambda _text: None)  # they run: this writes tanist.toml
            command = ("--destination", destination.name, "--config", str(home / "tanist.toml"))
            workers = Workers(guardian, home, command, clock)
            yield Environment(
                directory=home,
                source=clusters[0],
                destination=clusters[1],
                workers=workers,
                guardian=guardian,
                bound=bound,
                airflow=orchestrator,
            )
        except Exception:  # an error may name a log in there
            remove = False
            raise
        finally:
            for made in _made(home, directory, source, destination) if remove else ():
                guardian.remove_at_end(made)


def _launched(spec: AirflowSpec, home: Path, guardian: Guardian, *, bound: bool) -> Airflow:
    from tanist_testkit.sandbox.airflow.service import Airflow  # noqa: PLC0415 -- its packages may not be there

    one = Airflow.new(spec, home / PLACE, guardian=guardian, bound=bound)
    one.launch()
    return one


def _made(home: Path, wanted: Path | None, *specs: ClusterSpec) -> list[Path]:
    return [home] if wanted is None else [home / name for name in (*(spec.name for spec in specs), PLACE)]


def _empty(directory: Path | None, names: Sequence[str]) -> Path:
    """The folder, made if need be, in which there is nothing of these names yet."""
    home = (directory or Path(tempfile.mkdtemp(prefix="tanist-demo-"))).resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        _refuse_if_there(home, name)
    return home


def _refuse_if_there(home: Path, name: str) -> None:
    if (home / name).exists():
        down = "sandbox airflow down" if name == PLACE else "sandbox down"
        raise Misconfigured(f"{home / name} is there already: `tanist {down} --dir {home} --delete` first")


def _start(clusters: Sequence[SandboxCluster], say: Callable[[str], None]) -> None:
    """One formats while the one before it boots."""
    for cluster in clusters:
        say(f"{cluster.name}: starting {cluster.spec.brokers} brokers")
        cluster.launch()
    for cluster in clusters:
        say(f"{cluster.name}: waiting until it answers")
        cluster.start()


def say_goodbye(screen: Screen, home: Environment) -> None:
    """What is still running, how to look around, and how to stop it."""
    config = f"--config {home.config}"
    screen.note("")
    screen.note(
        f"everything but {home.source.name} is still up; it was killed, and its fence is owed until it answers:"
    )
    screen.command(f"tanist sandbox start {home.source.name} --dir {home.directory}")
    screen.note(f"export EAST={home.source.bootstrap_servers} WEST={home.destination.bootstrap_servers}")
    screen.command(f"tanist mirrors describe {config}")
    screen.command(f"tanist status {config}")
    screen.command(f"tanist state dump --destination {home.destination.name} {config}")
    screen.note("and how to stop it, the workers first:")
    screen.command(f"kill {' '.join(map(str, home.workers.pids().values()))}")
    if home.airflow:
        screen.command(f"tanist sandbox airflow down --dir {home.directory} --delete")
    screen.command(f"tanist sandbox down --dir {home.directory} --delete")
