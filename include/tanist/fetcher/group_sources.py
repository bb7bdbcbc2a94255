"""Two ways to read the committed offsets of a source: `__consumer_offsets`, or polling."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeGuard

from tanist.domain.broker_errors import (
    LeaderNotAvailable,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import AnotherCluster, TanistError
from tanist.domain.names import SourceOffset, TopicPartition
from tanist.fetcher.group_offset_cache import Answered, GroupOffsetCache
from tanist.kafka.protocol import group_log, record_proof
from tanist.kafka.protocol.frames import FetchLimits
from tanist.kafka.protocol.group_log import UnreadableGroupRecord
from tanist.kafka.protocol.record_set import records_of
from tanist.kafka.wire.groups import fetch_positions, list_groups
from tanist.kafka.wire.requests import End, fetch, list_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.records import MirrorSpec
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.groups import Stored
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock, Deadline

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
        self.broken: dict[TopicPartition, TanistError] = {}
        """Partitions that cannot be read now; the others go on."""
        self.held_back = 0
        """Partitions in which an open transaction hides what comes after it."""
        self.unreadable = 0
        self._spec, self._router, self._clock = spec, router, clock
        self._positions: dict[TopicPartition, int] = {}
        self._finished: set[TopicPartition] = set()
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

    def _rotated(self) -> dict[TopicPartition, int]:
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
        new = {TopicPartition(CONSUMER_OFFSETS, p.partition) for p in topic.partitions} - self._positions.keys()
        starts = list_offsets(self._router, dict.fromkeys(new, End.EARLIEST), by) if new else {}
        for at, start in starts.items():
            if isinstance(start, TopicAuthorizationFailed):
                raise start
            self._positions[at] = 0 if isinstance(start, TanistError) else start

    def _take(self, at: TopicPartition, answer: FetchedPartition | TanistError) -> bool:
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

    def _begin_again(self, at: TopicPartition) -> None:
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


def _offsets(stored: Stored) -> Mapping[TopicPartition, SourceOffset]:
    return {at: SourceOffset(each.offset) for at, each in stored.items() if not isinstance(each, TanistError)}


def refused(error: TanistError) -> bool:
    """Whether a permission is missing, so that only polling is possible."""
    return isinstance(error, TopicAuthorizationFailed)
