"""The runbook on real clusters for some minutes: episodes one after the other, on clusters with and without ACLs.

One broker on each side, one fetcher that is killed and frozen now and then, two episodes side by side.
"""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from rich.table import Table

from tanist.sandbox.processes import Guardian
from tanist.sandbox.spec import ClusterSpec
from tests.conftest import librdkafka
from tests.failover.conftest import DESCRIBE, GROUP, READ, TOPIC, give, rules, running
from tests.storm.episode import Episode
from tests.storm.operators import Tally
from tests.storm.proxy import Proxy
from tests.storm.traffic import USER

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from tanist.demo.screen import Screen
    from tests.failover.conftest import Pair

LANES: Final = 2
LEG_SECONDS: Final = 300.0
"""After that long the clusters are new ones, with an authorizer where there was none."""


@dataclass(slots=True)
class Outcome:
    """`wrong`: every violation, with the number of its episode; `histories` of those episodes."""

    seed: int
    seconds: float = 0.0
    tally: Tally = field(default_factory=Tally)
    wrong: list[tuple[int, str]] = field(default_factory=list)
    histories: dict[int, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Nothing was wrong, and there was something to go wrong."""
        return not self.wrong and bool(self.tally.requests and self.tally.figures["failovers DONE"])

    def show(self, console: Console) -> None:
        """What has happened, and what was wrong."""
        tally = self.tally
        table = Table(title=f"the runbook, seed {self.seed}, {self.seconds:.0f} s", title_justify="left")
        table.add_column("what")
        table.add_column("how often", justify="right")
        for title, counts in (
            ("", tally.figures),
            ("command", tally.commands),
            ("exit code", tally.codes),
            ("befell a command", tally.ways),
            ("kept back", tally.requests),
            ("refused", tally.refusals),
        ):
            for name, count in sorted(counts.items()):
                table.add_row(f"{title} {name}".strip(), f"{count:,}")
            table.add_section()
        table.add_row("violations", str(len(self.wrong)))
        console.print(table)
        for number, lines in self.histories.items():
            console.print(f"episode {number} of seed {self.seed}:", *lines, sep="\n  ", markup=False, highlight=False)
        for number, what in self.wrong:
            console.print(f"VIOLATION in episode {number}: {what}", markup=False, highlight=False)


@dataclass(slots=True)
class Lane:
    """Plays episodes until its time is over."""

    leg: Leg
    name: int
    episode: Episode | None = None
    died: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.leg.over.is_set():
                self._one(self.leg.next_number())
        except BaseException as bug:  # noqa: BLE001 -- raised by the leg
            self.died = bug
            self.leg.over.set()

    def _one(self, number: int) -> None:
        leg = self.leg
        self.episode = Episode.new(
            leg.pair, leg.proxy, leg.outcome.tally, number, leg.outcome.seed, leg.home / str(number)
        )
        scene = self.episode.scene
        try:
            self.episode.play()
        except Exception as why:  # noqa: BLE001 -- an episode that breaks is reported, and the next one begins
            scene.violated(f"the storm itself broke while the episode {self.episode.phase}: {why!r}")
        (scene.home / "history.txt").write_text("\n".join(scene.history) + "\n")
        plans = f"{len(scene.plans)} plan(s), {len(scene.done)} told to be DONE"
        leg.screen.note(f"episode {number}: {plans}, {len(scene.history)} lines, {len(scene.wrong)} violation(s)")
        for what in scene.wrong:
            leg.screen.event(f"VIOLATION in episode {number}: {what}")
            leg.outcome.wrong.append((number, what))
        if scene.wrong:
            leg.outcome.histories[number] = scene.history


@dataclass(slots=True)
class Leg:
    """Episodes on one pair of clusters."""

    pair: Pair
    proxy: Proxy
    outcome: Outcome
    screen: Screen
    home: Path
    numbers: list[int]
    over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next_number(self) -> int:
        with self._lock:
            self.numbers[0] += 1
            return self.numbers[0]

    def run(self, seconds: float) -> None:
        lanes = [Lane(self, n) for n in range(LANES)]
        threads = [threading.Thread(target=lane.run, name=f"lane-{lane.name}", daemon=True) for lane in lanes]
        threads.append(threading.Thread(target=self._worker, name="worker", daemon=True))
        for thread in threads:
            thread.start()
        by = time.monotonic() + seconds
        kind = "with" if self.pair.west.cluster.spec.authorizer else "without"
        with self.screen.step(f"{seconds:.0f} s of operators, clusters {kind} an authorizer") as step:
            while any(thread.is_alive() for thread in threads):
                if time.monotonic() > by:
                    self.over.set()
                at = (f"episode {e.number} {e.phase}" for lane in lanes if (e := lane.episode))
                tally = self.outcome.tally
                step.detail = (
                    f"{', '.join(at)}; {sum(tally.commands.values())} commands, {sum(tally.requests.values())} "
                    f"requests kept back, {len(self.outcome.wrong)} violation(s)"
                )
                time.sleep(0.5)  # noqa: TID251
        for lane in lanes:
            if lane.died is not None:
                raise lane.died

    def _worker(self) -> None:
        """One fetcher, killed and frozen now and then, and always there again within seconds."""
        dice = Random(f"{self.outcome.seed}/worker")
        while not self.over.wait(dice.uniform(4.0, 12.0)):
            worker = self.pair.worker()
            if dice.random() < 0.4:
                self.outcome.tally.add("ways", "kill -9 of the fetcher")
                worker.send(signal.SIGKILL)
                self.over.wait(dice.uniform(0.0, 3.0))
            else:
                self.outcome.tally.add("ways", "SIGSTOP of the fetcher")
                worker.send(signal.SIGSTOP)
                self.over.wait(0.5 * 24 ** dice.random())
                worker.send(signal.SIGCONT)
            self.pair.worker()


def run(screen: Screen, *, seconds: float, seed: int, directory: Path, first: int = 0) -> Outcome:
    """Whether there is an authorizer first, and then in turn, is the seed's. `first`: the number before the first."""
    outcome, began, numbers = Outcome(seed), time.monotonic(), [first]
    authorizer = Random(seed).random() < 0.5
    by = began + seconds
    with Guardian() as guardian, Proxy() as proxy:
        while (left := by - time.monotonic()) > 1:
            home = directory / f"leg-{'acl' if authorizer else 'open'}-{numbers[0]}"
            home.mkdir(parents=True)
            east = ClusterSpec(name="east", authorizer=authorizer, heap_mb=384)
            with running(guardian, librdkafka, home, source=east, authorizer=authorizer) as pair:
                if authorizer:
                    for side in (pair.east, pair.west):
                        give(side.cluster, *rules(f"User:{USER}", (TOPIC, DESCRIBE), (TOPIC, READ), (GROUP, READ)))
                pair.worker()
                Leg(pair, proxy, outcome, screen, home, numbers).run(min(left, max(LEG_SECONDS, seconds / 2)))
            authorizer = not authorizer
    outcome.seconds = time.monotonic() - began
    return outcome
