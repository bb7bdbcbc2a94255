"""One mirror from its creation to the comparison of everything: clients, operators, sleepers that wake too late."""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from tanist.wire.admin import AccessRule
from tests.failover.conftest import ALLOW, LITERAL, TOPIC, WRITE, give
from tests.storm.judging import Judge, kept_off
from tests.storm.operators import Operator, Scene, items
from tests.storm.traffic import USER, Pen, Reader, Watch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.failover.conftest import Pair
    from tests.storm.operators import Tally
    from tests.storm.proxy import Proxy

OPERATORS: Final = 3
THINGS: Final = (2, 5)
"""So many each operator does."""
PARTITIONS: Final = 2
SETTLED_SECONDS: Final = 120.0
ENDED_SECONDS: Final = 200.0
_PAUSE_SECONDS: Final = 0.08
_FIRST_RECORDS: Final = 40


@dataclass(slots=True)
class Episode:
    """`play` it; what is wrong then stands in `scene.wrong`, and how it came to that in `scene.history`."""

    scene: Scene
    number: int
    dice: Random
    phase: str = "begins"

    @classmethod
    def new(cls, pair: Pair, proxy: Proxy, tally: Tally, number: int, seed: int, home: Path) -> Episode:
        names = tuple(f"e{number}-{letter}" for letter in "ab")
        home.mkdir(exist_ok=True)
        scene = Scene(
            pair=pair, proxy=proxy, tally=tally, mirror=f"m{number}", topics=names, extra=f"e{number}-c", home=home
        )
        return cls(scene, number, Random(f"{seed}/{number}"))

    def play(self) -> None:
        scene, pair = self.scene, self.scene.pair
        asking = Operator(scene, "judge", Random(f"{self.dice.random()}/judge"))
        everything = (*scene.topics, scene.extra)
        self._begin(asking)
        judge = Judge(scene, asking, {topic: kept_off(pair.east, topic) for topic in everything})
        pens = (
            Pen(pair.east, lambda: everything, "east", _PAUSE_SECONDS),
            Pen(pair.west, lambda: self._at_west(judge), "west", 5 * _PAUSE_SECONDS),
        )
        reader = Reader((pair.east, pair.west), scene.topics, f"g{self.number}")
        places = [(topic, n) for topic in scene.topics for n in range(PARTITIONS)]
        watch = Watch(pair.west, places, f"g{self.number}")
        clients = (*pens, reader, watch)
        for client in clients:
            client.start()
        try:
            self._act(asking, judge, reader)
        finally:
            scene.over.set()
            scene.wake.set()
            for client in clients:
                client.stop()
        self.phase = "is compared"
        for client in (*pens, reader):
            if client.died is not None:
                scene.violated(f"the storm itself broke: {client.name}: {client.died!r}")
        self._count(judge.compare(pens, reader, watch), judge, pens, reader, watch)

    def _begin(self, asking: Operator) -> None:
        scene, east = self.scene, self.scene.pair.east
        for topic in (*scene.topics, scene.extra):
            east.topic(topic, PARTITIONS)
            if east.cluster.spec.authorizer:
                give(east.cluster, AccessRule(TOPIC, topic, LITERAL, f"User:{USER}", "*", WRITE, ALLOW))
        first = Pen(east, lambda: scene.topics, "first", 0.005)
        first.start()
        while len(first.taken) < _FIRST_RECORDS and first.is_alive():
            time.sleep(0.01)  # noqa: TID251
        first.stop()
        self.phase = "its mirror is made"
        include = ("--topic", "|".join(scene.topics))
        for words in (
            ("mirrors", "create", scene.mirror, "--source", "east", *include),
            *(
                ("mirrors", "wait", scene.mirror, "--for", goal, "--timeout", "60s")
                for goal in ("state=MIRRORING", "lag=0")
            ),
        ):
            answer = asking.command(*words)
            if answer is None or answer.code:
                raise RuntimeError(f"{' '.join(words)}: {answer}")
        for topics in (scene.topics, scene.topics[:1]):
            asking.approved(topics)

    def _at_west(self, judge: Judge) -> tuple[str, ...]:
        """Without an authorizer nobody is refused there: a record before the takeover would spoil the mirror."""
        if self.scene.pair.west.cluster.spec.authorizer:
            return self.scene.topics
        return tuple(sorted(judge.promoted))

    # ── the play ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _act(self, asking: Operator, judge: Judge, reader: Reader) -> None:
        scene = self.scene
        operators = [
            Operator(scene, f"op{n}", Random(f"{self.dice.random()}/{n}"), self.dice.randint(*THINGS), first=n == 1)
            for n in range(1, OPERATORS + 1)
        ]
        self.phase = "operators are at work"
        for operator in operators:
            operator.start()
        self._ended(operators, sleeping=True)
        asleep = scene.asleep
        self._settle(asking, asleep=asleep)
        self.phase = "is judged"
        judge.judge()
        if judge.promoted == frozenset(scene.topics):
            reader.move()
            time.sleep(2.0)  # noqa: TID251
        if asleep:
            self.phase = f"{asleep} wake too late"
            scene.tell(f"{asleep} late sleeper(s) wake")
            scene.wake.set()
            self._ended(operators, sleeping=False)
            self._settle(asking, asleep=0)
            self.phase = "is judged again"
            judge.judge()
        for operator in operators:
            if operator.died is not None:
                scene.violated(f"the storm itself broke: {operator.name}: {operator.died!r}")

    def _ended(self, operators: list[Operator], *, sleeping: bool) -> None:
        """All operators have ended, or (`sleeping`) wait for those who compare."""
        by = time.monotonic() + ENDED_SECONDS
        while sum(operator.is_alive() for operator in operators) > (self.scene.asleep if sleeping else 0):
            if time.monotonic() > by:
                self.scene.violated("an operator's command does not end")
                return
            time.sleep(0.05)  # noqa: TID251

    def _settle(self, asking: Operator, *, asleep: int) -> None:
        """Each unfinished run is run to its end, or aborted: one of both is always possible."""
        scene, by = self.scene, time.monotonic() + SETTLED_SECONDS
        self.phase = "is settled"
        while runs := self._unfinished(asking):
            plan = self.dice.choice(runs)
            ways = [
                (
                    "run",
                    (
                        "failover",
                        "run",
                        scene.mirror,
                        "--plan",
                        plan,
                        "--fence-proof",
                        "1s",
                        "--drain",
                        "15s",
                        "--budget",
                        "2s",
                        "--timeout",
                        "50s",
                        "--json",
                    ),
                ),
                ("abort", ("failover", "abort", scene.mirror, "--reason", "settled")),
            ]
            self.dice.shuffle(ways)
            codes = []
            for _name, words in ways:
                answer = asking.command(*words)
                codes.append(answer.code if answer else None)
                if codes[-1] == 0:
                    break
            if 0 not in codes and time.monotonic() > by:
                scene.violated(f"plan {plan} can neither be run nor aborted ({asleep} asleep)")
                return

    def _unfinished(self, asking: Operator) -> list[str]:
        told = items(asking.command("failover", "status", self.scene.mirror, "--json"))
        return [run["plan_hash"] for run in told if run["status"] == "RUNNING"]

    def _count(self, acknowledged: int, judge: Judge, pens: tuple[Pen, Pen], reader: Reader, watch: Watch) -> None:
        figures = {
            "episodes": 1,
            "records acknowledged by the source, each looked for": acknowledged,
            "records acknowledged by the destination": len(pens[1].taken),
            "records refused to producers": pens[0].refused + pens[1].refused,
            "records that groups have read": reader.read,
            "looks at positions of groups": watch.looks,
            "topics that took over": len(judge.promoted),
            "topics that stayed": len(self.scene.topics) - len(judge.promoted),
            "failovers DONE": len(judge.done),
            "status asked while a fence stood": judge.status_looks,
        }
        for name, count in figures.items():
            self.scene.tally.add("figures", name, count)
