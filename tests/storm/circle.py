"""To and fro for some minutes: one mirror on two clusters that are its source in turn, under faults and producers.

Each round: copying, a failover (planned, or because kill -9 has taken the whole primary), the old source returns, what
only it has is rescued, decided about and replayed, the mirror is reversed and copies. Then every record is looked up.
"""

from __future__ import annotations

import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.environment import environment
from tanist_testkit.sandbox.spec import ClusterSpec
from tanist_testkit.verify import clients
from tanist_testkit.verify.flows import Flow
from tanist_testkit.verify.writing import Load
from tanist_testkit.waiting import until
from tests.storm.chaos import Chaos, Target
from tests.storm.ledger import Ledger
from tests.storm.operators import Tally
from tests.storm.persistence import Persistence
from tests.storm.proxy import Proxy
from tests.storm.runbook import Outcome
from tests.storm.schedule import CIRCLE_TRACKS
from tests.storm.storm import CLEANERS, UP_SECONDS, bugs, lead_through
from tests.storm.switchover import MIRROR, Switchover

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.ports.clock import Clock, Deadline
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.sandbox.environment import Environment
    from tanist_testkit.screen import Screen
    from tests.storm.proxy import Door

FLOWS: Final = (
    Flow(topic="plain", partitions=2, rate=60, idempotent=False),
    Flow(topic="idempotent", partitions=2, rate=100, compression="lz4"),
    Flow(topic="transactions", partitions=2, rate=60, writers=2, transactional=True),
    Flow(topic="tiny", partitions=2, rate=40, in_a_batch=1),
    Flow(topic="keyed", partitions=2, rate=40, keys=40, compression="lz4"),
)
TOPICS: Final = tuple(flow.topic for flow in FLOWS)
WHOLE: Final = tuple(flow.topic for flow in FLOWS if not flow.keys)
COMPACTED: Final = tuple(flow.topic for flow in FLOWS if flow.keys)
WORKERS: Final = {"w1": "west", "w2": "west", "e1": "east", "e2": "east"}
AT_LEAST: Final = 300
"""Records that producers write before, and again after, each failover."""
STEP_SECONDS: Final = 240.0
EASED: Final = 0.03
"""Share of their rates at which producers go on while their cluster is dead."""
DEAD_CALL_SECONDS: Final = 5.0
_COPYING: Final = (2.0, 8.0)
_WANTED: Final = (
    *("failovers planned", "failovers unplanned", "reversals", "records rescued"),
    *("records compared on both clusters", "records acknowledged"),
)


@dataclass(slots=True)
class Circle:
    """One run of it."""

    screen: Screen
    clock: Clock
    house: Environment
    doors: tuple[Door, Door]
    outcome: Outcome
    ledger: Ledger = field(init=False)
    operator: Persistence = field(init=False)
    number: int = 0

    def run(self, seconds: float, rounds: int) -> None:
        """At least so many rounds, and until the time is over; or something is wrong."""
        self.ledger = Ledger(self.clock, (self.house.source, self.house.destination), WHOLE, COMPACTED)
        dice = Random(f"{self.outcome.seed}/operator")
        self.operator = Persistence(self.house.config, self.outcome.tally, dice, self.screen.event)
        self._prepare()
        primary, copy = self.house.source, self.house.destination
        by = self.clock.deadline(seconds)
        while (self.number < rounds or by.left(self.clock.monotonic())) and not self.outcome.wrong:
            self.number += 1
            planned = self.number % 2 == 0 if self.number <= 2 else Random(self._name("mode")).random() < 0.4
            with self.screen.step(f"Round {self.number}: {'planned' if planned else 'unplanned'}, to {copy.name}"):
                self._round(primary, copy, planned=planned)
            primary, copy = copy, primary
        for bug in bugs(self.house.workers, WORKERS):
            self._violated(bug)

    def _name(self, what: str) -> str:
        return f"{self.outcome.seed}/{self.number}/{what}"

    def _prepare(self) -> None:
        with self.screen.step("Topics, mirror, workers"):
            by = self.clock.deadline(UP_SECONDS)
            new = [flow.new_topic(self.house.source.spec.brokers, min_isr=1) for flow in FLOWS]
            clients.create_topics(self.house.source.bootstrap_servers, new, by, self.clock)
            west = ("--destination", "west")
            self.operator.ask("mirrors", "create", MIRROR, "--source", "east", *west, "--topic", "|".join(TOPICS))
            for worker, at in WORKERS.items():
                self.house.workers.start(worker, "--destination", at)
            self.operator.ask("mirrors", "wait", MIRROR, *west, "--for", "state=MIRRORING", "--timeout", "100s")

    # ── a round ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _round(self, primary: SandboxCluster, copy: SandboxCluster, *, planned: bool) -> None:
        options = {worker: ("--destination", at) for worker, at in WORKERS.items()}
        target = Target(house=self.house, doors=self.doors, workers=tuple(WORKERS), topics=TOPICS, options=options)
        chaos = Chaos(target, self.clock, hash_of(self._name("faults")), self.screen.event, CIRCLE_TRACKS)
        chaos.start()
        switch = Switchover(self.operator, primary.name, copy.name, self.house.evidence, self._step())
        try:
            self._switched(chaos, switch, primary, copy, planned=planned)
        except Exception as why:  # noqa: BLE001 -- reported; what was written until then is compared all the same
            self._violated(f"{type(why).__name__}: {why}")
            self.screen.event(traceback.format_exc())
        finally:
            self._healed(chaos)
        self.outcome.tally.add("figures", "rounds")
        self._judged()

    def _switched(
        self, chaos: Chaos, switch: Switchover, primary: SandboxCluster, copy: SandboxCluster, *, planned: bool
    ) -> None:
        old = self._writing(primary, 2 * self.number, DEAD_CALL_SECONDS)
        self._pass()
        if planned:
            self._at("fails over, as planned")
            switch.planned()
            later = self._writing(copy, 2 * self.number + 1)
        else:
            with chaos.peace(primary):
                self._at(f"{primary.name} is dead")
                self._kill(primary)
                old.ease(EASED)
                switch.unplanned()
                later = self._writing(copy, 2 * self.number + 1)
                refused = old.refused
                primary.start()
            until(lambda: old.refused > refused, self._step(), self.clock, lambda: "its producers are not refused")
        old.stop(self._step())
        self._at("is surveyed, and what is to be rescued is rescued")
        overlapping = self._listed(switch, copy, planned=planned)
        self._at("is reversed")
        switch.reverse(overlapping)
        self.ledger.copied_again(switch.old, overlapping)
        self._at("copies in the other direction")
        switch.wait("state=MIRRORING", self._step())
        later.until(AT_LEAST, self._step())
        self._pass()
        later.stop(self._step())
        self._at("catches up")
        self.operator.wake()
        chaos.stop()
        switch.wait("lag=0", self._step())
        figures = {"reversals": 1, f"failovers {'planned' if planned else 'unplanned'}": 1}
        for name, count in figures.items():
            self.outcome.tally.add("figures", name, count)

    def _kill(self, primary: SandboxCluster) -> None:
        """Sometimes its copy has lost it some time before."""
        dice = Random(self._name("kill"))
        door = self.doors[0 if primary is self.house.source else 1]
        if dice.random() < 0.7:
            self.screen.event(f"{primary.name} is cut off, and writes on")
            door.silence()
            time.sleep(dice.uniform(0.2, 2.0))  # noqa: TID251
        primary.kill()
        self.screen.event(f"kill -9 of all of {primary.name}")
        door.speak()
        self.outcome.tally.add("ways", "kill -9 of a whole cluster")

    def _listed(self, switch: Switchover, copy: SandboxCluster, *, planned: bool) -> frozenset[str]:
        """The tails of the old source; those of an unplanned failover are rescued, decided about, and replayed.

        Returns the topics that cannot return as they are: their reserves fell short where the failover had said it.
        """
        rows = switch.surveyed()
        for row in rows:
            self.outcome.tally.add("figures", f"verdict {row['verdict']}")
            said = not planned and f"{row['topic']}-{row['partition']}" in switch.may_be_reused
            if row["verdict"] not in {"NO_TAIL", "TAIL", *(("OVERLAP",) if said else ())} or (
                planned and row["records"]
            ):
                self._violated(f"after a {'planned' if planned else 'unplanned'} failover: {row}")
        self.ledger.list(switch.old, rows)
        if any(row["records"] for row in rows):
            self._rescued(switch, copy)
        return frozenset(str(row["topic"]) for row in rows if row["verdict"] == "OVERLAP")

    def _rescued(self, switch: Switchover, copy: SandboxCluster) -> None:
        rescued = switch.rescued()
        self.ledger.quarantined(copy, rescued)
        self.outcome.tally.add("figures", "records rescued", sum(each["rescued"] for each in rescued))
        replayed = switch.replayed(rescued)
        self.outcome.tally.add("figures", "records replayed", replayed)

    # ── what is written, and looked up ────────────────────────────────────────────────────────────────────────────

    def _writing(self, cluster: SandboxCluster, number: int, call_seconds: float = 30.0) -> Load:
        load = Load(cluster.bootstrap_servers, FLOWS, self.clock, self.outcome.seed + number, call_seconds=call_seconds)
        self.ledger.loads.append((cluster.name, load))
        load.start()
        load.until(AT_LEAST, self._step())
        return load

    def _pass(self) -> None:
        self.clock.wait(Random(f"{self._name('copying')}/{self.screen.detail}").uniform(*_COPYING))

    def _at(self, what: str) -> None:
        self.screen.detail = f"round {self.number} {what}"

    def _step(self) -> Deadline:
        return self.clock.deadline(STEP_SECONDS)

    def _healed(self, chaos: Chaos) -> None:
        try:
            chaos.stop()
            for load in (load for _, load in self.ledger.loads):
                load.stop(self._step())
            self.operator.wake()
        except Exception as why:  # noqa: BLE001 -- reported, and makes the storm fail
            self._violated(f"the storm itself broke: {type(why).__name__}: {why}")
        for kind, count in chaos.counts.items():
            self.outcome.tally.add("ways", str(kind), count)
        for wrong in self.operator.wrong:
            self._violated(wrong)
        self.operator.wrong.clear()

    def _judged(self) -> None:
        self._at("is compared")
        found = self.ledger.account(self._step())
        for wrong in found.wrong:
            self._violated(wrong)
        figures = self.outcome.tally.figures
        figures.update({name: count - figures[name] for name, count in self.ledger.figures(found).items()})
        self.screen.detail = f"{found.verdict.records:,} records on both clusters, {found.only_once} in tails"

    def _violated(self, what: str) -> None:
        self.screen.event(f"VIOLATION in round {self.number}: {what}")
        self.outcome.wrong.append((self.number, what))


def hash_of(name: str) -> int:
    """A number that is the same in each process."""
    return Random(name).randrange(2**31)


def run(screen: Screen, clock: Clock, *, seconds: float, seed: int, directory: Path, rounds: int = 2) -> Outcome:
    """Clusters and workers in `directory`; all processes end with the call. Whatever ends it, the outcome says so."""
    outcome, began = Outcome(seed, title="The circle", wanted=_WANTED, tally=Tally()), clock.monotonic()
    forks.prepare()
    with ExitStack() as until_the_end:
        with screen.step("Two clusters of two brokers each"):
            east, west = (ClusterSpec(name=name, brokers=2, properties=CLEANERS) for name in ("east", "west"))
            building = environment(east, west, clock, directory=directory, say=screen.say, keep_data=True)
            home = until_the_end.enter_context(building)
        proxy = until_the_end.enter_context(Proxy())
        doors = proxy.door(home.source), proxy.door(home.destination)
        lead_through(doors, home)
        circle = Circle(screen, clock, home, doors, outcome)
        try:
            circle.run(seconds, rounds)
        except (Exception, KeyboardInterrupt) as why:  # noqa: BLE001 -- reported with all that was seen
            screen.event(traceback.format_exc())
            outcome.wrong.append((circle.number, f"the storm itself broke: {why!r}"))
    outcome.seconds = clock.monotonic() - began
    return outcome
