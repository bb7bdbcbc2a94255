"""The lock of a mirror: of all commands that change one, one is at work.

It rests on the mirror's transactional id: whoever opens that id fences whoever had it. The record `lock/<mirror>` names
the holder, so that nobody opens the id only to disturb: the record is read first, and a lock that is held and fresh
refuses. A command that has opened the id reads the record again behind it, and writes itself down in its first
transaction. One that finds somebody else there withdraws; one that such a visitor has fenced opens the id again.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import MirrorLocked, OperatorFenced, PastReturn, RunUnderWay, TanistError
from tanist.domain.records import STATE_TOPIC, MirrorLock
from tanist.domain.state_record import Tombstone
from tanist.ports.clock import Deadline
from tanist.usecases import state_topics

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
"""A holder whose heartbeat is younger is at work."""
CONFIRM_SECONDS: Final = 0.5
"""For so long a confirmed lock is not confirmed again."""
_FROZEN_SECONDS: Final = 3.0
"""Who needed longer to confirm it may have been frozen in between, and confirms it once more."""
ACT_SECONDS: Final = 4.0
"""For so long after it was confirmed a lock is not taken over: its heartbeat is younger than FRESH_MS, also by a clock
that is 5 s ahead."""
_WATCH_MS: Final = 2_000
"""A heartbeat that is too old, or from the future, by our clock is watched for so long: clocks differ."""
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What the lock is wanted for. `operation`: for others to read.

    `plan`: the failover that is run. `aborts`: that failover is undone instead, whoever is at work on it.
    `preemptible`: a failover takes the lock away without waiting. `waits`: a holder that may be dead is watched.
    """

    operation: str
    plan: str = ""
    aborts: bool = False
    preemptible: bool = False
    waits: bool = False


_LOOKING: Final = Purpose(operation="to look")


class _LockSeen(NamedTuple):
    """A lock as it was read: unchanged for long enough, its holder is dead."""

    epoch: int
    at: EpochMs


def ensure_unlocked(view: StateView, mirror: MirrorName, purpose: Purpose = _LOOKING) -> None:
    """For those that look before they take the lock, or look only, at what a failover is about to change.

    Raises:
        MirrorLocked, RunUnderWay: a failover of `mirror` is unfinished, and `purpose` neither runs nor aborts it.
    """
    run = view.unfinished(mirror)
    if run is not None and purpose.aborts and run.no_return:
        raise PastReturn(f"plan {run.plan} of mirror {mirror!r}")
    if run is None or purpose.aborts or purpose.plan == run.plan:
        return
    if purpose.plan:
        raise RunUnderWay(f"plan {run.plan} of {run.runner or 'nobody'} is unfinished: {run.next_actions}")
    raise MirrorLocked(f"failover {run.plan} of mirror {mirror!r} is unfinished: {run.next_actions}")


@contextmanager
def mirror_lock(
    cluster: Cluster, mirror: MirrorName, purpose: Purpose, command: CommandContext
) -> Iterator[LockedMirror]:
    """The lock of `mirror`, held for the time of the block. `cluster` is its destination.

    Raises:
        UnknownMirror. MirrorLocked: another operation is at work, by name; nothing was opened.
        RunUnderWay: the same, of a failover that would be another failover's neighbour.
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
    """A mirror as a dry run sees it: what would be written is not."""

    spec: MirrorSpec
    command: CommandContext
    _seen: StateView

    def view(self) -> StateView:
        return self._seen

    def append(self, _records: Sequence[StateRecord]) -> StateView:
        return self._seen

    def confirm(self) -> None:
        """Nothing is held, and nothing will be done."""

    def finish(self) -> None:
        """Nothing is forgotten."""


def _unchecked(_view: StateView) -> None:
    """Nothing can speak against it."""


@contextmanager
def changing(
    cluster: Cluster,
    mirror: MirrorName,
    operation: str,
    command: CommandContext,
    check: Callable[[StateView], object] = _unchecked,
) -> Iterator[LockedMirror | Rehearsal]:
    """The mirror, locked for a change; of a dry run a rehearsal.

    `check` raises what speaks against the change. It is called before anything is locked, so a change that is refused
    writes nothing; whoever changes something checks again behind the lock. Raises as `mirror_lock`, and as `check`.
    """
    view = state_topics.read(cluster, STATE_TOPIC, command.by)
    spec = state_topics.spec_of(view, mirror, cluster.name)
    ensure_unlocked(view, mirror)
    check(view)
    if command.dry_run:
        yield Rehearsal(spec, command, view)
        return
    with mirror_lock(cluster, mirror, Purpose(operation=operation), command) as locked:
        yield locked


class LockedMirror:
    """A mirror whose lock is held: the only way to change its records. Of one thread."""

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
        """Rises by one with every command that takes the lock of this mirror."""
        return self._record.epoch

    def view(self) -> StateView:
        """The state topic as it is now."""
        return self._store.catch_up(self.command.by)

    def append(self, records: Sequence[StateRecord]) -> StateView:
        """Write `records` and a heartbeat in one transaction, and return the view that contains them.

        Raises:
            MirrorLocked: somebody else holds the lock by now; nothing was written.
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
        """As `confirm`, for an action that nobody can undo or see afterwards. It must not be sent after the answer.

        A holder that freezes after this call and wakes when somebody else may have the lock finds the deadline over.
        """
        self.confirm()
        return Deadline(min(self.command.by.at, self._confirmed + ACT_SECONDS))

    def finish(self) -> None:
        """Forget the mirror, its lock too, and whatever earlier mirrors of its name have left. Raises as `append`."""
        keys = self.view().keys_of(self.spec.mirror)
        self._transact(lambda store: store.append([Tombstone(key) for key in keys], self.command.by))
        self._lost = True

    def release(self) -> None:
        """Let whoever comes next take it at once. A lock that cannot be released goes stale by itself."""
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
        """Somebody else has opened the transactional id: to withdraw, or to stay."""
        self._store.close()
        self._must_name_us(state_topics.read(self._cluster, STATE_TOPIC, self.command.by))
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
    while True:
        with closing(cluster.open_store(STATE_TOPIC, None, command.by)) as reader:
            stale = _wait_until_free(lambda: reader.catch_up(command.by), mirror, purpose, command)
        store = cluster.open_store(STATE_TOPIC, mirror, command.by)
        try:
            view = store.catch_up(command.by)
            spec = state_topics.spec_of(view, mirror, cluster.name)
            _must_be_free(view, mirror, purpose, command, stale)
            record = _next(view, spec, purpose, command)
            store.append([record], command.by)
        except OperatorFenced:  # somebody opened it in the same moment: look again
            store.close()
            command.clock.wait(_LOOK_SECONDS)
        except BaseException:
            store.close()
            raise
        else:
            return LockedMirror(cluster, spec, command, store, record)


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
    look: Callable[[], StateView], mirror: MirrorName, purpose: Purpose, command: CommandContext
) -> _LockSeen | None:
    """None: the lock is free. Else what was seen of it, unchanged for so long that its holder is dead.

    Raises:
        MirrorLocked, RunUnderWay: its holder lives, or may live and `purpose` does not wait.
    """
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


def _must_be_free(
    view: StateView, mirror: MirrorName, purpose: Purpose, command: CommandContext, stale: _LockSeen | None
) -> None:
    """Raises MirrorLocked or RunUnderWay where somebody was faster than we."""
    held = _holder(view, mirror, purpose, command)
    if held is not None and (held.epoch, held.at) != stale:
        raise _locked_error(held, purpose)


def _holder(view: StateView, mirror: MirrorName, purpose: Purpose, command: CommandContext) -> MirrorLock | None:
    """The lock, if it is in the way of `purpose`; whether its holder lives is another question.

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
