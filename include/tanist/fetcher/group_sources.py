"""Two ways to read the committed offsets of a source: `__consumer_offsets`, or polling."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from tanist.domain.broker_errors import (
    LeaderNotAvailable,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import AnotherCluster, TanistError
from tanist.domain.followed import group_is_followed
from tanist.domain.names import EpochMs, SourceOffset, SourcePartition
from tanist.domain.records import GroupPosition
from tanist.domain.state_record import Tombstone
from tanist.kafka.protocol import group_log, record_proof
from tanist.kafka.protocol.frames import FetchLimits
from tanist.kafka.protocol.group_log import GroupSeen, LoggedCommit, Removed, UnreadableGroupRecord
from tanist.kafka.protocol.record_set import records_of
from tanist.kafka.wire.groups import fetch_positions, list_groups
from tanist.kafka.wire.requests import End, fetch, list_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.protocol.group_log import GroupEvent
    from tanist.kafka.wire.groups import Stored
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock, Deadline


_CLASSIC = "classic"


class _Held(NamedTuple):
    offset: SourceOffset
    at: EpochMs
    order: int


_NOWHERE: Final = _Held(SourceOffset(-1), EpochMs(0), -1)


class Answered(NamedTuple):
    """Kind and positions by group. `unsure`: groups and topics that are not, or not completely, known."""

    found: Mapping[str, tuple[str, Mapping[SourcePartition, SourceOffset]]]
    unsure_groups: frozenset[str] = frozenset()
    unsure_topics: frozenset[str] = frozenset()

    def denies(self, group: str, at: SourcePartition) -> bool:
        """Whether the position certainly does not exist."""
        if group in self.unsure_groups or at.topic in self.unsure_topics:
            return False
        return group not in self.found or at not in self.found[group][1]


class GroupOffsetCache:
    """The positions of all groups in all topics, so that a topic that is added later has them at once.

    `topics` are those of the mirror; only their positions are stored, of groups that the mirror follows. `positioned`:
    topics in which any group has, or had, a position.
    """

    def __init__(self, spec: MirrorSpec) -> None:
        self.topics: frozenset[str] = frozenset()
        self.positioned: set[str] = set()
        self._spec = spec
        self._positions: dict[str, dict[SourcePartition, _Held]] = {}
        self._kinds: dict[str, str] = {}
        self._changed: set[tuple[str, SourcePartition]] = set()

    @property
    def dirty(self) -> bool:
        """Whether there may be changes to store."""
        return bool(self._changed)

    def groups(self) -> int:
        """How many groups have a position in the mirror."""
        ours = (held for group, held in self._positions.items() if group_is_followed(self._spec, group))
        return sum(any(at.topic in self.topics for at in held) for held in ours)

    def take(self, event: GroupEvent, order: int) -> None:
        """Apply one record of the log; `order`: its offset."""
        match event:
            case LoggedCommit():
                self.put(event.group, SourcePartition(*event.partition), _Held(event.offset, event.at, order))
            case Removed():
                self.drop(event.group, SourcePartition(*event.partition))
            case GroupSeen() if self._kinds.get(event.group, _CLASSIC) != event.kind:
                self._kinds[event.group] = event.kind
                self._changed |= {(event.group, at) for at in self._positions.get(event.group, ())}
            case _:
                pass

    def put(self, group: str, at: SourcePartition, held: _Held) -> None:
        self._hold(group, at, held)
        self._changed.add((group, at))

    def _hold(self, group: str, at: SourcePartition, held: _Held) -> None:
        self._positions.setdefault(group, {})[at] = held
        self.positioned.add(at.topic)

    def drop(self, group: str, at: SourcePartition) -> None:
        held = self._positions.get(group, {})
        if held.pop(at, None) is not None:
            self._changed.add((group, at))
        if not held:
            self._positions.pop(group, None)

    def remember(self, view: StateView) -> None:
        """Start polling from the stored positions; otherwise one that is no longer visible would count as deleted."""
        for record in self._written(view):
            self._kinds[record.group] = record.kind
            held = _Held(record.offset, record.at, record.order)
            self._hold(record.group, record.partition, held)

    def record_answer(self, answer: Answered, now: EpochMs) -> None:
        """Apply the source's answer. Positions that are not in it were deleted, unless they are `unsure`."""
        for group, (kind, positions) in answer.found.items():
            self.take(GroupSeen(group, kind, None), -1)
            before = self._positions.get(group, {})
            for at, offset in positions.items():
                if at not in before or before[at].offset != offset:
                    self.put(group, at, _Held(offset, now, -1))
        for group, at in [each for each in self.known() if answer.denies(*each)]:
            self.drop(group, at)

    def known(self) -> list[tuple[str, SourcePartition]]:
        """All cached positions."""
        return [(group, at) for group, held in self._positions.items() for at in held]

    # ── what has to be written ────────────────────────────────────────────────────────────────────────────────────

    def changes(self, view: StateView) -> list[StateRecord]:
        """Of the positions changed since `written`, those that differ from `view`."""
        return [new for each in self._changed if self._is_ours(*each) for new in self._entry(*each, view)]

    def _is_ours(self, group: str, at: SourcePartition) -> bool:
        return at.topic in self.topics and group_is_followed(self._spec, group)

    def differences(self, view: StateView, *, whole: bool) -> list[StateRecord]:
        """All positions that differ from `view`, which another worker may have written.

        A cache that is not `whole` does not know which positions were deleted.
        """
        known = {each for each in self.known() if self._is_ours(*each)}
        stale = {(r.group, r.partition) for r in self._written(view) if r.partition.topic in self.topics}
        return [new for each in (known | stale if whole else known) for new in self._entry(*each, view)]

    def _written(self, view: StateView) -> Iterator[GroupPosition]:
        return iter(view.group_positions(self._spec))

    def written(self) -> None:
        """Record that the changes were stored."""
        self._changed.clear()

    def _entry(self, group: str, at: SourcePartition, view: StateView) -> Iterator[StateRecord]:
        held = self._positions.get(group, {}).get(at)
        record = self._record(group, at, held) if held else None
        key = self._record(group, at, held or _NOWHERE).key
        there = view.get(key)
        if there == record or _same_position(there, record):
            return
        if record is None or (isinstance(there, GroupPosition) and 0 <= record.order < there.order):
            yield Tombstone(key)  # its log was made anew: without this the older record would not be taken
        if record is not None:
            yield record

    def _record(self, group: str, at: SourcePartition, held: _Held) -> GroupPosition:
        return GroupPosition(
            mirror=self._spec.mirror,
            mirror_id=self._spec.mirror_id,
            group=group,
            partition=at,
            offset=held.offset,
            at=held.at,
            kind=self._kinds.get(group, _CLASSIC),
            order=held.order,
        )


def _same_position(there: StateRecord | None, record: GroupPosition | None) -> bool:
    """A polled position that has not changed adds nothing to one that was read from the log."""
    return (
        isinstance(there, GroupPosition)
        and record is not None
        and record.order < 0
        and (there.offset, there.kind) == (record.offset, record.kind)
    )


log = logging.getLogger(__name__)

CONSUMER_OFFSETS: Final = "__consumer_offsets"
PARTITION_BYTES: Final = 1 << 20
WAIT_MS: Final = 500
"""How long a broker waits for the next commit; it answers at once when there is one."""
SEVERAL_WAIT_MS: Final = 25
"""The same if several brokers are queried one after the other."""
LOOK_EVERY_SECONDS: Final = 30.0


def same_cluster(spec: MirrorSpec, router: Router) -> None:
    """Raises AnotherCluster if the source is not the cluster whose id the mirror pins."""
    if spec.source_cluster_id and router.cluster_id != spec.source_cluster_id:
        raise AnotherCluster(f"{spec.source!r} is cluster {router.cluster_id}, not {spec.source_cluster_id}")


class OffsetsLog:
    """Follows `__consumer_offsets`, committed records only, all partitions, from the log start. Owned by one thread."""

    def __init__(self, spec: MirrorSpec, router: Router, clock: Clock) -> None:
        self.cache = GroupOffsetCache(spec)
        self.broken: dict[SourcePartition, TanistError] = {}
        """Partitions that cannot be read now; the others go on."""
        self.held_back = 0
        """Partitions in which an open transaction hides what comes after it."""
        self.unreadable = 0
        self._spec, self._router, self._clock = spec, router, clock
        self._positions: dict[SourcePartition, int] = {}
        self._finished: set[SourcePartition] = set()
        self._longest_ms = WAIT_MS
        self._empty = False
        self._turn = 0
        self._looked_at = float("-inf")

    @property
    def whole(self) -> bool:
        """Whether the whole log was read once; before that, the cache does not know which positions were deleted."""
        return self._empty or (bool(self._positions) and self._finished >= self._positions.keys())

    @property
    def complete(self) -> bool:
        """The same, except for partitions that cannot be read now."""
        return self.whole or (bool(self._finished) and self._finished | self.broken.keys() >= self._positions.keys())

    def read(self, wait_ms: int, by: Deadline) -> bool:
        """Read new records, waiting up to `wait_ms`; True: none were left when the brokers answered.

        Raises:
            TopicAuthorizationFailed: READ or DESCRIBE is missing. PackedAway: its records cannot be decompressed here.
            AnotherCluster, CouldNotTell, BrokerError: the log cannot be read at all.
        """
        self._look(by)
        if not self._positions:  # no group has ever been here
            self._router.pause(min(wait_ms, WAIT_MS) / 1000, by)
            self._empty = True
            return True
        limits = FetchLimits(max_wait_ms=min(wait_ms, self._longest_ms) if self.complete else 0)
        answers = fetch(self._router, self._rotated(), by, limits, PARTITION_BYTES)
        self.held_back, self.broken = 0, {}
        finished = [self._take(at, answer) for at, answer in answers.items()]
        if len(self.broken) == len(answers):
            raise next(iter(self.broken.values()))
        return all(finished)

    def _rotated(self) -> dict[SourcePartition, int]:
        """The partitions in rotating order: only the first is sure of its share (KIP-74)."""
        self._turn += 1
        order = sorted(self._positions)
        first = self._turn % len(order)
        return {at: self._positions[at] for at in order[first:] + order[:first]}

    def _look(self, by: Deadline) -> None:
        """Find the partitions, from time to time, because the topic is created with the first group."""
        now = self._clock.monotonic()
        if self._positions and now - self._looked_at < LOOK_EVERY_SECONDS:
            return
        self._looked_at = now
        self._router.refresh([CONSUMER_OFFSETS], by)
        same_cluster(self._spec, self._router)
        topic = self._router.topics()[CONSUMER_OFFSETS]
        if topic.error is not None and not isinstance(topic.error, UnknownTopicOrPartition):
            raise topic.error
        self._longest_ms = WAIT_MS if len({p.leader for p in topic.partitions}) == 1 else SEVERAL_WAIT_MS
        new = {SourcePartition(CONSUMER_OFFSETS, p.partition) for p in topic.partitions} - self._positions.keys()
        starts = list_offsets(self._router, dict.fromkeys(new, End.EARLIEST), by) if new else {}
        for at, start in starts.items():
            if isinstance(start, TopicAuthorizationFailed):
                raise start
            self._positions[at] = 0 if isinstance(start, TanistError) else start

    def _take(self, at: SourcePartition, answer: FetchedPartition | TanistError) -> bool:
        if isinstance(answer, OffsetOutOfRange):
            self._begin_again(at)
            return False
        if isinstance(answer, TopicAuthorizationFailed):
            raise answer
        if isinstance(answer, TanistError):
            self.broken[at] = answer
            return False
        seen = record_proof.visible(answer.records, answer.aborted)
        position = self._positions[at]
        for _, batch in seen.batches:
            for record in records_of(batch):
                if record.offset >= position:
                    self._parse(record.key, record.value, record.offset)
        self._positions[at] = max(position, seen.until or 0)
        self.held_back += answer.last_stable_offset < answer.high_watermark
        if self._positions[at] < answer.last_stable_offset:
            return False
        self._finished.add(at)
        return True

    def _parse(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        try:
            self.cache.take(group_log.parse(key or b"", value), offset)
        except UnreadableGroupRecord as why:
            self.unreadable += 1
            log.warning("skipped a record of the source's positions", extra={"offset": offset, "reason": why.reason})

    def _begin_again(self, at: SourcePartition) -> None:
        """Start over: the log has lost records or was re-created."""
        log.warning("reading the source's positions anew", extra={"partition": str(at)})
        topics = self.cache.topics
        self.cache = GroupOffsetCache(self._spec)
        self.cache.topics = topics
        self._positions.clear()
        self._finished.clear()


class OffsetPoller:
    """Polls the committed offsets of all groups, if the log may not be read. Owned by one thread."""

    def __init__(self, spec: MirrorSpec, router: Router, clock: Clock) -> None:
        self.cache = GroupOffsetCache(spec)
        self.complete = False
        self.whole = False
        self.listed = 0
        self._spec, self._router, self._clock = spec, router, clock

    def read(self, by: Deadline) -> bool:
        """Poll all groups that are visible to us, and those that were known before; True: all have been answered.

        Groups that do not answer keep their known positions. A revoked permission looks like a deleted group only
        in the list of groups, not in the query for the group.

        Raises:
            AnotherCluster; CouldNotTell, BrokerError: the source does not answer.
        """
        listed, silent = list_groups(self._router, by)
        same_cluster(self._spec, self._router)
        self.listed = len(listed)
        asked = sorted(listed.keys() | {group for group, _ in self.cache.known()})
        answers = fetch_positions(self._router, asked, by) if asked else {}
        kinds = {group: each.kind for group, each in listed.items()}
        found = {group: (kinds.get(group, "classic"), _offsets(a)) for group, a in answers.items() if _is(a)}
        unsure = {group for group, answer in answers.items() if _unsure(answer)}
        answered = Answered(found, frozenset(unsure), self._hidden_topics(by))
        self.cache.record_answer(answered, self._clock.now())
        self.complete, self.whole = True, not silent
        errors = (*silent, *(each for each in answers.values() if isinstance(each, TanistError)))
        return not any(each.retriable for each in errors)

    def _hidden_topics(self, by: Deadline) -> frozenset[str]:
        """Topics that we may not see: brokers omit their positions from every answer without an error."""
        if self.cache.topics:
            self._router.refresh(sorted(self.cache.topics), by)
        known = self._router.topics()
        return frozenset(
            topic for topic in self.cache.topics if topic not in known or isinstance(known[topic].error, _HIDING)
        )


_HIDING: Final = (TopicAuthorizationFailed, LeaderNotAvailable)


def _is(answer: Stored | TanistError) -> TypeGuard[Stored]:
    return not isinstance(answer, TanistError)


def _unsure(answer: Stored | TanistError) -> bool:
    return isinstance(answer, TanistError) or any(isinstance(each, TanistError) for each in answer.values())


def _offsets(stored: Stored) -> Mapping[SourcePartition, SourceOffset]:
    known = ((SourcePartition(*at), each) for at, each in stored.items())
    return {at: SourceOffset(each.offset) for at, each in known if not isinstance(each, TanistError)}


def refused(error: TanistError) -> bool:
    """Whether a permission is missing, so that only polling is possible."""
    return isinstance(error, TopicAuthorizationFailed)
