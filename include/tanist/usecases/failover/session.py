"""A run at work: its record in the state topic, changed under the lock of its mirror, and the heartbeat in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import RunUnderWay
from tanist.domain.records import FailoverRun, RunStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.failover.approving import Approval
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.usecases.command import CommandContext
    from tanist.usecases.lock import LockedMirror

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
