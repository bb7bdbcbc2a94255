"""Reconciles fences after failovers: pending source fences, and producer fences before they expire."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import filterfalse
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from tanist.domain.errors import CouldNotTell, MirrorLocked, OperatorFenced, Stopped, TanistError
from tanist.domain.fences import (
    HOLDS_PRODUCERS_OFF,
    LEFT_TO_A_FETCHER,
    RESTORED,
    STRAY,
    FencedTopic,
    FenceStatus,
    before_pending,
    is_stray,
)
from tanist.domain.followed import is_followed
from tanist.domain.kept_fences import fence_groups
from tanist.domain.names import MirrorPartition
from tanist.domain.promotions import promotion_records, unreported
from tanist.domain.saved_state import StateOutdated, not_the_old_source
from tanist.domain.state_record import state_partition_of
from tanist.fetcher.producer_fences import ProducerFences
from tanist.fetcher.retention_holder import RetentionHolder
from tanist.fetcher.rounds import RoundThread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tanist.domain.kept_fences import FenceGroup
    from tanist.domain.names import MirrorName
    from tanist.domain.promotions import PromotionRecord
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.fencing import Fencing, ProducerFencing
    from tanist.ports.logs import Replicas
    from tanist.ports.state import Locked, StateStore
    from tanist.ports.topics import Topics

log = logging.getLogger(__name__)

_T = TypeVar("_T")

EVERY_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 8.0
"""How long one mirror's clusters have to answer."""


class SourceStates(Protocol):
    """The state topics of the sources of mirrors. May be used from any thread.

    Each raises AnotherCluster where the source's name leads to another cluster than when the mirror was created.
    """

    def read(self, spec: MirrorSpec, by: Deadline) -> StateView:
        """The current view; empty if the source has no state topic."""
        ...

    def report_promotions(self, spec: MirrorSpec, promotions: Sequence[PromotionRecord], by: Deadline) -> None:
        """Write promotions to the source's state topic, which is created if necessary."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """`fencing` returns the port that fences topics of a mirror's source, and of no other cluster.

    `producer_fencing`, `replicas`: of the destination.

    `lock` takes the lock of a mirror for an operation. Source fences are changed only under it.
    """

    fencing: Callable[[MirrorSpec], Fencing]
    producer_fencing: ProducerFencing
    replicas: Replicas
    sources: SourceStates
    lock: Callable[[MirrorName, str, Deadline], AbstractContextManager[Locked]]
    topics: Callable[[MirrorSpec], Topics] | None = None
    """The topics of a mirror's source, and of no other cluster; None: nothing is held there."""


class FenceReconciler(RoundThread):
    """Reconciles the mirrors whose state partition (of the mirror's name) this worker owns. `stop`, then join."""

    def __init__(
        self, guards: Guards, state: StateStore, state_partitions: int, clock: Clock, holds: Callable[[int], bool]
    ) -> None:
        super().__init__("debts")
        self._guards = guards
        self._state = state
        self._state_partitions = state_partitions
        self._clock = clock
        self._holds = holds
        self._silent: dict[str, TanistError] = {}
        """Sources that have not answered in this round, and why: each may hold it up once, whatever it is asked."""
        self._reported: frozenset[PromotionRecord] = frozenset()
        """Promotions that their source knows of, as far as we have looked."""
        self._retention = RetentionHolder(guards.topics, guards.lock, clock)
        self._barriers = ProducerFences(guards.producer_fencing, guards.replicas, self._ours, clock)

    def _round(self) -> None:
        if self._stopping.wait(EVERY_SECONDS):
            return
        try:
            self.reconcile_all(self._state.view())
        except Stopped:
            raise
        except Exception:
            log.exception("what failovers have left to do was not done, trying again")

    def reconcile_all(self, view: StateView) -> None:
        """Retry pending source fences and reports. A source that does not answer is not an error.

        A mirror that somebody else copies has neither.
        """
        self._silent.clear()
        for spec in filterfalse(is_followed, view.mirrors()):
            if not self._holds(state_partition_of(spec.mirror, MirrorPartition("", 0), self._state_partitions)):
                continue
            if view.unfinished(spec.mirror) is not None or view.moving(spec.mirror) is not None:
                continue  # the run fences, lifts and reports by itself, until its end
            self._hold_retention(spec, view)
            for group in fence_groups(view, spec):
                self._reconcile(group, view)
            self._report_promotions(spec, promotion_records(view, spec.mirror) - self._reported)
        self._barriers.renew(view)

    def _ours(self, mirror: MirrorName, at: MirrorPartition) -> bool:
        return self._holds(state_partition_of(mirror, at, self._state_partitions))

    def _close(self) -> None:
        self._guards.sources.close()

    def _report_promotions(self, spec: MirrorSpec, promotions: frozenset[PromotionRecord]) -> None:
        """Report promotions to a source that was down; one that knows them is only read."""
        if not promotions:
            return
        sources = self._guards.sources
        try:
            reported = self._ask(spec, lambda: sources.read(spec, self._clock.deadline(ANSWER_SECONDS)))
            if missing := sorted(unreported(reported, promotions), key=lambda each: each.key):
                self._ask(spec, lambda: sources.report_promotions(spec, missing, self._clock.deadline(ANSWER_SECONDS)))
                log.warning("told a source that it was replaced", extra={"mirror": spec.mirror, "topics": len(missing)})
        except Stopped:
            raise
        except TanistError as why:
            log.info("a source is still to be told", extra={"mirror": spec.mirror, "reason": why.reason})
        else:
            self._reported |= promotions

    def _hold_retention(self, spec: MirrorSpec, view: StateView) -> None:
        """First of all: retention deletes from the first second after the source has returned."""
        try:
            if wanted := self._retention.wanted(spec, view):
                by = self._clock.deadline(ANSWER_SECONDS)
                self._ask(spec, lambda: self._retention.hold(spec, wanted, by))
        except Stopped:
            raise
        except TanistError as why:
            log.info("retention is still to be held", extra={"mirror": spec.mirror, "reason": why.reason})

    # ── source fences ─────────────────────────────────────────────────────────────────────────────────────────────

    def _reconcile(self, group: FenceGroup, view: StateView) -> None:
        """Make records and source fences agree, or report the difference."""
        held, spec = group.watched(view), group.spec
        if not held:
            return
        try:
            by = self._clock.deadline(ANSWER_SECONDS)
            fencing = self._ask(spec, lambda: self._fencing_of(spec))
            if not any(_due(entry, view, group) for entry in self._seen(spec, fencing, held, by)):
                return
            with self._guards.lock(spec.mirror, "source fences", by) as lock:
                view = lock.view()
                group = group.again(view)
                for entry in self._seen(spec, fencing, group.watched(view), by):
                    if due := _due(entry, view, group):
                        self._mend_alone(group, due, fencing, lock, by)
        except Stopped:
            raise
        except TanistError as why:
            log.info("source fences are still to be reconciled", extra={"mirror": spec.mirror, "reason": why.reason})

    def _mend_alone(self, group: FenceGroup, due: FencedTopic, fencing: Fencing, lock: Locked, by: Deadline) -> None:
        """Correct each fence on its own: an error does not stop the others, a lost lock stops all."""
        try:
            self._mend(group, due, fencing, lock, by)
        except (Stopped, MirrorLocked, OperatorFenced):
            raise
        except TanistError as why:
            extra = {"mirror": group.spec.mirror, "topic": due.topic, "reason": why.reason}
            log.info("a source fence is still to be reconciled", extra=extra)

    def _ask(self, spec: MirrorSpec, question: Callable[[], _T]) -> _T:
        """The answer of the source of `spec`; a source that has not answered in this round is not queried again."""
        if spec.source in self._silent:
            raise self._silent[spec.source]
        try:
            return question()
        except Stopped:
            raise
        except CouldNotTell as why:
            self._silent[spec.source] = why
            raise

    def _fencing_of(self, spec: MirrorSpec) -> Fencing:
        return self._guards.fencing(spec)

    def _seen(self, spec: MirrorSpec, fencing: Fencing, held: Sequence[FencedTopic], by: Deadline) -> list[_FenceSeen]:
        """Each entry, and whether its source fence is in force now."""
        known = [each.before for each in held if each.before and each.status is not FenceStatus.LIFT_PENDING]
        stands = self._ask(spec, lambda: fencing.fence_status(known, by)) if known else {}
        return [_FenceSeen(each, stands.get(each.topic) if each.before in known else None) for each in held]

    def _mend(self, group: FenceGroup, due: FencedTopic, fencing: Fencing, lock: Locked, by: Deadline) -> None:
        spec = group.spec
        match due.status:
            case FenceStatus.LIFT_PENDING:
                self._lift(spec, due, fencing, lock, by)
                done = replace(due, status=FenceStatus.LIFTED, reason="")
            case FenceStatus.PENDING:
                done = self._apply(group, due, fencing, lock, by)
            case _:
                done = due
        log.warning("reconciled a source fence", extra={"mirror": spec.mirror, "topic": done.topic} | _log_fields(done))
        self._store(group, done, lock)

    def _lift(self, spec: MirrorSpec, pending: FencedTopic, fencing: Fencing, lock: Locked, by: Deadline) -> None:
        before = [pending.before] if pending.before is not None else []
        lock.confirm()
        if before:
            _raise(self._ask(spec, lambda: fencing.lift(before, by))[pending.topic])

    def _apply(
        self, group: FenceGroup, pending: FencedTopic, fencing: Fencing, lock: Locked, by: Deadline
    ) -> FencedTopic:
        """Store the earlier settings before anything is changed."""
        spec = group.spec
        if pending.before is None:
            self._must_be_the_old_source(group, pending, lock, by)
            found = self._ask(spec, lambda: fencing.snapshot([pending.topic], by))[pending.topic]
            if isinstance(found, TanistError):
                raise found
            pending = replace(pending, before=before_pending(pending, found))
            self._store(group, pending, lock)
        before = [pending.before] if pending.before is not None else []
        lock.confirm()
        if before:
            _raise(self._ask(spec, lambda: fencing.apply(before, by))[pending.topic])
        return replace(pending, status=FenceStatus.IN_FORCE, reason="")

    def _must_be_the_old_source(self, group: FenceGroup, pending: FencedTopic, lock: Locked, by: Deadline) -> None:
        """The record of a restored state: the export may be older than what its source knows.

        Raises:
            StateOutdated: the source was not asked at the restoration, and is the primary, or the mirror's destination.
        """
        if pending.wanted_by != RESTORED:
            return
        spec = group.spec
        there = self._ask(spec, lambda: self._guards.sources.read(spec, by))
        copy = group.copy_of(pending.topic)
        count = lock.view().promotions(spec.mirror, copy)
        if why := not_the_old_source(there, spec, copy, count):
            self._store(group, replace(pending, reason=why), lock)
            raise StateOutdated(f"topic {pending.topic!r} is not fenced at {spec.source!r}: {why}")

    def _store(self, group: FenceGroup, entry: FencedTopic, lock: Locked) -> None:
        if changed := group.again(lock.view()).updated([entry], self._clock.now()):
            lock.append([changed])


class _FenceSeen(NamedTuple):
    source_fence: FencedTopic
    stands: bool | TanistError | None


def _due(seen: _FenceSeen, view: StateView, group: FenceGroup) -> FencedTopic | None:
    """The new entry; None: record and source agree, or the source's state is unknown.

    A source fence of a failed-over topic that was lifted outside Tanist is set again, as producers could write to both
    clusters. One that is in force although it was lifted may belong to a late command or another operator: it is
    reported, never removed.
    """
    fence, stands = seen
    if fence.status in LEFT_TO_A_FETCHER:
        return fence
    if fence.status is FenceStatus.LIFTED and isinstance(stands, bool):
        reason = STRAY if is_stray(fence, stands=stands) else ""
        return replace(fence, reason=reason) if fence.reason != reason else None
    if fence.status in HOLDS_PRODUCERS_OFF and stands is False and group.must_stand(view, fence.topic):
        return replace(fence, status=FenceStatus.PENDING, reason="it was lifted at the source by another client")
    return None


def _log_fields(fence: FencedTopic) -> dict[str, str]:
    return {"status": fence.status} | ({"reason": fence.reason} if fence.reason else {})


def _raise(error: TanistError | None) -> None:
    if error is not None:
        raise error
