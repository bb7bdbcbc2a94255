"""People at the runbook, each in a hurry and without a word to the others: the real command line, one process each."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import TimedOut
from tanist.usecases.failover.route import STEP_IDS
from tanist_testkit.sandbox import forks
from tests.kafka.failover.conftest import Answer, Doors, Pair
from tests.storm import mishaps
from tests.storm.mishaps import HELD, LIFTING, Mishap, Verb, Way
from tests.storm.proxy import BARRIER, NAMES, WRITE_TXN_MARKERS, Held, Proxy

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

COMMAND_SECONDS: Final = 150.0
"""No command takes longer than that once nothing holds it up."""
QUESTION_SECONDS: Final = 60.0
"""For so long a question is repeated that got no answer."""
STEPS: Final = STEP_IDS[:-1]
QUICK: Final = (
    "--fence-proof",
    "1s",
    "--drain",
    "12s",
    "--budget",
    "2s",
    "--timeout",
    "50s",
    "--json",
    "--although-it-answers",
)
LIFTERS: Final = frozenset({("failover", "abort"), ("fence", "lift")})
ABANDON: Final = ("--abandon-fence", "--reason", "storm")
BUG: Final = 70
TOLERATED: Final = 300
"""Offsets that an unplanned failover may lose here."""
_LOOK_SECONDS: Final = 0.02
_EARLIER: Final = 0.2
"""So often it is a plan of an earlier mirror that is run, where there is one."""


class Tally:
    """What has happened so far, in all episodes; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.commands: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.ways: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.figures: Counter[str] = Counter()

    def add(self, counter: str, name: str, count: int = 1) -> None:
        with self._lock:
            getattr(self, counter)[name] += count


@dataclass(eq=False)
class Plan:
    """One that was made and approved."""

    hash: str
    topics: tuple[str, ...]
    mode: str
    tolerance: int


@dataclass(eq=False)
class Story:
    """What has happened in an episode, what of it was wrong, and where it is."""

    phase: str = "begins"
    history: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    late_lifts: list[float] = field(default_factory=list)
    """When a request that lifts a source fence, and that was kept back, went on, by the monotonic clock."""
    late_markers: int = 0
    """Requests that write a barrier, and that were kept back until they went on."""
    began: float = field(default_factory=time.monotonic)

    def tell(self, what: str) -> None:
        self.history.append(f"{time.monotonic() - self.began:6.1f} s  {what}")

    def violated(self, what: str) -> None:
        self.tell(f"VIOLATION: {what}")
        self.wrong.append(what)


@dataclass(eq=False)
class Scene:
    """What the operators of one mirror share. `wake`: who sleeps wakes; `over`: nothing more is begun."""

    story: Story
    pair: Pair
    proxy: Proxy
    tally: Tally
    mirror: str
    topics: tuple[str, ...]
    extra: str
    """A topic of the source that nobody mirrors yet."""
    home: Path
    plans: dict[str, Plan] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    """Plans of which a command has said that they are DONE."""
    earlier: dict[str, Plan] = field(default_factory=dict)
    """Approved plans of a mirror that had the name before: none of them may do anything."""
    emptied: bool = False
    """All topics have left the mirror: it may be deleted, with the source fences that stand."""
    wake: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    asleep: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, what: str) -> None:
        self.story.tell(what)

    def violated(self, what: str) -> None:
        self.story.violated(what)

    def sleeping(self, more: int) -> None:
        with self._lock:
            self.asleep += more

    def lives(self) -> list[Plan]:
        return list(self.plans.values())


class Operator(threading.Thread):
    """Does so many `things`, one after the other.

    `first`: begins with that, and a request of it is kept back if it comes that far; where it `sleeps`, until `wake`.
    """

    def __init__(
        self, scene: Scene, name: str, dice: Random, things: int = 0, *, first: Verb | None = None, sleeps: bool = False
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._things, self._first, self._sleeps = things, first, sleeps
        self.died: BaseException | None = None
        self._scene, self._dice = scene, dice
        self._home = scene.home / name
        self._home.mkdir(exist_ok=True)

    def run(self) -> None:
        try:
            for _ in range(self._things):
                self._act(self._first or mishaps.verb(self._dice))
                self._first, self._sleeps = None, False
                if self._scene.over.wait(self._dice.uniform(0.0, 0.5)):
                    return
        except BaseException as bug:  # noqa: BLE001 -- reported by whoever looks at `died`
            self.died = bug

    # ── what they do ──────────────────────────────────────────────────────────────────────────────────────────────

    def _act(self, verb: Verb) -> None:
        if verb is Verb.RUN:
            self._plan_and_run()
        elif verb is Verb.AGAIN:
            self._again()
        else:
            self._do(verb, *self._words(verb))

    def _words(self, verb: Verb) -> tuple[str, ...]:
        scene, dice = self._scene, self._dice
        topic = ("--topic", dice.choice(scene.topics))
        return {
            Verb.DELETE: ("mirrors", "delete", scene.mirror, "--yes", *(ABANDON if scene.emptied else ())),
            Verb.ABORT: ("failover", "abort", scene.mirror, "--reason", "storm"),
            Verb.PAUSE: ("mirrors", "pause", scene.mirror, *topic),
            Verb.RESUME: ("mirrors", "resume", scene.mirror, *topic),
            Verb.ADD: ("mirrors", "add", scene.mirror, "--topic", scene.extra),
            Verb.ALTER: ("mirrors", "alter", scene.mirror, "--max-start-fill", str(dice.randint(1, 99))),
            Verb.METADATA: ("metadata", "sync", scene.mirror),
            Verb.GROUPS: ("groups", "sync", scene.mirror),
            Verb.LIFT: ("fence", "lift", scene.mirror),
            Verb.STATUS: ("status", scene.mirror, "--json"),
        }[verb]

    def _again(self) -> None:
        plans, earlier = self._scene.lives(), list(self._scene.earlier.values())
        if earlier and self._dice.random() < _EARLIER:
            self._run(Verb.AGAIN, self._dice.choice(earlier))
        elif plans:
            self._run(Verb.AGAIN, self._dice.choice(plans))
        else:
            self._plan_and_run()

    def _plan_and_run(self) -> None:
        topics = self._scene.topics if self._dice.random() < 0.5 else (self._dice.choice(self._scene.topics),)
        if (plan := self.approved(topics)) is not None:
            self._run(Verb.RUN, plan)

    def approved(self, topics: tuple[str, ...]) -> Plan | None:
        """A plan of these topics, approved, if it can be."""
        scene, dice = self._scene, self._dice
        mode, tolerance = ("unplanned", TOLERATED) if dice.random() < 0.25 else ("planned", 0)
        asked = ("--mode", mode, "--max-loss", str(tolerance), "--topic", "|".join(topics))
        shown = self.command("failover", "plan", scene.mirror, *asked, "--json")
        if not (found := items(shown)):
            return None
        plan = Plan(found[0]["plan_hash"], topics, mode, tolerance)
        if plan.hash in scene.earlier:
            scene.violated(f"plan {plan.hash} has the hash of a plan of an earlier mirror")
        words = ("failover", "approve", scene.mirror, plan.hash, *asked, "--reason", "storm")
        approved = self.command(*words, user="approver")
        if approved is None or approved.code:
            return None
        return scene.plans.setdefault(plan.hash, plan)

    def _run(self, verb: Verb, plan: Plan) -> None:
        until = ("--until", self._dice.choice(STEPS)) if self._dice.random() < 0.4 else ()
        answer = self._do(verb, "failover", "run", self._scene.mirror, "--plan", plan.hash, *QUICK, *until)
        if answer is None or answer.code:
            return
        if plan.hash in self._scene.earlier:
            self._scene.violated(f"plan {plan.hash} of an earlier mirror was run: {items(answer)}")
        elif items(answer)[0]["status"] == "DONE":
            self._scene.done.add(plan.hash)

    def _do(self, verb: Verb, *arguments: str) -> Answer | None:
        self._scene.tally.add("commands", verb)
        authorizer = self._scene.pair.west.cluster.spec.authorizer
        certain = self._first is not None
        mishap = mishaps.mishap(self._dice, verb, authorizer=authorizer, certain=certain, sleeps=self._sleeps)
        return self.command(*arguments, mishap=mishap)

    # ── one command ───────────────────────────────────────────────────────────────────────────────────────────────

    def command(self, *arguments: str, user: str = "mirror", mishap: Mishap | None = None) -> Answer | None:
        """Its answer; None: it was killed."""
        scene = self._scene
        doors = scene.pair.doors(scene.proxy) if mishap and mishap.way in HELD else None
        words = " ".join(arguments[:2]) + (f" {' '.join(arguments[3:7])}" if arguments[3:] else "")
        scene.tell(f"{self.name}: {words}{f'; {mishap}' if mishap else ''}")
        environment = scene.pair.environment(user, doors)
        command = forks.Command(forks.COMMANDS, (*arguments, "--destination", "west"), environment, self._home)
        if mishap:
            self._befall(command, mishap, doors, lifts=arguments[:2] in LIFTERS)
        try:
            ended = command.wait(COMMAND_SECONDS)
        except TimedOut as late:
            scene.violated(f"{words}: {late}")
            return None
        finally:
            for door in doors or ():
                door.close()
        return self._seen(words, ended)

    def question(self, *arguments: str) -> list[dict[str, Any]]:
        """What a command that only reads says. It is repeated for a while: no answer is not an empty one.

        Raises:
            TimeoutError: it was never answered.
        """
        by = time.monotonic() + QUESTION_SECONDS
        while True:
            answer = self.command(*arguments, "--json")
            if answer is not None and answer.out and not json.loads(answer.out)["errors"]:
                return items(answer)
            if time.monotonic() > by:
                raise TimeoutError(f"{' '.join(arguments)} got no answer: {answer}")

    def _seen(self, words: str, ended: forks.CommandResult) -> Answer | None:
        scene = self._scene
        why = next((line for line in ended.err.splitlines() if line.startswith("error:")), "")
        scene.tell(f"{self.name}: {words} ended with {ended.code} {why[:230]}")
        scene.tally.add("codes", str(ended.code))
        if why:
            scene.tally.add("refusals", why.split(":")[1].strip())
        if ended.code == BUG or "Traceback" in ended.err:
            scene.violated(f"{words}: a bug of ours: {ended.err[-1500:]}")
        return Answer(ended.code, ended.out, ended.err) if ended.code >= 0 else None

    def _befall(self, command: forks.Command, mishap: Mishap, doors: Doors | None, *, lifts: bool) -> None:
        if doors is not None:
            self._keep_back(command, mishap, doors, lifts=lifts and mishap.request in LIFTING)
            return
        if not self._still_alive(command, mishap.after):
            return
        self._scene.tally.add("ways", mishap.way)
        if mishap.way is Way.KILL:
            command.send(signal.SIGKILL)
            return
        command.send(signal.SIGSTOP)
        self._sleep(mishap)
        command.send(signal.SIGCONT)

    def _keep_back(self, command: forks.Command, mishap: Mishap, doors: Doors, *, lifts: bool) -> None:
        side, key, skip = mishap.request
        held: Held = getattr(doors, side).hold(key, BARRIER if key == WRITE_TXN_MARKERS else b"", skip=skip)
        by = time.monotonic() + COMMAND_SECONDS
        while not held.wait(_LOOK_SECONDS):
            if not command.alive or time.monotonic() > by:
                return
        scene = self._scene
        scene.tell(f"{self.name}: {NAMES[key]} at {side} is kept back")
        scene.tally.add("ways", mishap.way)
        scene.tally.add("requests", f"{NAMES[key]} at {side}")
        if mishap.way is not Way.LATE_REQUEST:
            command.send(signal.SIGKILL if mishap.way is Way.ORPHANED else signal.SIGSTOP)
        self._sleep(mishap)
        scene.tell(f"{self.name}: {NAMES[key]} at {side} goes on")
        if lifts:
            scene.story.late_lifts.append(time.monotonic())
        scene.story.late_markers += key == WRITE_TXN_MARKERS
        held.release()
        command.send(signal.SIGCONT)
        if mishap.way is Way.ORPHANED:
            time.sleep(0.5)  # noqa: TID251  # its broker takes what has no sender any more

    def _still_alive(self, command: forks.Command, seconds: float) -> bool:
        by = time.monotonic() + seconds
        while command.alive and time.monotonic() < by:
            time.sleep(_LOOK_SECONDS)  # noqa: TID251
        return command.alive

    def _sleep(self, mishap: Mishap) -> None:
        """Short sleepers wake by themselves, at the latest with the others; late ones once all was compared."""
        if not mishap.sleeps:
            self._scene.wake.wait(mishap.lasts)
            return
        self._scene.sleeping(+1)
        self._scene.wake.wait()
        self._scene.sleeping(-1)


def items(answer: Answer | None) -> list[dict[str, Any]]:
    return list(json.loads(answer.out)["items"]) if answer is not None and answer.out else []
