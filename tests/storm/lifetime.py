"""One mirror from its creation to the comparison of everything: clients, operators, sleepers that wake too late."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Final

from tanist.domain.acls import AclBinding
from tests.kafka.failover.conftest import ALLOW, LITERAL, TOPIC, WRITE, give
from tests.storm.judging import Judge, kept_off
from tests.storm.operators import QUICK, Operator
from tests.storm.traffic import USER, Clients, Pen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.storm.mishaps import Verb
    from tests.storm.operators import Scene

OPERATORS: Final = 3
THINGS: Final = (2, 5)
"""So many each operator does."""
PARTITIONS: Final = 2
WORK_SECONDS: Final = 200.0
"""Then no operator begins anything more."""
ENDED_SECONDS: Final = 200.0
"""A command that has begun ends within that, whatever befalls it."""
SETTLED_SECONDS: Final = 120.0
FIRST_SECONDS: Final = 60.0
_FIRST_RECORDS: Final = 40


class Lifetime:
    """`make` it, `play` it, `compare` it; what is wrong goes to the scene."""

    def __init__(self, scene: Scene, group: str, dice: Random) -> None:
        self.scene, self.group, self._dice = scene, group, dice
        self.asking = Operator(scene, "judge", Random(f"{dice.random()}/judge"))
        self.everything = (*scene.topics, scene.extra)
        self.operators: list[Operator] = []
        self.judge = Judge(scene, self.asking)

    # ── the beginning ─────────────────────────────────────────────────────────────────────────────────────────────

    def make_topics(self, topics: Sequence[str]) -> None:
        """At the source, where USER may write to them; those of the mirror have records."""
        east = self.scene.pair.east
        for topic in topics:
            east.topic(topic, PARTITIONS)
            if east.cluster.spec.authorizer:
                give(east.cluster, AclBinding(TOPIC, topic, LITERAL, f"User:{USER}", "*", WRITE, ALLOW))
        mirrored = [topic for topic in topics if topic in self.scene.topics]
        if not mirrored:
            return
        first = Pen(east, lambda: mirrored, "first", 0.005)
        first.start()
        by = time.monotonic() + FIRST_SECONDS
        while len(first.taken) < _FIRST_RECORDS and first.is_alive() and time.monotonic() < by:
            time.sleep(0.01)  # noqa: TID251
        first.stop()
        if len(first.taken) < _FIRST_RECORDS:
            raise RuntimeError(f"the source took {len(first.taken)} records of {mirrored}: {first.died!r}")
        self.judge.probes += first.taken

    def make(self, *options: str) -> None:
        """The mirror, all of it copied."""
        scene = self.scene
        scene.story.phase = "makes its mirror"
        self.judge.before = {topic: kept_off(scene.pair.east, topic) for topic in self.everything}
        include = ("--topic", "|".join(scene.topics))
        for words in (
            ("mirrors", "create", scene.mirror, "--source", "east", *include, *options),
            *(
                ("mirrors", "wait", scene.mirror, "--for", goal, "--timeout", "200s")
                for goal in ("state=MIRRORING", "lag=0")
            ),
        ):
            answer = self.asking.command(*words)
            if answer is None or answer.code:
                raise RuntimeError(f"{' '.join(words)}: {answer}")

    def approve(self) -> None:
        """So that operators have a plan to begin with."""
        for topics in (self.scene.topics, self.scene.topics[:1]):
            self.asking.approved(topics)

    def clients(self, mark: str) -> Clients:
        pair, places = self.scene.pair, [(topic, n) for topic in self.scene.topics for n in range(PARTITIONS)]
        return Clients.of((pair.east, pair.west), (self.everything, self._at_west), places, self.group, mark)

    def _at_west(self) -> tuple[str, ...]:
        """Without an authorizer nobody is refused there: a record before the takeover would spoil the mirror."""
        if self.scene.pair.west.cluster.spec.authorizer:
            return self.scene.topics
        return tuple(sorted(self.judge.promoted))

    # ── the play ──────────────────────────────────────────────────────────────────────────────────────────────────

    def operate(self, first: Sequence[Verb], *, sleep: bool, meanwhile: Callable[[], None] | None = None) -> None:
        """Operators do things until each has ended, or sleeps. `first`: what some of them begin with."""
        scene, dice = self.scene, self._dice
        for n in range(1, OPERATORS + 1):
            own, begins = Random(f"{dice.random()}/{n}"), first[n - 1] if n <= len(first) else None
            things = dice.randint(*THINGS)
            self.operators.append(Operator(scene, f"op{n}", own, things, first=begins, sleeps=sleep and bool(begins)))
        scene.story.phase = "has operators at work"
        for operator in self.operators:
            operator.start()
        if meanwhile is not None:
            meanwhile()
        self.ended(sleeping=True)

    def wake(self) -> None:
        """Late sleepers do what they were about to; nobody begins anything else."""
        scene = self.scene
        scene.story.phase = f"wakes {scene.asleep} too late"
        scene.tell(f"{scene.asleep} late sleeper(s) of {scene.mirror} {list(scene.topics)} wake")
        scene.wake.set()
        self.ended(sleeping=False)

    def ended(self, *, sleeping: bool) -> None:
        """All operators have ended, or (`sleeping`) wait for those who compare."""
        scene, began = self.scene, time.monotonic()
        while sum(operator.is_alive() for operator in self.operators) > (scene.asleep if sleeping else 0):
            if time.monotonic() > began + WORK_SECONDS:
                scene.over.set()
            if time.monotonic() > began + WORK_SECONDS + ENDED_SECONDS:
                scene.violated("an operator's command does not end")
                return
            time.sleep(0.05)  # noqa: TID251

    def settle(self) -> None:
        """Each unfinished run is run to its end, or aborted: one of both is always possible."""
        scene, by = self.scene, time.monotonic() + SETTLED_SECONDS
        scene.story.phase = "is settled"
        while runs := self.unfinished():
            plan = self._dice.choice(runs)
            ways = [
                ("failover", "run", scene.mirror, "--plan", plan, *QUICK),
                ("failover", "abort", scene.mirror, "--reason", "settled"),
            ]
            self._dice.shuffle(ways)
            for words in ways:
                answer = self.asking.command(*words)
                if answer is not None and answer.code == 0:
                    break
            if time.monotonic() > by and plan in self.unfinished():
                scene.violated(f"plan {plan} can neither be run nor aborted ({scene.asleep} asleep)")
                return

    def unfinished(self) -> list[str]:
        reported = self.asking.question("failover", "status", self.scene.mirror)
        return [run["plan_hash"] for run in reported if run["status"] == "RUNNING"]

    def judged(self, clients: Clients) -> None:
        """What must hold when nobody moves; the group follows where everything has taken over."""
        self.scene.story.phase = "is judged"
        self.judge.judge()
        if self.judge.promoted >= frozenset(self.scene.topics) and not clients.reader.moved.is_set():
            clients.reader.move()
            time.sleep(2.0)  # noqa: TID251

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def release(self) -> None:
        """Nobody of this mirror sleeps, or begins anything, any more."""
        self.scene.over.set()
        self.scene.wake.set()

    def report_deaths(self) -> None:
        for operator in self.operators:
            if operator.died is not None:
                self.scene.violated(f"the storm itself broke: {operator.name}: {operator.died!r}")

    def compare(self, clients: Clients) -> None:
        """Every record, once the clients have stopped."""
        scene, judge = self.scene, self.judge
        scene.story.phase = "is compared"
        for client in clients.all:
            if client.died is not None or client.is_alive():
                why = "does not end" if client.died is None else repr(client.died)
                scene.violated(f"the storm itself broke: {client.name}: {why}")
        if not clients.watch.looks:
            scene.violated("the storm itself broke: nobody has looked at the positions of the group")
        judge.compare(clients)
        figures = {
            "records acknowledged by the source": len(clients.source.taken) + len(judge.probes),
            "records acknowledged by the destination": len(clients.destination.taken),
            "records refused to producers": clients.source.refused + clients.destination.refused,
            "records that groups have read": clients.reader.read,
            "looks at positions of groups": clients.watch.looks,
            "topics that took over": len(judge.promoted),
            "topics that stayed": len(frozenset(scene.topics) - judge.promoted),
            "failovers DONE": len(judge.done),
            "status asked while a fence stood": judge.status_looks,
        }
        for name, count in figures.items():
            scene.tally.add("figures", name, count)
