"""The coordination thread: combines ownership, desired states and reports into assignments and state records."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.failover.limitations import REPORT_MS
from tanist.domain.logins import MirrorLogin, PrincipalUnknown
from tanist.domain.records import WorkerAlive
from tanist.domain.source_ends import SourceEnds
from tanist.domain.states import SETTLED
from tanist.fetcher.assignment import NO_NEWS, PartitionKey
from tanist.fetcher.claims import held_epoch
from tanist.fetcher.planning import Moment, Owned, assigned, limit_shares, merging, next_observed, owned
from tanist.fetcher.rounds import RoundThread
from tanist.fetcher.source_ends import ends_record, source_ends
from tanist.fetcher.sources import SourceLeaders, by_lane, topics_by_mirror
from tanist.fetcher.throttle import Throttle
from tanist.fetcher.totals import SyncKind, WorkerTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import MirrorSpec, PartitionObserved, TopicDesired
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import Assigned, Assignment, Report
    from tanist.fetcher.claims import Claims
    from tanist.fetcher.fetcher_threads import FetcherThreads
    from tanist.fetcher.sources import SourceTopic
    from tanist.ports.access import Access
    from tanist.ports.clock import Clock
    from tanist.ports.membership import Membership, Ownership
    from tanist.ports.state import StateStore


log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 1.5
"""The longest wait of the coordination thread, which has heartbeats to send."""
MOST_TOPICS: Final = 50
"""Only the first topics are checked: ACLs are mostly granted by prefix."""
NOBODY: Final = MirrorLogin(None)
"""Of a cluster without an authorizer."""


class OwnLogin:
    """Owned by the coordination thread. If it cannot be determined, the last value stays.

    Before there is one, that of an earlier process of this worker stays, as its heartbeat has it: a plan would have
    another hash as soon as the brokers have answered.
    """

    def __init__(self, access: Access, clock: Clock, worker: str) -> None:
        """`worker`: the id of this worker in the state topic."""
        self._access, self._clock, self._worker = access, clock, worker
        self._seen: MirrorLogin | None = None
        self._at = float("-inf")
        self._asked_of: list[str] = []

    def seen(self, view: StateView) -> MirrorLogin:
        """Our login, and whether ACLs for its principal apply to it, on mirror topics and failed-over topics."""
        now, topics = self._clock.monotonic(), sorted({topic.topic for topic in view.topics()})[:MOST_TOPICS]
        if self._seen is None or now - self._at >= EVERY_SECONDS or topics != self._asked_of:
            self._at, self._asked_of = now, topics
            self._look(topics)
        return self._seen or self._stored(view)

    def _stored(self, view: StateView) -> MirrorLogin:
        held = next((each for each in view.workers() if each.worker == self._worker), None)
        return NOBODY if held is None else MirrorLogin(held.principal, held.unbound)

    def _look(self, topics: Sequence[str]) -> None:
        try:
            found = self._access.login(topics, self._clock.deadline(ANSWER_SECONDS))
        except Stopped:
            raise
        except PrincipalUnknown as nameless:
            self._seen = MirrorLogin(None, nameless.reason)
        except TanistError as why:
            log.warning("our rights were not told", extra={"error": why.name, "reason": why.reason})
        else:
            self._seen = MirrorLogin(found.login.principal, found.unbound) if found.authorizer else NOBODY


ROUND_SECONDS: Final = 0.2
SETTLED_SECONDS: Final = 1.0
"""So often everything is derived again where nothing is on its way: of thousands of partitions that is work."""
WRITE_SECONDS: Final = 10.0
SOURCES_SECONDS: Final = 0.5
"""So long a round waits for the sources together: a datacenter that is gone has the sources of many mirrors."""
ENDS_EVERY_SECONDS: Final = 1.0
STOP_SECONDS: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The identity of this worker in the state topic."""

    id: str
    version: str
    host: str
    started_at: EpochMs


class Coordination(RoundThread):
    """Level-triggered: everything is derived from the view, the ownership and the reports.

    In each round while a partition is on its way into another state, or what is wished has changed; else once a second.
    """

    def __init__(  # noqa: PLR0913  # the seams of the service, named
        self,
        *,
        worker: Worker,
        state: StateStore,
        membership: Membership,
        claims: Claims,
        threads: FetcherThreads,
        resolve: Callable[[str], Endpoint],
        state_partitions: int,
        clock: Clock,
        throttle: Throttle | None = None,
        own_login: OwnLogin | None = None,
        totals: WorkerTotals | None = None,
    ) -> None:
        super().__init__("coordination")
        self._totals = totals or WorkerTotals()
        self.round_at = clock.monotonic()
        """When the last round began."""
        self._worker = worker
        self._state = state
        self._membership = membership
        self._claims = claims
        self._threads = threads
        self._resolve = resolve
        self._state_partitions = state_partitions
        self._clock = clock
        self._throttle = throttle or Throttle(clock)
        self._own_login = own_login
        self.reports: Mapping[PartitionKey, Report] = {}
        self._epochs: dict[int, int] = {}
        self._basis: tuple[tuple[MirrorSpec | TopicDesired, ...], frozenset[int]] | None = None
        """What `_owned` was derived from."""
        self._owned: tuple[Owned, ...] = ()
        self._expected: dict[MirrorName, tuple[MirrorSpec, Mapping[str, SourceTopic]]] = {}
        """Of `_owned`, what the sources should have."""
        self._settled = False
        """Every partition is in the state in which it is wished to be."""
        self._derived_at = float("-inf")
        self._derived: dict[PartitionKey, tuple[StateRecord | None, Report]] = {}
        """What each partition that is settled was last derived from; while both are the same, nothing comes of it."""
        self._ended: dict[PartitionKey, Report] = {}
        """The report of each partition that `_ends` were last made of."""
        self._ended_reports: object = None  # all of these; None: ends are made anew, also of what reported nothing
        self._basis_of_derived: tuple[object, object, object] = (None, None, None)
        """View, reports and desired states that everything was last derived from, if it was settled."""
        self._looks = 0
        """How often sources had been looked at when that was done."""
        self._assigned: dict[PartitionKey, Assigned] = {}
        self._assignment: Assignment = {}
        self._merged: frozenset[MirrorName] = frozenset()  # what `_assigned` was decided with
        self._leaders: dict[MirrorName, SourceLeaders] = {}
        self._ends: dict[str, SourceEnds] = {}
        """As last observed."""
        self._ends_at = self._alive_at = 0.0

    def stop(self) -> None:
        super().stop()
        for leaders in list(self._leaders.values()):
            leaders.interrupt()

    def _close(self) -> None:
        """Stop fetcher threads first: state partitions are released only when nothing writes for them any more."""
        self._threads.stop(STOP_SECONDS)
        self._membership.leave()
        for leaders in self._leaders.values():
            leaders.close()

    @property
    def assigned(self) -> Mapping[PartitionKey, Assigned]:
        """The partitions that this worker is to copy now; a frozen value."""
        return self._assigned

    @property
    def claimed(self) -> frozenset[int]:
        """The state partitions that this worker has claimed."""
        return frozenset(tuple(self._epochs))

    @property
    def dead_threads(self) -> Mapping[MirrorName, int]:
        """Fetcher threads that have ended by themselves and are not restarted yet."""
        return self._threads.dead

    # ── one round ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _round(self) -> None:
        self.round_at = self._clock.monotonic()
        try:
            ownership = self._membership.poll(self._clock.deadline(ROUND_SECONDS))
            self._claims.renew(ownership)
            self._claim(ownership)
            view = self._state.view()
            changed = self._look(view, frozenset(self._epochs))
            now = self._clock.monotonic()
            if self._settled and not changed and now - self._derived_at < SETTLED_SECONDS:
                return
            self._derived_at = now
            self.reports = self._threads.reports()
            looks = sum(each.looks for each in self._leaders.values())
            if changed or looks != self._looks:
                self._derived, self._ended_reports, self._looks = {}, None, looks
            moved = self._write_down(view)
            if moved or changed or merging(view, self._clock.now()) != self._merged:  # changed: all may be lost
                self._assign(self._state.view())
            self._threads.apply(self._assignment)
            self._write_ends()
        except Stopped:
            raise
        except TanistError as why:
            log.warning("round failed, going on", extra={"error": why.name, "reason": why.reason})
            self._assign(self._state.view())
            self._threads.apply(self._assignment)
            self._stopping.wait(ROUND_SECONDS)

    def _claim(self, ownership: Ownership) -> None:
        for lost in self._epochs.keys() - ownership.state_partitions:
            del self._epochs[lost]
        if new := ownership.state_partitions - self._epochs.keys():
            log.info("claiming slices", extra={"slices": sorted(new)})
            view = self._claims.claim(new, self._clock.deadline(WRITE_SECONDS))
            self._epochs |= {number: held_epoch(view, number) for number in new}
            self._derived = {}  # partitions are assigned with these epochs

    def _look(self, view: StateView, state_partitions: frozenset[int]) -> bool:
        """Look after the sources; whether anything is wished that was not before, or a leader has moved."""
        basis = view.wishes(), state_partitions
        if changed := basis != self._basis:
            self._owned = owned(view, state_partitions, self._state_partitions)
            self._basis, self._expected = basis, topics_by_mirror(self._owned)
            for gone in self._leaders.keys() - self._expected.keys():
                self._leaders.pop(gone).close()
        by = self._clock.deadline(SOURCES_SECONDS)
        for mirror, (spec, topics) in self._expected.items():
            leaders = self._leaders_of(spec)
            stale = self._threads.stale(mirror)
            leaders.look(spec, topics, by, stale=stale)
            changed = changed or (stale and not leaders.is_waiting)
        return changed

    def _leaders_of(self, spec: MirrorSpec) -> SourceLeaders:
        """Of a mirror that was made again by its name, those of its source now."""
        mirror, held = spec.mirror, self._leaders.get(spec.mirror)
        if held is not None and held.mirror_id == spec.mirror_id:
            return held
        if held is not None:
            held.close()
        failed = partial(self._totals.sync_failed, mirror, SyncKind.METADATA)
        client_id, resolve = f"tanist-{self._worker.id}-{mirror}", partial(self._resolve, spec.source)
        found = self._leaders[mirror] = SourceLeaders(resolve, client_id, self._clock, failed, spec.mirror_id)
        return found

    def _write_down(self, view: StateView) -> bool:
        """Record what has become of each partition; whether any may have to be assigned in another way."""
        now, latest = Moment(self._clock.now(), self._clock.monotonic()), view.latest
        records: list[StateRecord] = []
        basis = (view, self.reports, self._derived)
        same = self._settled and all(new is old for new, old in zip(basis, self._basis_of_derived, strict=True))
        self._settled, moved, self._basis_of_derived = True, False, basis
        for mine in () if same else self._owned:
            stored, reported = latest(mine.record_key), self.reports.get(mine.key, NO_NEWS)
            before = self._derived.get(mine.key)
            if before is not None and before[0] is stored and before[1] is reported:
                continue
            held = view.observed(mine.spec.mirror, mine.partition)
            report = self._leaders[mine.spec.mirror].report(mine) or reported
            new = next_observed(mine, held, report, self._epochs[mine.state_partition], now)
            if new is not None:
                if held is None or (held.row, held.error) != (new.row, new.error):
                    _log_transition(new, changed=held is None or held.row != new.row)
                records.append(new)
            is_settled = new is None and held is not None and held.state in SETTLED
            self._settled = self._settled and is_settled
            moved = moved or not is_settled or before is None or before[0] is not stored
            if is_settled and report is reported and report.error is None:
                self._derived[mine.key] = stored, reported
            else:
                self._derived.pop(mine.key, None)
        if 1000 * (now.monotonic - self._alive_at) >= REPORT_MS:
            self._alive_at = now.monotonic
            records.append(self._alive(view, now.epoch))
        if records:
            self._state.append(records, self._clock.deadline(WRITE_SECONDS))
        return moved

    def _alive(self, view: StateView, now: EpochMs) -> WorkerAlive:
        who, login = self._worker, self._own_login.seen(view) if self._own_login else NOBODY
        return WorkerAlive(
            worker=who.id,
            version=who.version,
            host=who.host,
            started_at=who.started_at,
            at=now,
            principal=login.principal,
            unbound=login.unbound,
            reads_merged=True,
        )

    def _assign(self, view: StateView) -> None:
        self._merged = merging(view, self._clock.now())
        self._assigned = assigned(self._owned, view, self._epochs, self._assigned, self._merged)
        new = by_lane(self._assigned, self._leaders)
        self._assignment = {
            key: old if (old := self._assignment.get(key)) == each else each for key, each in new.items()
        }
        self._throttle.share(limit_shares(self._owned, view, self._assignment))

    def _write_ends(self) -> None:
        """Of the state partitions in which anything was reported since."""
        now = self._clock.monotonic()
        if now - self._ends_at < ENDS_EVERY_SECONDS:
            return
        self._ends_at, view = now, self._state.view()
        if self.reports is self._ended_reports:
            return
        stale, self._ended_reports = self._ended_reports is None, self.reports
        news = {
            (mine.spec.mirror, mine.state_partition)
            for mine in self._owned
            if stale or self.reports.get(mine.key, NO_NEWS) is not self._ended.get(mine.key)
        }
        some = [mine for mine in self._owned if (mine.spec.mirror, mine.state_partition) in news]
        contacts = {
            mine.key: self._leaders[mine.spec.mirror].contact(mine.at_source)
            for mine in some
            if mine.key in self._assigned
        }
        found = source_ends(some, self.reports, contacts, view, self._ends, self._ended)
        made_of = {mine.key: self.reports.get(mine.key, NO_NEWS) for mine in some}
        self._ends = found if stale else self._ends | found
        self._ended = made_of if stale else self._ended | made_of
        epoch = self._clock.now()
        due = {key: ends_record(new, view.source_chunk(new.mirror, new.chunk), epoch) for key, new in found.items()}
        if records := [record for record in due.values() if record is not None]:
            self._state.append(records, self._clock.deadline(WRITE_SECONDS))
            self._ends |= {key: record for key, record in due.items() if isinstance(record, SourceEnds)}


def _log_transition(new: PartitionObserved, *, changed: bool) -> None:
    """Log each recorded transition with its reason; an error as a warning."""
    fields = {"partition": str(PartitionKey(new.mirror, new.partition)), "state": new.state, "row": new.row}
    if new.error:
        fields["error"] = new.error
    if new.reason:
        fields["reason"] = new.reason
    event = "transition" if changed else "noted trouble" if new.error else "trouble has passed"
    log.log(logging.WARNING if new.error else logging.INFO, event, extra=fields)
