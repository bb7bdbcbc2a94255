"""One run at work: what its steps are given, and how it says that it lives."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from tanist.domain.errors import CouldNotTell, TanistError, TimedOut
from tanist.domain.failover.evidence import Evidence
from tanist.domain.failover.page import as_json
from tanist.domain.failover.plan import canonical
from tanist.domain.records import STATE_TOPIC, FailoverRun, RunStatus, TopicDesired

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.usecases.failover.clusters import FailoverContext, Timeouts
    from tanist.usecases.failover.observe import Observer
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.sides import CommandContext

_K = TypeVar("_K")
_V = TypeVar("_V")
BEAT_SECONDS: Final = 1.0
WAIT_SECONDS: Final = 0.2
BEGINS: Final = "begins"
NOT_YET: Final = "not yet"


class NotDrainedYet(CouldNotTell):
    name = "NOT_YET"
    operator_action = "none: it is retried until the deadline of the run"


def must_all(answers: Mapping[_K, _V | TanistError | None], what: str) -> None:
    """Raises NotYet, or where only the time was too short TimedOut, if any of `answers` is an error. `what` failed."""
    failed = {item: answer for item, answer in answers.items() if isinstance(answer, TanistError)}
    if failed:
        kind = TimedOut if all(isinstance(error, TimedOut) for error in failed.values()) else NotDrainedYet
        some = "; ".join(f"{item}: {error}" for item, error in list(failed.items())[:3])
        raise kind(f"{len(failed)} {what}: {some}")


class Sink(Protocol):
    def flush(self, evidence: Evidence) -> None:
        """Write all of it, atomically."""
        ...

    def before(self) -> Evidence | None:
        """What an earlier run of the same plan has left; None: nothing."""
        ...


def _unknown(_runner: str) -> bool:
    return False


def _nowhere(_point: str) -> None:
    """Tests stop a run here."""


def _tell_nobody(_step: str, _what: str, _reason: str) -> None:
    """For runs that nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a run needs besides the clusters. `checkpoint` is told every point where a crash would be inconvenient."""

    patience: Timeouts
    sink: Sink
    runner: str
    is_process_dead: Callable[[str], bool] = field(default=_unknown)
    """Whether another runner is certainly dead; False: not known, so its heartbeat is watched."""
    checkpoint: Callable[[str], None] = field(default=_nowhere)
    report: Callable[[str, str, str], None] = field(default=_tell_nobody)
    """Hears of each step what becomes of it, and why, where there is a reason; the same again is not told."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a step has to show for itself. `waited`: seconds that only waited for a proof."""

    detail: Mapping[str, Any]
    waited: float = 0.0


@dataclass(slots=True, kw_only=True)
class Work:
    """`facts` are those of the last look; `record` is what stands in the state topic of this run."""

    clusters: FailoverContext
    intent: Intent
    context: CommandContext
    tools: Tools
    observer: Observer
    lock: LockedMirror
    record: FailoverRun
    facts: Facts
    evidence: Evidence
    hindrance: tuple[str, str] = ("", "")
    """A step, and what was in its way when it was tried last."""
    _beaten: float = float("-inf")
    _reported: dict[str, tuple[str, str]] = field(default_factory=dict)

    def wanted(self) -> tuple[TopicDesired, ...]:
        """The topics of this run as the state topic has them, removed ones too."""
        return wanted_topics(self.observer.view(STATE_TOPIC), self.intent)

    def look(self, *, ask_source: bool = True) -> Facts:
        self.facts = self.observer.look(self.wanted(), self.record.plan, ask_source=ask_source)
        return self.facts

    def write(self, records: Sequence[StateRecord]) -> StateView:
        """Raises MirrorLocked where somebody else has taken the mirror's lock."""
        self.lock.command = self.context
        return self.lock.append(records)

    def confirm(self) -> None:
        """Directly before an action that Kafka does not fence by itself. Raises MirrorLocked."""
        self.lock.command = self.context
        self.lock.confirm()

    def save(self, **changes: Any) -> None:
        """Change the run's own record."""
        self.record = replace(self.record, at=self.context.clock.now(), **changes)
        self.write([self.record])
        self._beaten = self.context.clock.monotonic()

    def mark(self, name: str) -> None:
        """Remember something that leaves no other trace."""
        if name not in self.record.marks:
            self.save(marks=(*self.record.marks, name))

    def forget(self, name: str) -> bool:
        """What was remembered holds no more; False: nothing was. True: look again."""
        if name not in self.record.marks:
            return False
        self.save(marks=tuple(mark for mark in self.record.marks if mark != name))
        return True

    def beat(self) -> None:
        """Say that this run lives, and find out whether it still holds the mirror.

        Raises:
            MirrorLocked: somebody else has taken over.
        """
        if self.context.clock.monotonic() - self._beaten >= BEAT_SECONDS:
            self.save()

    def release(self, reason: str = "") -> None:
        """Let whoever comes next take over at once, on any host: nobody waits for a heartbeat of ours.

        `reason`: why we stop before the end, for others to read.
        """
        held = self.observer.view().failover(self.record.mirror, self.record.plan)
        if held is None or held.status is not RunStatus.RUNNING:
            return
        self.record = held
        if held.runner:
            self.save(runner="", reason=reason)

    def wait(self, seconds: float = WAIT_SECONDS) -> None:
        self.beat()
        self.context.clock.wait(seconds)

    def hindered(self, step: str) -> str:
        """What was in the way of `step` when it was tried last; empty: nothing, or it was not tried."""
        tried, why = self.hindrance
        return why if tried == step else ""

    def report(self, step: str, what: str, detail: Mapping[str, Any], *, seconds: float = 0, waited: float = 0) -> None:
        """Add to the evidence, and flush it. People are told what they have not heard yet."""
        now = self.context.clock.now()
        self.evidence = self.evidence.adding(now, step, what, detail, seconds=seconds, waited=waited)
        self.tools.sink.flush(self.evidence)
        heard, reason = self._reported.get(step), str(detail.get("reason", ""))
        if (what, reason) == heard or (what == BEGINS and heard is not None and heard[0] == NOT_YET):
            return
        self._reported[step] = what, reason
        self.tools.report(step, what, reason)


def evidence_of(tools: Tools, record: FailoverRun, head: Mapping[str, Any]) -> Evidence:
    """What an earlier process of this run has left, or a new book that begins with `head` and the run's approval.

    A run of the same plan on an earlier approval, which was aborted, is another run: its book is kept whole in the head
    of ours, as `earlier`, because ours takes its place.
    """
    found = tools.sink.before()
    if found is not None and found.approval == record.approval:
        return found
    approval = {"id": record.approval, "by": record.approver}
    new = {"mirror": record.mirror, "plan_hash": record.plan, "approval": approval, **head, "plan": record.plan_json}
    return Evidence(head=canonical(new if found is None else new | {"earlier": json.loads(as_json(found))}))


def wanted_topics(view: StateView, intent: Intent) -> tuple[TopicDesired, ...]:
    """The topics that `intent` names, as far as there are such."""
    names = frozenset(intent.names)
    return tuple(topic for topic in view.topics(intent.mirror) if topic.topic in names)
