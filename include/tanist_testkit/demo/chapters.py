"""The demo, told in order: two clusters, a mirror, load, disasters, every record counted; then takeovers."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import ProcessFailed, TanistError
from tanist_testkit.demo.commands import DemoCommands, items_of
from tanist_testkit.demo.context import FLOWS, MIRRORS, SEED, STEP_SECONDS, STORM, DemoContext
from tanist_testkit.demo.environment import environment, say_goodbye
from tanist_testkit.demo.judging import DemoEvidence, judge, judge_validation
from tanist_testkit.demo.positions import Carried, carry
from tanist_testkit.demo.runbooks import Link, Typed
from tanist_testkit.demo.takeovers import Takeovers
from tanist_testkit.demo.takeovers_judged import judge_takeovers
from tanist_testkit.sandbox.spec import ClusterSpec
from tanist_testkit.verify import clients
from tanist_testkit.verify.comparing import compare
from tanist_testkit.verify.inspection import Inspection, Inspector, with_one_bit_flipped
from tanist_testkit.verify.reading import bounds, record_at
from tanist_testkit.verify.traces import Trace, Traces, merged
from tanist_testkit.verify.writing import Load, LoadWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tanist.ports.clock import Clock
    from tanist_testkit.demo.promises import Promise
    from tanist_testkit.demo.runbooks import Runbook
    from tanist_testkit.demo.screen import Screen, ScreenStep
    from tanist_testkit.sandbox.airflow.home import AirflowSpec
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.verify.comparing import LogVerdict
    from tanist_testkit.verify.flows import Flow

GROUP: Final = "billing"
KEPT_BEFORE: Final = 500
"""Records per partition that are there before the mirror is, in the topic whose log does not start at 0."""
WORKERS: Final = ("w1", "w2")
RECORDS: Final = 100_000
EASED: Final = 0.1
"""Once there are that many the producers slow down, until all is healed: what follows reads everything three times."""
VICTIM: Final = 2
DOWN_SECONDS: Final = 1.0
LAG_SECONDS: Final = 90


@dataclass(slots=True)
class Demo(DemoContext):
    """Its chapters, in order. What one finds out, the later ones use. `records`: at least so many are written."""

    records: int = RECORDS
    early: Traces = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    # ── before ────────────────────────────────────────────────────────────────────────────────────────────────────

    def topics(self) -> None:
        with self.screen.step("Topics at the source, written by ordinary producers") as step:
            by = self.clock.deadline(STEP_SECONDS)
            flows = [flow for mirrored in MIRRORS.values() for flow in mirrored]
            clients.create_topics(self.source, [f.new_topic(2, min_isr=1) for f in flows], by, self.clock)
            for flow in flows:
                self.screen.note(str(flow))
                if flow.deleted:
                    self._delete_the_beginning(flow)
            step.detail = f"{len(flows)} topics, {sum(f.partitions for f in flows)} partitions, two replicas each"

    def _delete_the_beginning(self, flow: Flow) -> None:
        writer = LoadWriter(self.source, flow, flow.writers, self.clock, SEED)
        writer.write_exactly(flow.deleted + KEPT_BEFORE)
        clients.delete_before(self.source, dict.fromkeys(writer.acknowledged, flow.deleted))
        kept = {place: _from(trace, flow.deleted) for place, trace in writer.acknowledged.items()}
        self.early = merged([self.early, kept])

    def mirror(self) -> None:
        with self.screen.step("Three mirrors of them, as a user makes them") as step:
            for mirror, flows in MIRRORS.items():
                names = "|".join(flow.topic for flow in flows)
                self.tanist.run(
                    "mirrors", "create", mirror, "--source", "east", "--destination", "west", "--topic", names
                )
            for worker in WORKERS:
                self.screen.command(f"tanist fetcher run --destination west --id {worker}   # in the background")
                self.environment.start_worker(worker)
            step.detail = "waiting until every partition is MIRRORING"
            for mirror in MIRRORS:
                self.tanist.run("mirrors", "wait", mirror, "--for", "state=MIRRORING", "--timeout", f"{LAG_SECONDS}s")
            step.detail = f"every partition is MIRRORING, two workers: {self.environment.workers.pids()}"

    # ── the storm ─────────────────────────────────────────────────────────────────────────────────────────────────

    def disasters(self, load: Load) -> None:
        with self.screen.step("Producers write, and everything that can be killed is killed (SIGKILL)") as step:
            load.start()
            over = threading.Event()
            watcher = threading.Thread(target=self._watch, args=(load, step, over), daemon=True)
            watcher.start()
            try:
                self.clock.wait(2 * DOWN_SECONDS)
                self._lose_a_worker(WORKERS[0])
                aside = threading.Thread(target=self._lose_a_broker, args=(self.environment.destination,), daemon=True)
                aside.start()
                self.clock.wait(3 * DOWN_SECONDS)
                self._lose_a_worker(WORKERS[1])
                self._lose_a_broker(self.environment.source)
                aside.join(STEP_SECONDS)
                self._until_enough(load)
                step.detail = "stopping the producers"
                load.stop(self.clock.deadline(STEP_SECONDS))
            finally:
                over.set()
                watcher.join()
            step.detail = f"{load.acknowledged:,} records acknowledged, {load.aborted:,} aborted on purpose"

    def _watch(self, load: Load, step: ScreenStep, over: threading.Event) -> None:
        while not over.wait(0.5):
            if load.acknowledged >= self.records:
                load.ease(EASED)
            step.detail = f"{load.acknowledged:,} records acknowledged by the source"

    def _lose_a_worker(self, worker: str) -> None:
        pid = self.environment.workers.kill(worker)
        self._struck(f"kill -9 {pid}: worker {worker}")
        self.clock.wait(DOWN_SECONDS)
        self.environment.start_worker(worker)

    def _lose_a_broker(self, cluster: SandboxCluster) -> None:
        pid = cluster.brokers[VICTIM - 1].pid
        cluster.kill(VICTIM)
        self._struck(f"kill -9 {pid}: broker {VICTIM} of {cluster.name}")
        self.clock.wait(DOWN_SECONDS)
        cluster.start_broker(VICTIM)
        self.screen.note(f"broker {VICTIM} of {cluster.name} is back")

    def _struck(self, words: str) -> None:
        self.faults.append(words)
        self.screen.event(words)

    def _until_enough(self, load: Load) -> None:
        by = self.clock.deadline(STEP_SECONDS)
        while load.acknowledged < self.records and by.left(self.clock.monotonic()):
            self.clock.wait(0.1)

    # ── after ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def catch_up(self) -> float:
        """Seconds until nothing was left to copy."""
        with self.screen.step("The copy catches up") as step:
            begun = self.clock.monotonic()
            self.tanist.run("mirrors", "wait", STORM, "--for", "lag=0", "--timeout", f"{LAG_SECONDS}s")
            self.environment.workers.check_alive()
            step.detail = "lag 0 in every partition"
            return self.clock.monotonic() - begun

    def count(self, load: Load) -> Inspection:
        with self.screen.step("Every record of both clusters is read and compared") as step:

            def progress(words: str) -> None:
                step.detail = words

            inspector = Inspector(source=self.source, destination=self.destination, clock=self.clock)
            acknowledged = merged([self.early, load.traces()])
            by = self.clock.deadline(STEP_SECONDS)
            found = inspector.inspect([flow.topic for flow in FLOWS], acknowledged, by, progress)
            for topic, verdict in found.verdicts.items():
                self.screen.note(f"{topic}: {verdict.records:,} records, differences: {verdict.differences}")
            if found.whole.first or found.uncommitted.first:
                self.screen.event(found.whole.first or found.uncommitted.first)
            step.detail = f"{found.whole.records:,} records at the source, {found.acknowledged:,} known to producers"
            return found

    def self_check(self, found: Inspection) -> LogVerdict:
        with self.screen.step(
            "Would the comparison have seen one wrong bit? One is flipped in a copy of its own"
        ) as step:
            place, trace = next((place, trace) for place, trace in found.destination.items() if place.topic == "orders")
            by = self.clock.deadline(STEP_SECONDS)
            seen = record_at(self.destination, place, trace.offsets[len(trace) // 2], by, self.clock)
            assert seen is not None  # noqa: S101 -- it was read a moment ago
            verdict = compare(place, found.source[place], with_one_bit_flipped(seen, trace))
            step.detail = verdict.first
            return verdict

    def validate(self) -> Promise:
        with self.screen.step("Spark compares both clusters, with code of its own") as step:
            step.detail = "waiting for Spark"
            mirror = (STORM, "--destination", "west")
            with self.tanist.watched("validate", *mirror, "--report", str(self.environment.validation)) as running:
                code, printed = running.end()
            if not (reported := items_of(printed)):
                raise ProcessFailed(f"tanist validate ended with {code}: {running.said[-1] if running.said else ''}")
            step.detail = f"{reported[0]['verdict']}, {len(reported[0]['partitions'])} partitions"
            return judge_validation(reported[0], sum(flow.partitions for flow in FLOWS))

    def positions(self) -> Carried:
        with self.screen.step(
            f"Group {GROUP!r} read half at the source; its numbers are carried over unchanged"
        ) as step:
            by = self.clock.deadline(STEP_SECONDS)
            places = clients.places(self.source, ["orders", "payments"], by, self.clock)
            logs = bounds(self.source, places, by, self.clock)
            carried = carry(GROUP, self.source, self.destination, logs, by, self.clock)
            numbers = ", ".join(f"{place}@{offset}" for place, offset in carried.committed.items())
            step.detail = f"went on at {numbers}"
            return carried

    def links(self) -> tuple[Link, ...]:
        """Of what the chapters have left."""
        report = self.environment.validation / "report.html"
        return (Link("Spark's report", report.as_uri()),) if report.exists() else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """How it is told. `airflow`: takeovers go through it; None: by hand, and the story is short: Spark is left out.

    `interactive`: a person answers the gates of Airflow.

    `directory`: where everything lives; None: in a temporary one. `keep`: everything is left up at the end.
    """

    airflow: AirflowSpec | None = None
    interactive: bool = False
    directory: Path | None = None
    keep: bool = False
    records: int = RECORDS


def run_demo(
    screen: Screen, clock: Clock, show: Callable[[tuple[Promise, ...]], None], how: DemoOptions
) -> tuple[Promise, ...]:
    """The whole story, its end told to `show`; everything is gone when it returns, unless it shall be kept.

    Raises:
        TanistError: a stage could not be finished.
    """
    with ExitStack() as until_the_end:
        with screen.step("Two clusters of two brokers each, on this machine") as step:
            east, west = (ClusterSpec(name=name, brokers=2) for name in ("east", "west"))
            building = environment(
                east, west, clock, directory=how.directory, say=step.say, bound=not how.keep, airflow=how.airflow
            )
            home = until_the_end.enter_context(building)
            step.detail = "up, with two replicas and min.insync.replicas=1: one broker of two may die at any moment"
        story = Demo(screen, clock, home, DemoCommands(home.config, screen), records=how.records)
        runbook = _runbook(story, how)
        try:
            promises = _chapters(story, runbook, short=how.airflow is None)
        except TanistError:
            screen.event(f"broken off; data and logs are kept in {home.directory}")
            raise
        show(promises)
        _look_around(screen, (*story.links(), *runbook.links()), keep=how.keep)
        if how.keep:
            home.guardian.release()
            say_goodbye(screen, home)
    return promises


def _runbook(story: Demo, how: DemoOptions) -> Runbook:
    scene = (story.screen, story.clock, story.environment, story.tanist)
    if story.environment.airflow is None:
        return Typed(*scene)
    from tanist_testkit.demo.orchestrated import Orchestrated  # noqa: PLC0415 -- what it needs may not be there

    return Orchestrated(*scene, airflow=story.environment.airflow, interactive=how.interactive)


def _look_around(screen: Screen, links: Sequence[Link], *, keep: bool) -> None:
    if links:
        screen.note("what there is to see:" if keep else "what there was to see; --keep leaves it up:")
    for link in links:
        screen.note(f"  {link.name}: {link.place}")


def _chapters(story: Demo, runbook: Runbook, *, short: bool) -> tuple[Promise, ...]:
    load = Load(story.source, FLOWS, story.clock, SEED)
    story.topics()
    story.mirror()
    story.disasters(load)
    seconds = story.catch_up()
    found = story.count(load)
    doubted = story.self_check(found)
    by_spark = () if short else (story.validate(),)
    carried = story.positions()
    first = DemoEvidence(
        found=found,
        aborted=load.aborted,
        faults=tuple(story.faults),
        lag_seconds=seconds,
        doubted=doubted,
        carried=carried,
    )
    runbook.prepare()
    act = Takeovers(story.screen, story.clock, story.environment, story.tanist, runbook)
    takeovers = judge_takeovers(act.planned(), act.aborted(), act.unplanned())
    return (*judge(first), *by_spark, *takeovers, *runbook.promises())


def _from(trace: Trace, start: int) -> Trace:
    kept = Trace()
    for offset, digest in zip(trace.offsets, trace.digests, strict=True):
        if offset >= start:
            kept.add(offset, digest)
    return kept
