"""The demo: its chapters, in order, and how it is run."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import TanistError
from tanist_testkit.demo import circle, copying, failovers
from tanist_testkit.demo.stage import ABORTED, PLANNED, STORM, Stage
from tanist_testkit.sandbox.command_line import CommandLine
from tanist_testkit.sandbox.environment import environment
from tanist_testkit.sandbox.forks import prepare
from tanist_testkit.sandbox.spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tanist.ports.clock import Clock
    from tanist_testkit.demo.promises import Promise
    from tanist_testkit.sandbox.airflow.home import AirflowSpec
    from tanist_testkit.sandbox.environment import Environment
    from tanist_testkit.screen import Screen


class Chapter(NamedTuple):
    """`act` says what it is at, and returns the promises that were kept in it, or not, if it has any."""

    title: str
    act: Callable[[Stage], Iterable[Promise] | None]
    with_airflow: bool = False
    """Left out without one."""


CHAPTERS: Final = (
    Chapter("Topics at the source, written by ordinary producers", copying.topics),
    Chapter("Three mirrors of them, as a user makes them", copying.mirrors),
    Chapter("Producers write, and everything that can be killed is killed (SIGKILL)", copying.disasters),
    Chapter("The copy catches up", copying.catch_up),
    Chapter("Every record of both clusters is read and compared", copying.count),
    Chapter("Would the comparison have seen one wrong bit? One is flipped in a copy of its own", copying.self_check),
    Chapter("Spark compares both clusters, with code of its own", copying.validate, with_airflow=True),
    Chapter(f"Group {copying.GROUP!r} read half at the source; its positions are copied unchanged", copying.positions),
    Chapter("Airflow, started beside the clusters, gets its connections", failovers.orchestrate, with_airflow=True),
    Chapter(f"A planned failover of mirror {PLANNED}, under the hands of its producers", failovers.planned),
    Chapter(f"A failover of mirror {ABORTED} is aborted while its fence stands", failovers.aborted),
    Chapter("The source is killed with kill -9, in mid-flight", failovers.kill_the_source),
    Chapter(f"An unplanned failover of mirror {STORM}", failovers.unplanned),
    Chapter("Producers and consumers go on at the destination; the loss is counted", failovers.go_on),
    Chapter("The old source returns with records that nobody else has; they are rescued", circle.returned),
    Chapter("The owner of the data decides about them, and what was chosen is written again", circle.decide),
    Chapter(f"Mirror {STORM} is reversed: the old source gets what was written since", circle.reverse),
    Chapter(f"Failback: {STORM} fails over to the old source, as planned, and is reversed again", circle.fail_back),
    Chapter("Every acknowledged record of both clusters is looked up", circle.account),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """How it is told. `airflow`: failovers go through it; None: by hand, and the demo is short: Spark is left out.

    `interactive`: a person answers the gates of Airflow.

    `directory`: where everything lives; None: in a temporary one. `keep`: everything is left up at the end.
    """

    airflow: AirflowSpec | None = None
    interactive: bool = False
    directory: Path | None = None
    keep: bool = False
    records: int = 100_000


@contextmanager
def run_demo(screen: Screen, clock: Clock, how: DemoOptions) -> Iterator[Sequence[Promise]]:
    """All chapters; yields the promises while everything is still up. It is gone afterwards, unless it shall be kept.

    Raises:
        TanistError: a chapter could not be finished.
    """
    prepare()
    with ExitStack() as until_the_end:
        with screen.step("Two clusters of two brokers each, on this machine"):
            east, west = (ClusterSpec(name=name, brokers=2) for name in ("east", "west"))
            building = environment(
                east, west, clock, directory=how.directory, say=screen.say, bound=not how.keep, airflow=how.airflow
            )
            home = until_the_end.enter_context(building)
            screen.say("up, with two replicas and min.insync.replicas=1: one broker of two may die at any moment")
        runs = None
        if home.airflow:
            from tanist_testkit.demo.airflow_runs import AirflowRuns  # noqa: PLC0415 -- what it needs may not be there

            runs = AirflowRuns(screen, clock, home, home.airflow, interactive=how.interactive)
        stage = Stage(screen, clock, home, CommandLine(home.config, screen), runs, how.records)
        try:
            seen = _run_chapters(stage)
        except TanistError:
            screen.event(f"broken off; data and logs are kept in {home.directory}")
            raise
        yield seen
        _look_around(stage, keep=how.keep)
        if how.keep:
            home.guardian.release()
            say_goodbye(screen, home)


def _run_chapters(stage: Stage) -> Sequence[Promise]:
    seen: list[Promise] = []
    for title, act, with_airflow in CHAPTERS:
        if stage.airflow or not with_airflow:
            with stage.screen.step(title):
                seen += act(stage) or ()
    return (*seen, *(stage.airflow.promises() if stage.airflow else ()))


def _look_around(stage: Stage, *, keep: bool) -> None:
    report = stage.home.validation / "report.html"
    links = [f"Spark's report: {report.as_uri()}"] if report.exists() else []
    links += stage.airflow.links() if stage.airflow else ()
    if links:
        stage.screen.note("what there is to see:" if keep else "what there was to see; --keep leaves it up:")
    for link in links:
        stage.screen.note(f"  {link}")


def say_goodbye(screen: Screen, home: Environment) -> None:
    """What is still running, how to look around, and how to stop it. Every command can be typed anywhere."""
    directory, east, west = quote(str(home.directory)), home.source, home.destination
    toml = quote(str(home.config))
    servers = f"EAST={east.bootstrap_servers} WEST={west.bootstrap_servers}"
    screen.note("")
    screen.note("everything is still up; for the commands by hand:")
    screen.command(f"export {servers} DIR={directory} TANIST_CONFIG={toml}")
    screen.command(f"tanist mirrors describe --config {toml}")
    screen.command(f"tanist status --config {toml}")
    screen.command(f"tanist state dump --destination {west.name} --config {toml}")
    screen.note("and how to stop it, the workers first:")
    screen.command(f"kill {' '.join(map(str, home.workers.pids().values()))}")
    if home.airflow:
        screen.command(f"tanist sandbox airflow down --dir {directory} --delete")
    screen.command(f"tanist sandbox down --dir {directory} --delete")
