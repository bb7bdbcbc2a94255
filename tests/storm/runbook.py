"""The runbook on real clusters for some minutes: episodes one after the other, on clusters with and without ACLs.

One broker on each side, one fetcher that is killed and frozen now and then, two episodes side by side.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.conftest import librdkafka
from tests.kafka.failover.conftest import DESCRIBE, GROUP, READ, TOPIC, give, rules, running
from tests.storm.episode import Episode
from tests.storm.operators import Tally
from tests.storm.proxy import Proxy
from tests.storm.results import Figures
from tests.storm.traffic import USER

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from tanist_testkit.screen import Screen
    from tests.kafka.failover.conftest import Pair

LANES: Final = 2
LAST_EPISODE_SECONDS: Final = 1800.0
"""An episode that takes longer than that does not end: the bounds of what it waits for add up to less."""
KEPT_BACK: Final = "a request kept back"
_WANTED: Final = (KEPT_BACK, "failovers DONE", "records read at the destination and compared")
LEG_SECONDS: Final = 300.0
"""After that long the clusters are new ones, with an authorizer where there was none."""


@dataclass(slots=True)
class Outcome:
    """`wrong`: every violation, with the number of its episode; `histories` of those episodes.

    `wanted`: what a storm that proves anything has at least one of.
    """

    seed: int
    seconds: float = 0.0
    title: str = "The runbook"
    wanted: tuple[str, ...] = _WANTED
    tally: Tally = field(default_factory=Tally)
    wrong: list[tuple[int, str]] = field(default_factory=list)
    histories: dict[int, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Nothing was wrong, and there was something to go wrong."""
        return not self.wrong and not self.missing

    @property
    def missing(self) -> list[str]:
        """What a storm that proves anything has, and this one has not."""
        counts = self.tally.figures | Counter({KEPT_BACK: self.tally.requests.total()})
        return [name for name in self.wanted if not counts[name]]

    def rows(self) -> list[tuple[str, int]]:
        """What has happened, and how often."""
        tally = self.tally
        counters = (
            ("", tally.figures),
            ("command: ", tally.commands),
            ("exit code ", tally.codes),
            ("befell a command: ", tally.ways),
            ("kept back: ", tally.requests),
            ("refused with ", tally.refusals),
        )
        each = [(f"{title}{name}", count) for title, counts in counters for name, count in sorted(counts.items())]
        totals = [
            ("commands of operators", tally.commands.total()),
            ("requests kept back", tally.requests.total()),
            ("frozen, killed or kept back", tally.ways.total()),
            ("refused", tally.refusals.total()),
        ]
        return [*totals, *each, ("violations", len(self.wrong))]

    def counted(self) -> Figures:
        """For a table of several storms. What it has not seen, and proves nothing without, is a violation, too."""
        compared = sum(count for name, count in self.tally.figures.items() if "compared" in name)
        wrong = len(self.wrong) + len(self.missing)
        return Figures(faults=self.tally.ways.total(), records=compared, violations=wrong, counts=dict(self.rows()))

    def show(self, console: Console) -> None:
        """A table as docs have it, what was wrong, and the histories of those episodes."""

        def say(*lines: str) -> None:
            console.print(*lines, sep="\n", markup=False, highlight=False)

        say(f"{self.title}, seed {self.seed}, {self.seconds:.0f} s:", "", "| what | how often |", "|---|---:|")
        say(*(f"| {name} | {count:,} |" for name, count in self.rows()))
        for number, lines in self.histories.items():
            say(f"episode {number} of seed {self.seed}:", *(f"  {line}" for line in lines))
        for number, what in self.wrong:
            say(f"VIOLATION in episode {number}: {what}")
        for what in self.missing:
            say(f"proves nothing: no {what}")


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
        except BaseException as bug:  # noqa: BLE001 -- reported by the leg
            self.died = bug
            self.leg.over.set()

    def _one(self, number: int) -> None:
        leg = self.leg
        self.episode = Episode.new(
            leg.pair, leg.proxy, leg.outcome.tally, number, leg.outcome.seed, leg.home / str(number)
        )
        story, scene = self.episode.story, self.episode.scene
        try:
            self.episode.play()
        except Exception as why:  # noqa: BLE001 -- an episode that breaks is reported, and the next one begins
            story.violated(f"the storm itself broke while the episode {story.phase}: {why!r}")
        (scene.home / "history.txt").write_text("\n".join(story.history) + "\n")
        plans = f"{len(scene.plans)} plan(s), {len(scene.done)} told to be DONE"
        leg.screen.note(f"episode {number}: {plans}, {len(story.history)} lines, {len(story.wrong)} violation(s)")
        leg.tell(self.episode)


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
    worker_died: BaseException | None = None
    broken: bool = False
    """Something of the storm itself has died, or hangs: another leg would only say so again."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next_number(self) -> int:
        with self._lock:
            self.numbers[0] += 1
            return self.numbers[0]

    def tell(self, episode: Episode) -> None:
        """What was wrong with it."""
        for what in episode.story.wrong:
            self.screen.event(f"VIOLATION in episode {episode.number}: {what}")
            self.outcome.wrong.append((episode.number, what))
        if episode.story.wrong:
            self.outcome.histories[episode.number] = episode.story.history

    def run(self, seconds: float) -> None:
        lanes = [Lane(self, n) for n in range(LANES)]
        threads = [threading.Thread(target=lane.run, name=f"lane-{lane.name}", daemon=True) for lane in lanes]
        threads.append(threading.Thread(target=self._worker, name="worker", daemon=True))
        for thread in threads:
            thread.start()
        by = time.monotonic() + seconds
        kind = "with" if self.pair.west.cluster.spec.authorizer else "without"
        with self.screen.step(f"{seconds:.0f} s of operators, clusters {kind} an authorizer"):
            while any(thread.is_alive() for thread in threads) and time.monotonic() < by + LAST_EPISODE_SECONDS:
                if time.monotonic() > by:
                    self.over.set()
                at = (f"episode {e.number} {e.story.phase}" for lane in lanes if (e := lane.episode))
                tally = self.outcome.tally
                self.screen.detail = (
                    f"{', '.join(at)}; {sum(tally.commands.values())} commands, {sum(tally.requests.values())} "
                    f"requests kept back, {len(self.outcome.wrong)} violation(s)"
                )
                time.sleep(0.5)  # noqa: TID251
        self._report(lanes, threads)

    def _report(self, lanes: list[Lane], threads: list[threading.Thread]) -> None:
        """What of the storm itself has died, or does not end."""
        hang = any(thread.is_alive() for thread in threads)
        self.broken = hang or self.worker_died is not None or any(lane.died is not None for lane in lanes)
        for lane, thread in zip(lanes, threads, strict=False):
            if lane.died is not None:
                self.outcome.wrong.append((self.numbers[0], f"the storm itself broke: {lane.died!r}"))
            if thread.is_alive() and lane.episode is not None:
                lane.episode.story.violated(f"it does not end; it {lane.episode.story.phase}")
                self.tell(lane.episode)
        if self.worker_died is not None:
            self.outcome.wrong.append((self.numbers[0], f"the storm itself broke: the worker's: {self.worker_died!r}"))

    def _worker(self) -> None:
        try:
            self._strike()
        except BaseException as bug:  # noqa: BLE001 -- reported when the leg ends, which is now
            self.worker_died = bug
            self.over.set()

    def _strike(self) -> None:
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
    """Whether there is an authorizer first, and then in turn, is the seed's. `first`: the number before the first.

    Whatever ends it, the outcome says what has happened until then.
    """
    outcome, began, numbers = Outcome(seed), time.monotonic(), [first]
    try:
        _legs(outcome, screen, began + seconds, seconds, directory, numbers)
    except (Exception, KeyboardInterrupt) as why:  # noqa: BLE001 -- reported with all that was seen
        screen.event(traceback.format_exc())
        outcome.wrong.append((numbers[0], f"the storm itself broke: {why!r}"))
    outcome.seconds = time.monotonic() - began
    return outcome


def _legs(outcome: Outcome, screen: Screen, by: float, seconds: float, directory: Path, numbers: list[int]) -> None:
    authorizer = Random(outcome.seed).random() < 0.5
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
                leg = Leg(pair, proxy, outcome, screen, home, numbers)
                leg.run(min(left, max(LEG_SECONDS, seconds / 2)))
            if leg.broken:
                return
            authorizer = not authorizer
