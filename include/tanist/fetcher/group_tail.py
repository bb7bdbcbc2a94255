"""The thread that stores the latest committed offsets of a source's groups at the destination, in `__mirror_groups`.

It has no state of its own: it reads `__consumer_offsets` from its beginning, and writes what differs. If that log may
not be read it polls each second, and reports that. If the source is down, the last offsets stay stored, and so does up
to when they are complete, whoever was restarted since.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.followed import copies_of, is_followed
from tanist.domain.names import EpochMs, TopicPartition
from tanist.domain.records import GroupSyncStatus, OffsetTailMode
from tanist.domain.state_record import state_partition_of
from tanist.fetcher.group_sources import OffsetPoller, OffsetsLog, refused
from tanist.fetcher.rounds import RoundThread
from tanist.fetcher.totals import SyncKind, WorkerTotals
from tanist.kafka.protocol.record_set import PackedAway
from tanist.kafka.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.claims import Claims
    from tanist.ports.clock import Clock
    from tanist.ports.state import StateStore


log = logging.getLogger(__name__)

COALESCE_SECONDS: Final = 0.2
"""A commit is stored at once; later ones within this time are stored together."""
POLL_SECONDS: Final = 1.0
TAIL_AGAIN_SECONDS: Final = 60.0
"""How often a log that could not be read is tried again."""
COMPARE_EVERY_SECONDS: Final = 30.0
NOTE_EVERY_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 15.0
WRITE_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 1.0
_WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TailTools:
    """The dependencies of a tail, usable from its thread. `ours`: whether it may write now."""

    spec: MirrorSpec
    worker: str
    resolve: Callable[[], Endpoint]
    state: StateStore
    groups: StateStore
    ours: Callable[[], bool]
    clock: Clock
    failed: Callable[[], None] = lambda: None
    """Called after each attempt to read or to write that has failed."""


class GroupTail(RoundThread):
    """The tail of one mirror. `stop` it from any thread, then join."""

    def __init__(self, tools: TailTools) -> None:
        super().__init__(f"groups-{tools.spec.mirror}")
        self._tools = tools
        self._clock = tools.clock
        self._router: Router | None = None
        self._source: OffsetsLog | OffsetPoller | None = None
        self._asking: OffsetPoller | None = None
        self._reason = ""
        self._trouble = ""
        self._tail_again_at = self._wrote_at = self._compared_at = self._noted_at = float("-inf")
        self._read_at = self._complete_until_ms = EpochMs(0)
        self._note: GroupSyncStatus | None = None
        self._judged: frozenset[str] = frozenset()
        self._followed: frozenset[str] = frozenset()
        """Of the topics that were judged, those that are in a mirror that somebody else copies."""

    def stop(self) -> None:
        super().stop()
        if self._router is not None:
            self._router.interrupt()

    def _close(self) -> None:
        if self._router is not None:
            self._router.close()

    # ── one round ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _round(self) -> None:
        try:
            self._read()
            self._trouble = ""
        except Stopped:
            raise
        except TanistError as why:
            self._tools.failed()
            self._fall_back(why)
        try:
            self._write()
        except Stopped:
            raise
        except TanistError as why:
            self._tools.failed()
            log.warning("positions of groups not written, going on", extra={"error": why.name, "reason": why.reason})
            self._stopping.wait(AGAIN_SECONDS)

    def _read(self) -> None:
        source = self._choose()
        source.cache.topics = self._topics()
        by, began = self._clock.deadline(ANSWER_SECONDS), self._clock.now()
        if isinstance(source, OffsetPoller):
            if source.read(by):
                self._read_at = began
            self._stopping.wait(POLL_SECONDS)
        elif source.read(self._patience_ms(source), by):
            self._read_at = began

    def _choose(self) -> OffsetsLog | OffsetPoller:
        """The log, unless it was refused recently."""
        if self._router is None:
            spec = self._tools.spec
            client_id, pinned = f"tanist-groups-{spec.mirror}", spec.source_cluster_id or None
            self._router = Router(self._tools.resolve(), client_id, pinned)
        again = isinstance(self._source, OffsetPoller) and self._clock.monotonic() >= self._tail_again_at
        if self._source is None or again:
            self._source = OffsetsLog(self._tools.spec, self._router, self._clock)
            self._compared_at = float("-inf")
        return self._source

    def _patience_ms(self, source: OffsetsLog) -> int:
        """How long to wait for records: at most until pending changes must be stored."""
        if not source.cache.dirty:
            return _WAIT_MS
        return patience_ms(self._wrote_at + COALESCE_SECONDS - self._clock.monotonic())

    def _topics(self) -> frozenset[str]:
        """The topics of the mirror, at the source; one that was removed keeps its last stored positions.

        If somebody else copies them, those of its filters that any group has a position in.
        """
        spec = self._tools.spec
        if is_followed(spec):
            names = self._follow()
        else:
            held = self._tools.state.view().mirrored(spec.mirror)
            names = frozenset(source for topic in held if (source := spec.names.source_of(topic.topic)) is not None)
        if self._source is not None and names - self._source.cache.topics:
            self._compared_at = float("-inf")  # a new topic's positions are known already
        return names

    def _follow(self) -> frozenset[str]:
        """The topics in which groups have positions, or had when the positions were stored that are there."""
        spec, known = self._tools.spec, self._source.cache.positioned if self._source is not None else set()
        if not self._judged:
            known = known | {each.partition.topic for each in self._tools.groups.view().group_positions(spec)}
        if new := known - self._judged:
            self._judged |= new
            self._followed |= copies_of(spec, new).keys()
        return self._followed

    def _fall_back(self, why: TanistError) -> None:
        if self._router is not None and (refused(why) or isinstance(why, PackedAway)):
            log.warning("asking for positions each second", extra={"error": why.name, "reason": why.reason})
            self._reason = _said(why)
            self._asking = self._asking or OffsetPoller(self._tools.spec, self._router, self._clock)
            self._asking.cache.remember(self._tools.groups.view())
            self._source = self._asking
            self._compared_at = float("-inf")
            self._tail_again_at = self._clock.monotonic() + TAIL_AGAIN_SECONDS
            return
        if not self._trouble:
            log.warning("positions of groups cannot be read", extra={"error": why.name, "reason": why.reason})
        self._trouble = f"{why.name}: {why.reason}"
        self._stopping.wait(AGAIN_SECONDS)

    # ── what goes into __mirror_groups ────────────────────────────────────────────────────────────────────────────

    def _write(self) -> None:
        source, now = self._source, self._clock.monotonic()
        due = now - self._wrote_at >= COALESCE_SECONDS
        if source is not None and source.complete and due:
            self._write_positions(source, now)
        self._write_note(now)

    def _write_positions(self, source: OffsetsLog | OffsetPoller, now: float) -> None:
        read_at, view = self._read_at, self._tools.groups.view()
        compare = now - self._compared_at >= COMPARE_EVERY_SECONDS
        if not compare and not source.cache.dirty:
            self._complete_until_ms = read_at
            return
        records = source.cache.differences(view, whole=source.whole) if compare else source.cache.changes(view)
        if not self._tools.ours():
            return
        if records:
            self._tools.groups.append(records, self._clock.deadline(WRITE_SECONDS))
            self._wrote_at = now
        source.cache.written()
        self._complete_until_ms = read_at
        if compare:
            self._compared_at = now

    def _write_note(self, now: float) -> None:
        note = self._now()
        old = self._note
        news = old is None or (note.mode, note.reason, note.groups) != (old.mode, old.reason, old.groups)
        waited = now - self._noted_at
        if waited >= (COALESCE_SECONDS if news else NOTE_EVERY_SECONDS) and self._tools.ours():
            self._tools.groups.append([note], self._clock.deadline(WRITE_SECONDS))
            self._note, self._noted_at = note, now

    def _now(self) -> GroupSyncStatus:
        how, reason = OffsetTailMode.TAILING, ""
        if self._trouble:
            how, reason = OffsetTailMode.DEGRADED, self._trouble
        elif isinstance(self._source, OffsetPoller):
            how, reason = (
                OffsetTailMode.POLLING,
                f"polled each second: {self._reason}; {self._source.listed} group(s) found",
            )
        elif isinstance(self._source, OffsetsLog):
            reason = _remarks(self._source)
        spec, groups = self._tools.spec, self._source.cache.groups() if self._source is not None else 0
        before = self._tools.groups.view().groups_followed(spec)
        return GroupSyncStatus(
            mirror=spec.mirror,
            mirror_id=spec.mirror_id,
            worker=self._tools.worker,
            mode=how,
            reason=reason,
            groups=groups if before is None or self._complete_until_ms else max(groups, before.groups),
            complete_until_ms=max(self._complete_until_ms, before.complete_until_ms if before else EpochMs(0)),
            at=self._clock.now(),
        )


def _said(why: TanistError) -> str:
    if refused(why):
        return f"READ on Topic __consumer_offsets is missing at the source ({why.reason})"
    return f"{why.name}: {why.reason}"


def _remarks(source: OffsetsLog) -> str:
    said = []
    if not source.complete:
        said.append("reading from the beginning")
    if source.broken:
        at, why = next(iter(source.broken.items()))
        said.append(f"{len(source.broken)} partition(s) cannot be read, for example {at}: {why.reason}")
    if source.held_back:
        said.append(f"open transactions hide later commits in {source.held_back} partition(s)")
    if source.unreadable:
        said.append(f"{source.unreadable} record(s) could not be read")
    return "; ".join(said)


def patience_ms(due_seconds: float) -> int:
    """How long to wait for records while changes must be stored in `due_seconds`; -inf: none was stored before."""
    return round(max(1.0, min(_WAIT_MS, due_seconds * 1000)))


LOOK_SECONDS: Final = 0.5
RESTART_SECONDS: Final = 1.0
STOP_SECONDS: Final = 5.0
_OF_GROUPS: Final = TopicPartition("__groups", 0)


def looks_after(claims: Claims, mirror: MirrorName, state_partitions: int) -> bool:
    """Whether this worker does now what one worker does for a whole mirror."""
    return claims.holds(state_partition_of(mirror, _OF_GROUPS, state_partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class TailsTools:
    """Dependencies that all tails share."""

    worker: str
    resolve: Callable[[str], Endpoint]
    state: StateStore
    groups: StateStore
    claims: Claims
    clock: Clock
    state_partitions: int
    totals: WorkerTotals = field(default_factory=WorkerTotals)


class GroupTails(RoundThread):
    """Starts, restarts and stops the tails of mirrors whose state partition we own. `stop`, then join."""

    def __init__(self, tools: TailsTools) -> None:
        super().__init__("group-tails")
        self._tools = tools
        self._tails: dict[MirrorName, GroupTail] = {}
        self._not_before: dict[MirrorName, float] = {}

    def _round(self) -> None:
        if not self._stopping.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        mine = {spec.mirror: spec for spec in self._tools.state.view().mirrors() if self._holds(spec)}
        for mirror, tail in list(self._tails.items()):
            if not tail.is_alive():
                if tail.died is not None:
                    log.error("tail of group positions ended, restarting", extra={"why": repr(tail.died)})
                    self._not_before[mirror] = self._tools.clock.monotonic() + RESTART_SECONDS
                del self._tails[mirror]
            elif mirror not in mine:
                tail.stop()  # buried by the next look
        for mirror in mine.keys() - self._tails.keys():
            if self._tools.clock.monotonic() >= self._not_before.get(mirror, 0.0):
                self._tails[mirror] = self._start(mine[mirror])

    def _holds(self, spec: MirrorSpec) -> bool:
        return looks_after(self._tools.claims, spec.mirror, self._tools.state_partitions)

    def _start(self, spec: MirrorSpec) -> GroupTail:
        tools = self._tools
        tail = GroupTail(
            TailTools(
                spec=spec,
                worker=tools.worker,
                resolve=lambda: tools.resolve(spec.source),
                state=tools.state,
                groups=tools.groups,
                ours=lambda: self._holds(spec),
                clock=tools.clock,
                failed=partial(tools.totals.sync_failed, spec.mirror, SyncKind.GROUPS),
            )
        )
        tail.start()
        return tail

    def _close(self) -> None:
        by = self._tools.clock.deadline(STOP_SECONDS)
        for tail in self._tails.values():
            tail.stop()
        for tail in self._tails.values():
            tail.join(by.left(self._tools.clock.monotonic()))
