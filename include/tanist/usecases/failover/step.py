"""What the action of a step is given, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tanist.domain.errors import AuthorizationFailed, CouldNotTell, RunUnderWay, TanistError, TimedOut
from tanist.domain.failover.plan import is_another_topic, wanted_topics
from tanist.domain.records import FailoverRun, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.approval.entries import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import ApprovedPlan, Intent
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.observe import Observer
    from tanist.usecases.failover.tools import MoveGroups, Timeouts
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.mirror import OpenMirror


UNDO_SECONDS: Final = 60.0
"""A fresh deadline for undoing, so that it is never cut short by what went wrong before."""


BEAT_SECONDS: Final = 1.0
WAIT_SECONDS: Final = 0.2


@dataclass(slots=True, kw_only=True)
class RunSession:
    """The only way in which a run changes state. `record`: what stands in the state topic of this run.

    `begun`: whether it stands there yet. A run that does not has no heartbeat.
    """

    lock: LockedMirror
    command: CommandContext
    record: FailoverRun
    begun: bool
    _beaten: float = float("-inf")

    def view(self) -> StateView:
        """The state topic as it is now."""
        self.lock.command = self.command
        return self.lock.view()

    def write(self, records: Sequence[StateRecord]) -> StateView:
        """Raises MirrorLocked where somebody else has taken the mirror's lock."""
        self.lock.command = self.command
        return self.lock.append(records)

    def confirm(self) -> None:
        """Directly before an action that Kafka does not fence by itself. Raises MirrorLocked."""
        self.lock.command = self.command
        self.lock.confirm()

    def confirm_action(self) -> Deadline:
        """As `confirm`; and until when the action may be sent. Raises MirrorLocked."""
        self.lock.command = self.command
        return self.lock.confirm_action()

    def save(self, **changes: Any) -> None:
        """Change the run's own record."""
        self.record = replace(self.record, at=self.command.clock.now(), **changes)
        self.write([self.record])
        self.begun, self._beaten = True, self.command.clock.monotonic()

    def mark(self, name: str) -> None:
        """Remember something that leaves no other trace."""
        if name not in self.record.marks:
            self.save(marks=(*self.record.marks, name))

    def forget(self, name: str) -> None:
        """What was remembered holds no more."""
        if name in self.record.marks:
            self.save(marks=tuple(mark for mark in self.record.marks if mark != name))

    def beat(self) -> None:
        """Say that this run lives, and find out whether it still holds the mirror.

        Raises:
            MirrorLocked: somebody else has taken over.
        """
        if self.begun and self.command.clock.monotonic() - self._beaten >= BEAT_SECONDS:
            self.save()

    def wait(self, seconds: float = WAIT_SECONDS) -> None:
        """Let `seconds` pass, and say before that this run lives. Raises as `beat`."""
        self.beat()
        self.command.clock.wait(seconds)

    def release(self, reason: str = "") -> None:
        """Let whoever comes next take over at once, on any host: nobody waits for a heartbeat of ours.

        `reason`: why we stop before the end, for others to read.
        """
        held = self.view().failover(self.record.mirror, self.record.plan)
        if held is None or held.status is not RunStatus.RUNNING:
            return
        self.record = held
        if held.runner:
            self.save(runner="", reason=reason)


def record_of(before: FailoverRun | None, approval: Approval, spec: MirrorSpec, command: CommandContext) -> FailoverRun:
    """The record that a run on `approval` begins with, or goes on with. `before`: what stands there.

    Raises:
        RunUnderWay: a run on this approval has ended since it was looked for.
    """
    now = command.clock.now()
    if before is not None and before.status is RunStatus.RUNNING:
        return replace(before, runner=command.holder, reason="", at=now)
    if before is not None and before.approval == approval.id:
        raise RunUnderWay(f"plan {before.plan} was {before.status} by {before.runner} a moment ago")
    return FailoverRun(
        mirror=approval.mirror,
        mirror_id=spec.mirror_id,
        plan=approval.plan,
        plan_json=approval.plan_json,
        approval=approval.id,
        approver=approval.approver,
        runner=command.holder,
        status=RunStatus.RUNNING,
        started_at=now,
        at=now,
    )


_K = TypeVar("_K")
_V = TypeVar("_V")


class NotYet(CouldNotTell):
    name = "NOT_YET"
    operator_action = "none: it is retried until the deadline of the run"


class StepRefused(AuthorizationFailed):
    """A step of a run that has begun: trying it again helps nobody until the permission is granted."""

    exit_code = 4
    operator_action = (
        "grant the permission named above, then run the same command again; before the point of no return "
        "`tanist failover abort` undoes the run instead"
    )


def must_all(answers: Mapping[_K, _V | TanistError | None], what: str) -> None:
    """Whether all of `answers` are good. `what`: failed, where they are not.

    Raises:
        AuthorizationFailed: any of them was refused for a permission, which no retry brings.
        TimedOut: only the time was too short. NotYet: anything else.
    """
    failed = {item: answer for item, answer in answers.items() if isinstance(answer, TanistError)}
    if failed:
        refused = {item: error for item, error in failed.items() if isinstance(error, AuthorizationFailed)}
        if refused:
            reasons = {item: error.reason for item, error in refused.items()}  # the next step is said once
            raise AuthorizationFailed(f"{len(refused)} {what}: {_some(reasons)}")
        kind = TimedOut if all(isinstance(error, TimedOut) for error in failed.values()) else NotYet
        raise kind(f"{len(failed)} {what}: {_some(failed)}")


def _some(whys: Mapping[_K, object]) -> str:
    return "; ".join(f"{item}: {why}" for item, why in list(whys.items())[:3])


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """All that is given to what undoes a step. `checkpoint`: as in `Tools`.

    `pending`: topics whose source fence could not be lifted; filled by that step.
    """

    intent: Intent
    clusters: OpenMirror
    session: RunSession
    checkpoint: Callable[[str], None]
    pending: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """All that the action of a step is given, the same for all steps; made anew for each attempt.

    What a step changes of its run goes through `session`. `facts`: of the last look before. `source`: why, where there
    is no way to it at all. `by`: of the whole run. `checkpoint`, `move_groups`: as in `Tools`.
    """

    approved: ApprovedPlan
    intent: Intent
    clusters: OpenMirror
    spec: MirrorSpec
    source: Cluster | TanistError
    destination: Cluster
    command: CommandContext
    clock: Clock
    by: Deadline
    patience: Timeouts
    facts: Facts
    session: RunSession
    observer: Observer
    checkpoint: Callable[[str], None]
    move_groups: MoveGroups

    def look(self) -> Facts:
        """What both clusters are like now."""
        return self.observer.look_for(self.intent, self.session.record.plan)

    def copies(self) -> Intent:
        """`intent` for the topics alone that were approved, by the ids that the destination has now.

        Behind the point of no return, where the ids that were approved are on record.

        Raises:
            CouldNotTell, BrokerError: the destination does not tell.
        """
        view, intent = self.session.view(), self.intent
        now = self.observer.snapshot().destination.registry(intent.names, self.by).topic_ids
        approved = {topic: each.topic_id for topic in intent.names if (each := view.copied_up_to(intent.mirror, topic))}
        same = (t for t in intent.topics if not is_another_topic(now.get(t.topic, ""), approved.get(t.topic, "")))
        return replace(intent, topics=tuple(same))

    def taking_over(self) -> tuple[TopicDesired, ...]:
        """As `wanted`, without the topics that were re-created at the destination since the point of no return."""
        return wanted_topics(self.session.view(), self.copies())

    def wanted(self) -> tuple[TopicDesired, ...]:
        """The topics of this run as the state topic has them, removed ones too."""
        return wanted_topics(self.session.view(), self.intent)
