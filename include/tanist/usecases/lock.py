"""The lock of a mirror: only one command changes a mirror at a time.

It uses the mirror's transactional id: initialising the id fences the earlier producer. The record `lock/<mirror>` names
the holder, so that a command does not fence a holder that is at work: the record is read first, and a lock with a fresh
heartbeat refuses. A command that has initialised the id reads the record again, and writes its own name in its first
transaction. If it finds another holder, it withdraws; a holder that was fenced by such a command
initialises the id again.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.circle import locate
from tanist.domain.errors import MirrorLocked, OperatorFenced, PastReturn, RunUnderWay, TanistError
from tanist.domain.moves import left_over
from tanist.domain.problems import to_finish
from tanist.domain.records import STATE_TOPIC, MirrorLock
from tanist.domain.state_record import Tombstone
from tanist.ports.clock import Deadline
from tanist.usecases import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.ports.state import StateStore
    from tanist.usecases.command import CommandContext

FRESH_MS: Final = 10_000
"""A holder whose heartbeat is younger than this is alive."""
CONFIRM_SECONDS: Final = 0.5
"""A confirmed lock is not confirmed again for this time."""
_FROZEN_SECONDS: Final = 3.0
"""A confirmation that took longer is repeated: the process may have been frozen in between."""
ACT_SECONDS: Final = 4.0
"""A confirmed lock is not taken over for this time: its heartbeat is younger than FRESH_MS, also by a clock that is
5 s ahead."""
_WATCH_MS: Final = 2_000
"""How long a heartbeat that our clock calls stale, or in the future, is watched for a change: clocks differ."""
_LOOK_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 20.0
"""How long the patient wait for a holder that a failover may preempt, such as a worker that sets source fences."""

_MOMENT_SECONDS: Final = 3.0
"""How long all other commands do so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """Why a command takes the lock. `operation` is shown to other commands.

    `plan`: the failover to run. `aborts`: undo that failover instead, even while another process runs it.
    `preemptible`: a failover may take over the lock without waiting. `waits`: watch a holder that may be dead.
    `reverses`: complete an unfinished reversal. `patient`: wait longer for a holder that a failover may preempt.
    `disaster`: an unplanned failover. If a reversal to here has brought the mirror's state, it does not wait for the
    forwarding record of the old destination, which may be lost.
    """

    operation: str
    plan: str = ""
    aborts: bool = False
    preemptible: bool = False
    waits: bool = False
    reverses: bool = False
    patient: bool = False
    disaster: bool = False


_LOOKING: Final = Purpose(operation="to look")


class _LockSeen(NamedTuple):
    """A lock record that did not change for long enough, so its holder is dead."""

    epoch: int
    at: EpochMs


def ensure_unlocked(view: StateView, mirror: MirrorName, purpose: Purpose = _LOOKING) -> None:
    """Check, without taking the lock, that no unfinished failover forbids `purpose`.

    Raises:
        MirrorLocked, RunUnderWay: a failover of `mirror` is unfinished, and `purpose` neither runs nor aborts it.
        MirrorLocked: a reversal from here or to here is unfinished, and `purpose` does not complete it.
    """
    move = view.moving(mirror)
    if move is not None and not (purpose.reverses or (purpose.disaster and locate(mirror, view).arrival)):
        raise MirrorLocked(
            f"the reversal {move.plan} of mirror {mirror!r} is unfinished: complete it with `tanist mirrors reverse`"
        )
    run = view.unfinished(mirror)
    if run is not None and purpose.aborts and run.no_return:
        raise to_finish(run.plan, PastReturn(f"plan {run.plan} of mirror {mirror!r}"))
    if run is None or purpose.aborts or purpose.plan == run.plan:
        return
    if purpose.plan:
        raise RunUnderWay(f"plan {run.plan} of {run.runner or 'nobody'} is unfinished: {run.next_actions}")
    raise MirrorLocked(f"failover {run.plan} of mirror {mirror!r} is unfinished: {run.next_actions}")


@contextmanager
def mirror_lock(
    cluster: Cluster, mirror: MirrorName, purpose: Purpose, command: CommandContext
) -> Iterator[LockedMirror]:
    """Hold the lock of `mirror` during the block. `cluster` is its destination.

    Raises:
        UnknownMirror. MirrorLocked: another operation, which the error names, holds the lock; it was not fenced.
        RunUnderWay: the same, if both are failovers.
    """
    locked = _take(cluster, mirror, purpose, command)
    try:
        yield locked
    except (Exception, KeyboardInterrupt, SystemExit):
        locked.release()
        raise
    else:
        locked.release()


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A mirror in a dry run: nothing is locked or written."""

    spec: MirrorSpec
    command: CommandContext
    _seen: StateView

    def view(self) -> StateView:
        return self._seen

    def append(self, _records: Sequence[StateRecord]) -> StateView:
        return self._seen

    def confirm(self) -> None:
        """A dry run holds no lock, so there is nothing to confirm."""

    def finish(self) -> None:
        """A dry run deletes nothing."""


def _unchecked(_view: StateView) -> None:
    """The default of `check`: allows the change."""


@contextmanager
def changing(  # noqa: PLR0913 -- two switches, named
    cluster: Cluster,
    mirror: MirrorName,
    operation: str,
    command: CommandContext,
    check: Callable[[StateView], object] = _unchecked,
    *,
    patient: bool = False,
    any_copier: bool = False,
) -> Iterator[LockedMirror | Rehearsal]:
    """The mirror, locked for a change; in a dry run a rehearsal. `any_copier`: also one that somebody else copies.

    `check` raises if the change is not allowed. It is called before the lock is taken, so a refused change writes
    nothing; the caller must check again under the lock. Raises as `mirror_lock`, and as `check`.
    """
    view = cluster.state(STATE_TOPIC, command.by)
    spec = snapshot.spec_of(view, mirror, cluster.name, any_copier=any_copier)
    ensure_unlocked(view, mirror)
    check(view)
    if command.dry_run:
        yield Rehearsal(spec, command, view)
        return
    with mirror_lock(cluster, mirror, Purpose(operation=operation, patient=patient), command) as locked:
        yield locked


class LockedMirror:
    """A mirror whose lock this command holds: the only way to change its records. Owned by one thread."""

    def __init__(
        self, cluster: Cluster, spec: MirrorSpec, command: CommandContext, store: StateStore, record: MirrorLock
    ) -> None:
        self.spec = spec
        self.command = command
        self._cluster, self._store, self._record = cluster, store, record
        self._confirmed = command.clock.monotonic()
        self._lost = False

    @property
    def epoch(self) -> int:
        """Increases by one with every command that takes the lock of this mirror."""
        return self._record.epoch

    def view(self) -> StateView:
        """The current view of the state topic."""
        return self._store.catch_up(self.command.by)

    def append(self, records: Sequence[StateRecord]) -> StateView:
        """Write `records` and a heartbeat in one transaction, and return the view that contains them.

        Raises:
            MirrorLocked: another command holds the lock now; nothing was written.
            Whatever `StateStore.append` raises.
        """
        return self._write(records, self._record.holder)

    def confirm(self) -> None:
        """To be called directly before every action that Kafka does not fence by itself.

        Raises:
            MirrorLocked: somebody else holds the lock by now.
        """
        if self._since_confirmed() > CONFIRM_SECONDS:
            self.append([])
        while self._since_confirmed() > _FROZEN_SECONDS:
            self.append([])

    def confirm_action(self) -> Deadline:
        """As `confirm`, for an action that cannot be undone or detected later. Returns the deadline for sending it.

        If the holder freezes after this call until another command may hold the lock, the deadline has passed.
        """
        self.confirm()
        return Deadline(min(self.command.by.at, self._confirmed + ACT_SECONDS))

    def finish(self) -> None:
        """Delete all records of the mirror, of its lock, and of earlier mirrors of its name. Raises as `append`."""
        keys = self.view().keys_of(self.spec.mirror)
        self._transact(lambda store: store.append([Tombstone(key) for key in keys], self.command.by))
        self._lost = True

    def leave(self, forwarding: StateRecord) -> None:
        """Write `forwarding`, and delete the mirror's records that say nothing about logs. Raises as `append`."""
        keys = left_over(self.view().keys_of(self.spec.mirror))
        gone = [Tombstone(key) for key in keys if key != forwarding.key]
        self._transact(lambda store: store.append([*gone, forwarding], self.command.by))
        self._lost = True

    def release(self) -> None:
        """Release the lock for the next command. A lock that cannot be released goes stale by itself."""
        try:
            if not self._lost:
                self._write([], holder="")
        except TanistError:
            self._lost = True
        finally:
            self._store.close()

    def _since_confirmed(self) -> float:
        return self.command.clock.monotonic() - self._confirmed

    def _write(self, records: Sequence[StateRecord], holder: str) -> StateView:
        def write(store: StateStore) -> StateView:
            beat = replace(self._record, holder=holder, at=self.command.clock.now())
            return store.append([*records, beat], self.command.by)

        return self._transact(write)

    def _transact(self, write: Callable[[StateStore], StateView]) -> StateView:
        while True:
            asked = self.command.clock.monotonic()
            try:
                view = write(self._store)
            except OperatorFenced:
                self._open_again()
            else:
                self._confirmed = asked
                return view

    def _open_again(self) -> None:
        """Initialise the transactional id again after another command did, unless that command holds the lock now."""
        self._store.close()
        self._must_name_us(self._cluster.state(STATE_TOPIC, self.command.by))
        self._store = self._cluster.open_store(STATE_TOPIC, self.spec.mirror, self.command.by)
        self._must_name_us(self._store.catch_up(self.command.by))

    def _must_name_us(self, view: StateView) -> None:
        held = view.lock(self.spec.mirror)
        if held is not None and (held.epoch, held.holder) == (self._record.epoch, self._record.holder):
            return
        self._lost = True
        by = f"{held.holder or 'another process'} ({held.operation})" if held else "somebody"
        raise MirrorLocked(f"{by} has taken the lock of mirror {self.spec.mirror!r} from {self._record.operation}")


# ── taking it ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _take(cluster: Cluster, mirror: MirrorName, purpose: Purpose, command: CommandContext) -> LockedMirror:
    patience = command.clock.deadline(PATIENCE_SECONDS if purpose.patient else _MOMENT_SECONDS)
    while True:
        stale = _wait_until_free(lambda: cluster.state(STATE_TOPIC, command.by), mirror, purpose, command, patience)
        store = cluster.open_store(STATE_TOPIC, mirror, command.by)
        try:
            view = store.catch_up(command.by)
            if not _waits_for(_holder(view, mirror, purpose, command), purpose, command, patience):
                spec = snapshot.spec_of(view, mirror, cluster.name, any_copier=True)
                _must_be_free(view, mirror, purpose, command, stale)
                record = _next(view, spec, purpose, command)
                store.append([record], command.by)
                return LockedMirror(cluster, spec, command, store, record)
        except OperatorFenced:  # somebody opened it in the same moment
            pass
        except BaseException:
            store.close()
            raise
        store.close()  # who came first is soon done: look again
        command.clock.wait(_LOOK_SECONDS)


def _next(view: StateView, spec: MirrorSpec, purpose: Purpose, command: CommandContext) -> MirrorLock:
    before = view.lock(spec.mirror)
    return MirrorLock(
        mirror=spec.mirror,
        mirror_id=spec.mirror_id,
        epoch=(before.epoch if before else 0) + 1,
        holder=command.holder,
        operation=purpose.operation,
        plan=purpose.plan,
        preemptible=purpose.preemptible,
        at=command.clock.now(),
    )


def _wait_until_free(
    look: Callable[[], StateView], mirror: MirrorName, purpose: Purpose, command: CommandContext, patience: Deadline
) -> _LockSeen | None:
    """None: the lock is free. Otherwise a lock whose holder is dead, because it did not change for long enough.

    `patience`: until when a holder that is alive and soon done is waited for.

    Raises:
        MirrorLocked, RunUnderWay: the holder is alive, or may be alive and `purpose` does not wait.
    """
    held = _holder(look(), mirror, purpose, command)
    while _waits_for(held, purpose, command, patience):
        command.clock.wait(_LOOK_SECONDS)
        held = _holder(look(), mirror, purpose, command)
    if held is None:
        return None
    age = command.clock.now() - held.at
    fresh = abs(age) < FRESH_MS
    if fresh and not purpose.waits:
        raise _locked_error(held, purpose)
    watched = command.clock.deadline((FRESH_MS - max(age, 0) if fresh else _WATCH_MS) / 1000)
    while watched.left(command.clock.monotonic()):
        command.clock.wait(_LOOK_SECONDS)
        now = _holder(look(), mirror, purpose, command)
        if now is None:
            return None
        if (now.epoch, now.at) != (held.epoch, held.at):
            raise _locked_error(now, purpose)
    return _LockSeen(held.epoch, held.at)


def _waits_for(held: MirrorLock | None, purpose: Purpose, command: CommandContext, patience: Deadline) -> bool:
    """Whether to wait for the holder because it is alive and soon done."""
    if held is None or purpose.preemptible or not held.preemptible or not patience.left(command.clock.monotonic()):
        return False
    return abs(command.clock.now() - held.at) < FRESH_MS


def _must_be_free(
    view: StateView, mirror: MirrorName, purpose: Purpose, command: CommandContext, stale: _LockSeen | None
) -> None:
    """Raises MirrorLocked or RunUnderWay if another command took the lock first."""
    held = _holder(view, mirror, purpose, command)
    if held is not None and (held.epoch, held.at) != stale:
        raise _locked_error(held, purpose)


def _holder(view: StateView, mirror: MirrorName, purpose: Purpose, command: CommandContext) -> MirrorLock | None:
    """The lock, if it conflicts with `purpose`, whether or not its holder is alive.

    Raises:
        MirrorLocked, RunUnderWay: a failover is unfinished, and `purpose` neither runs nor aborts it.
    """
    ensure_unlocked(view, mirror, purpose)
    held = view.lock(mirror)
    if held is None or not held.holder or command.is_process_dead(held.holder):
        return None
    if purpose.aborts:
        return held if held.operation == purpose.operation else None
    return None if purpose.plan and held.preemptible else held


def _locked_error(held: MirrorLock, purpose: Purpose) -> MirrorLocked:
    who = f"{held.holder} holds the lock of mirror {held.mirror!r}: {held.operation}"
    return RunUnderWay(who) if purpose.plan and held.plan else MirrorLocked(who)
