"""Many actors, one baton: exactly one of them runs, and hands over only where it calls a cluster or waits.

Each actor is a thread, so that the product's own code runs as it is. Time is virtual. What happens to an actor, and
where, is said beforehand (`Order`), so a play is repeated exactly.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappush, heapreplace
from typing import TYPE_CHECKING, Final

from tests.explorer.product import Deadline, EpochMs, JumpingClock, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

AT_LAST: Final = float("inf")
"""Frozen until everybody else has left the stage."""
ANYTHING: Final = "*"


class Killed(BaseException):
    """The process is gone: nothing may catch it."""


class Effect(StrEnum):
    FREEZE, KILL = "freeze", "kill"
    LOSE = "lose the answer of"
    """What was asked is done, and the answer never comes."""
    DIE, RETURN = "the source dies before", "the source returns before"


@dataclass(frozen=True, slots=True, order=True)
class Order:
    """What happens to `actor` where it calls `label` (`*`: anything) for the `nth` time."""

    actor: str
    label: str
    nth: int
    effect: Effect
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.effect is Effect.FREEZE:
            long = "until all others are done" if self.seconds == AT_LAST else f"{self.seconds:g} s"
            what = f"is frozen {long} before"
        else:
            what = {Effect.KILL: "is killed before", Effect.LOSE: "gets no answer to"}.get(
                self.effect, f": {self.effect}"
            )
        return f"{self.actor} {what} {self.label} no. {self.nth}"


@dataclass(eq=False, slots=True)
class Actor:
    """`extra`: the play does not wait for it. `wake`: when it goes on."""

    name: str
    body: Callable[[], None]
    wake: float
    extra: bool
    turn: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None
    ident: int = -1
    doomed: bool = False
    gone: bool = False
    crash: BaseException | None = None
    loses: bool = False
    late: float = 0.0
    seen: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass(eq=False)
class Stage:
    """`step`: seconds that each call takes. `cues`: what orders may do to the world, by effect."""

    orders: Iterable[Order] = ()
    step: float = 0.004
    now: float = 1_000.0
    tell: Callable[[str, str], None] | None = None
    cues: dict[Effect, Callable[[], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.limit = AT_LAST
        self._closing = False
        self._main = threading.Lock()
        self._main.acquire()
        self._timers: list[tuple[float, int, float, Callable[[], None]]] = []
        self._orders: defaultdict[tuple[str, str], list[Order]] = defaultdict(list)
        for each in self.orders:
            self._orders[each.actor, each.label].append(each)

    # ── who plays ─────────────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, name: str, body: Callable[[], None], after: float = 0.0, *, extra: bool = False) -> Actor:
        actor = Actor(name, body, self.now + after, extra)
        actor.turn.acquire()
        self.actors.append(actor)
        return actor

    def every(self, seconds: float, what: Callable[[], None]) -> None:
        """Whenever so much time has passed, whoever plays; `what` calls nobody."""
        heappush(self._timers, (self.now + seconds, len(self._timers), seconds, what))

    def play(self, seconds: float) -> None:
        """Until all but the extras have left, or so much time has passed."""
        self.limit = self.now + seconds
        first = self._next()
        if first is not None:
            self._give(first)
            self._main.acquire()
        self.current = None

    def dismiss(self, *actors: Actor) -> None:
        """Kill them where they stand."""
        self._closing = True
        for each in actors or tuple(self.actors):
            if each.thread is not None and not each.gone:
                each.doomed = True
                self._give(each)
                self._main.acquire()
            each.gone = True
        self._closing, self.current = False, None

    def is_gone(self, name: str) -> bool:
        return all(each.gone for each in self.actors if each.name == name)

    def is_out(self, name: str) -> bool:
        """Whether it is gone, or frozen until everybody else has left."""
        return all(each.gone or each.wake == AT_LAST for each in self.actors if each.name == name)

    @property
    def player(self) -> str:
        """Who runs now."""
        return self.current.name if self.current else "-"

    @property
    def late(self) -> float:
        """For how many seconds who runs now was frozen directly before this call."""
        return self.current.late if self.current is not None else 0.0

    # ── what actors call ──────────────────────────────────────────────────────────────────────────────────────────

    def point(self, label: str) -> None:
        """The actor that runs is about to ask a cluster something."""
        actor = self._me()
        if actor is None:
            return
        seconds = self.step
        for order in self._due(actor, label):
            if order.effect is Effect.KILL:
                actor.doomed = True
                self._say(actor.name, f"KILLED before {label}")
                raise Killed
            if order.effect is Effect.FREEZE:
                self._say(actor.name, f"FROZEN before {label}")
                seconds = max(seconds, order.seconds)
            elif order.effect is Effect.LOSE:
                actor.loses = True
            elif order.effect in self.cues:
                self.cues[order.effect]()
        began = self.now
        self._until(actor, self.now + seconds)
        seconds = self.now - began
        actor.late = seconds if seconds > 1 else 0.0
        if actor.late:
            self._say(actor.name, "wakes")

    def answer(self, label: str) -> None:
        """The cluster has done it: the answer may be lost on its way.

        Raises:
            TimedOut: it is.
        """
        actor = self._me()
        if actor is not None and actor.loses:
            actor.loses = False
            self._say(actor.name, f"gets no answer to {label}")
            raise TimedOut(f"{label}: no answer")

    def sleep(self, seconds: float) -> None:
        if (actor := self._me()) is not None:
            self._until(actor, self.now + seconds)

    def say(self, what: str) -> None:
        """For the trace, in the name of whoever runs."""
        self._say(self.player, what)

    # ── the baton ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _me(self) -> Actor | None:
        actor = self.current
        if actor is None or actor.ident != threading.get_ident():
            return None  # before the play, or a thread of the product's own, which its actor waits for
        if actor.doomed:
            raise Killed
        return actor

    def _say(self, who: str, what: str) -> None:
        if self.tell is not None:
            self.tell(who, what)

    def _due(self, actor: Actor, label: str) -> list[Order]:
        found = []
        for name in (label, ANYTHING):
            nth = actor.seen[name] = actor.seen[name] + 1
            if planned := self._orders.get((actor.name, name)):
                found += [each for each in planned if each.nth == nth]
        return found

    def _until(self, actor: Actor, wake: float) -> None:
        actor.wake = wake
        following = self._next()
        if following is not actor:
            self._give(following)
            actor.turn.acquire()
        if actor.doomed:
            raise Killed

    def _next(self) -> Actor | None:
        """Who goes on, at its time; None: the play is over."""
        following, waited_for, soonest = None, None, AT_LAST
        for each in self.actors:
            if each.gone:
                continue
            if not each.extra:
                waited_for, soonest = waited_for or each, min(soonest, each.wake)
            if following is None or each.wake < following.wake:
                following = each
        if following is None or waited_for is None:
            return None
        if soonest == AT_LAST:
            waited_for.wake = self.now
            following = min(following, waited_for, key=lambda each: each.wake)
        if following.wake > self.limit:
            return None
        self._pass(following.wake)
        return following

    def _pass(self, until: float) -> None:
        while self._timers and self._timers[0][0] <= until:
            due, number, seconds, what = self._timers[0]
            heapreplace(self._timers, (due + seconds, number, seconds, what))
            self.now = max(self.now, due)
            what()
        self.now = max(self.now, until)

    def _give(self, actor: Actor | None) -> None:
        self.current = actor
        if actor is None:
            self._main.release()
        elif actor.thread is None:
            actor.thread = threading.Thread(target=self._live, args=(actor,), name=actor.name, daemon=True)
            actor.thread.start()
        else:
            actor.turn.release()

    def _live(self, actor: Actor) -> None:
        actor.ident = threading.get_ident()
        try:
            if not actor.doomed:
                actor.body()
        except Killed:
            pass
        except BaseException as crash:  # noqa: BLE001  # whatever the product lets out is a finding
            actor.crash = crash
        actor.gone = True
        self._give(None if self._closing else self._next())


class StageClock(JumpingClock):
    """The time of the stage. Who waits lets others go on."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        super().__init__()
        self._offset = self._epoch_ms - round(stage.now * 1000)

    def jump(self, seconds: float) -> None:
        self._stage.sleep(seconds)

    def now(self) -> EpochMs:
        return EpochMs(round(self._stage.now * 1000) + self._offset)

    def monotonic(self) -> float:
        return self._stage.now

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(self._stage.now + seconds)

    def wait(self, seconds: float) -> None:
        self._stage.point("clock.wait")
        self._stage.sleep(seconds)
