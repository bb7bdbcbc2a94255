"""The source side of a fetcher thread: what is fetched of its partitions, and when; `decisions` says what follows.

A broker reads every partition of a session at each fetch. So what has had no news for a while is fetched in a session
of its own, which waits longer, and which busy partitions do not wait for.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.compaction import Holes
from tanist.domain.errors import CouldNotTell, Stopped, TanistError
from tanist.fetcher.engines.batches.decisions import Decisions
from tanist.fetcher.engines.batches.fetch_channel import FetchChannel
from tanist.fetcher.throttle import Throttle
from tanist.kafka.protocol.batch import whole_bytes
from tanist.kafka.protocol.frames import FetchLimits
from tanist.kafka.wire.connection import wait_for_any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.domain.appending import Pipeline
    from tanist.domain.limits import LimitKey
    from tanist.domain.names import BrokerId
    from tanist.fetcher.engines.batches.decisions import AnswerTimes
    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tanist.fetcher.throttle import FetchPermit
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.frames import FetchAnswer, FetchPosition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock

FETCH_BYTES: Final = 8 << 20
"""Bytes of one answer; a fetcher thread has two buffers. A larger batch is still returned whole (KIP-74)."""
PARTITION_BYTES: Final = 1 << 20
MOST_PARTITION_BYTES: Final = 4 << 20
ONE_BY_ONE_BYTES: Final = 64 << 10
"""Of a partition whose batches are appended one by one: all others of the thread wait until they are."""
WAIT_MS: Final = 500
HURRY_MS: Final = 20
BESIDE_IDLE_WAIT_MS: Final = 100
"""While some rest: one of them that wakes waits for the next fetch of busy ones, in the session of idle ones."""
MARGIN_SECONDS: Final = 0.05
"""How much longer than the broker this waits for an answer; then other work is done first."""
RESTS_AFTER_SECONDS: Final = 3.0
"""A partition without news for so long is fetched in the session of idle ones."""
MOVED_SECONDS: Final = 1.0
"""How long it is said that a leader has moved: whoever assigns partitions looks once a second."""
IDLE_WAIT_MS: Final = 2_000
IDLE_FETCH_BYTES: Final = 1 << 20
IDLE_PARTITION_BYTES: Final = 64 << 10


class _Posted(NamedTuple):
    """A partition in a fetch, and what it was read for: an answer for anything else is void."""

    of: BatchPartition
    pipeline: Pipeline[BatchHeader, memoryview]
    offset: int
    turn: int

    @classmethod
    def now(cls, of: BatchPartition, turn: int) -> _Posted:
        return cls(of, of.pipeline, of.fetch_from, turn)

    @property
    def is_void(self) -> bool:
        return self.of.pipeline is not self.pipeline or self.of.fetch_from != self.offset


_Key = tuple[str, int]


def _key(of: BatchPartition) -> _Key:
    """As answers name it."""
    return of.there.topic, of.there.partition


class SourceReading:
    """Owned by the fetcher thread."""

    def __init__(
        self, source: Router, broker: BrokerId, clock: Clock, throttle: Throttle | None = None, *, rests: bool = False
    ) -> None:
        """`throttle`: the limits of the worker; None: none. `rests`: idle partitions have a session of their own."""
        self.news: list[BatchPartition] = []
        """Idle partitions that had some since somebody has cleared this."""
        self._source = source
        self._broker = broker
        self._clock = clock
        self._throttle = throttle or Throttle(clock)
        self._muted_until = float("-inf")
        """Monotonic seconds: the broker throttles this client, and reads no request before (KIP-219)."""
        self._rests = rests
        self._decisions = Decisions(clock)
        self._busy = FetchChannel(source, broker, clock, "fetch")
        self._idle = FetchChannel(source, broker, clock, "fetch-idle")
        self._posted: dict[_Key, _Posted] = {}
        """In the fetch of busy partitions."""
        self._resting: dict[_Key, _Posted] = {}
        """In the session of idle ones, all of them; `turn`: of the fetch that each was added with."""
        self._joining: list[_Key] = []
        self._leaving: set[_Key] = set()
        """New in it, and not in it any more, which the broker does not know yet."""
        self._unchanged: tuple[int, AnswerTimes] | None = None
        """The last answer about idle ones: those of its fetch that it has left out are unchanged."""
        self._rotation = 0
        self._wait_seconds = 0.0
        self._is_lost = False
        self._moved_until = float("-inf")

    @property
    def stale(self) -> bool:
        """Whether a leader has moved a moment ago, or this broker does not answer."""
        return self._is_lost or self._clock.monotonic() < self._moved_until

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────────

    def post(self, partitions: Sequence[BatchPartition], *, hurry: bool) -> bool:
        """See to it that `partitions` are being fetched, beside those that rest; False: nothing is.

        `hurry`: other work waits, so do not wait long for new records.
        """
        now = self._clock.monotonic()
        due = [each for each in partitions if each.source.read_again_at <= now]
        if self._rests:
            due = self._busy_of(due, now)
        self._wait_seconds = (HURRY_MS if hurry else WAIT_MS) / 1000 + MARGIN_SECONDS
        try:
            if now >= self._muted_until:
                self._post_busy(due, hurry=hurry)
                self._post_idle()
        except Stopped:
            raise
        except CouldNotTell as why:
            self._lost(why)
        return self._busy.in_flight or self._idle.in_flight

    def leave(self, partitions: Iterable[BatchPartition]) -> None:
        """Do not read them any more: they recover, are paused, or belong to another thread now."""
        for each in partitions:
            self._leave(_key(each), each)

    def rests(self, of: BatchPartition) -> bool:
        """Whether nothing has to be done for it until it is in `news`."""
        held = self._resting.get(_key(of))
        answered = self._unchanged is not None and held is not None and held.turn <= self._unchanged[0]
        return answered and held is not None and not held.is_void and _has_nothing_to_do(of)

    def settle(self) -> None:
        """Note of all that rest when the source has last answered about them."""
        if self._unchanged is None:
            return
        turn, look = self._unchanged
        for each in self._resting.values():
            if each.turn <= turn and not each.is_void and each.of.source.error is None:
                self._decisions.unchanged(each.of, look)

    def _busy_of(self, partitions: Sequence[BatchPartition], now: float) -> list[BatchPartition]:
        """Those that are read with the next fetch of busy ones.

        One that moves is in both sessions until the one that it leaves has answered, so no record waits for the next
        fetch of the other; whatever answers second is void.
        """
        found: list[BatchPartition] = []
        for each in partitions:
            key = _key(each)
            held = self._resting.get(key)
            is_idle = _has_nothing_to_do(each) and now - each.news_at > RESTS_AFTER_SECONDS
            if held is not None and not held.is_void and (is_idle or self._busy.in_flight):
                continue
            if held is not None:
                self._leave(key, held.of)
            elif is_idle and not self._idle.in_flight and key not in self._leaving:
                self._rest(key, each)  # not before the broker has heard that it has left
                continue
            found.append(each)
        return found

    def _rest(self, key: _Key, of: BatchPartition) -> None:
        self._resting[key] = _Posted.now(of, self._idle.turn + 1)
        self._joining.append(key)

    def _leave(self, key: _Key, of: BatchPartition) -> None:
        if key in self._resting and self._resting[key].of is of:
            del self._resting[key]
            self._leaving.add(key)

    def _post_busy(self, due: Sequence[BatchPartition], *, hurry: bool) -> None:
        """The order rotates, because without a session only the first is sure of its share (KIP-74)."""
        if self._busy.in_flight:
            return
        permit = self._throttle.permit(each.assigned.limits for each in due)
        some = _rotated([each for each in due if permit.allows(each.assigned.limits)], self._rotation)
        self._rotation += 1
        self._posted = {_key(each): _Posted.now(each, 0) for each in some}
        wait_ms = HURRY_MS if hurry else permit.wait_ms(BESIDE_IDLE_WAIT_MS if self._resting else WAIT_MS)
        self._wait_seconds = min(self._wait_seconds, wait_ms / 1000 + MARGIN_SECONDS)
        if some:
            limits = FetchLimits(max_wait_ms=wait_ms, max_bytes=min(FETCH_BYTES, permit.fetch_bytes or FETCH_BYTES))
            self._busy.post(_positions(some, permit), limits)

    def _post_idle(self) -> None:
        if self._idle.in_flight:
            return
        if not self._resting:
            self._joining, self._leaving = [], set()
            self._idle.forget()
            return
        first = next(iter(self._resting.values())).of
        permit = self._throttle.permit([tuple(key for key in first.assigned.limits if not key.topic)])
        if permit.spent:
            return
        joining = [self._resting[key].of for key in self._joining if key in self._resting]
        new = [each.position(IDLE_PARTITION_BYTES) for each in joining]
        most = min(IDLE_FETCH_BYTES, permit.fetch_bytes or IDLE_FETCH_BYTES)
        self._idle.post(new, FetchLimits(max_wait_ms=IDLE_WAIT_MS, max_bytes=most), self._leaving)
        self._joining, self._leaving = [], set()

    # ── receiving ─────────────────────────────────────────────────────────────────────────────────────────────────

    def ready(self) -> bool:
        """Whether an answer has arrived."""
        return self._busy.ready or self._idle.ready

    def take(self) -> None:
        """Wait for an answer, but not long, and decide for each batch what to do."""
        going = [each for each in (self._busy, self._idle) if each.in_flight]
        if not any(each.ready for each in going):
            wait_for_any([each.connection for each in going], self._wait_seconds)
        try:
            if self._busy.ready:
                self._take_busy(self._busy.take())
            if self._idle.ready:
                self._take_idle(self._idle.take())
        except Stopped:
            raise
        except TanistError as why:
            self._lost(why)

    def _take_busy(self, answer: FetchAnswer) -> None:
        self._answered(answer, self._posted)
        if not answer.looked:
            return
        look, unmentioned = self._busy.look(answer.partitions), dict(self._posted)
        self._decide(answer, unmentioned, look)
        for each in unmentioned.values():
            if not each.is_void:
                self._decisions.unchanged(each.of, look)

    def _take_idle(self, answer: FetchAnswer) -> None:
        self._answered(answer, self._resting)
        if not answer.looked:
            return
        look = self._idle.look(answer.partitions)
        mentioned = {
            key: self._resting[key]
            for each in answer.partitions
            if (key := (each.topic, each.partition)) in self._resting
        }
        self._unchanged = self._idle.turn, look
        self._decide(answer, dict(mentioned), look)
        for key, each in mentioned.items():
            self.news.append(each.of)
            if _has_nothing_to_do(each.of):
                continue
            if (
                self._busy.in_flight
                and each.of.source.error is None
                and not any(of.topic for of in each.of.assigned.limits)
            ):
                self._rest(key, each.of)
            else:  # the broker would answer about one with an error at once; the limit of a topic is for busy ones
                self._leave(key, each.of)

    def _decide(self, answer: FetchAnswer, candidates: dict[_Key, _Posted], look: AnswerTimes) -> None:
        """For each partition that the answer has; they are taken out of `candidates`."""
        first, now = next((each for each in answer.partitions if len(each.records)), None), self._clock.monotonic()
        for fetched in answer.partitions:
            posted = candidates.pop((fetched.topic, fetched.partition), None)
            if posted is None or posted.is_void:
                continue
            if len(fetched.records):
                posted.of.news_at = now
            if self._decisions.take(posted.of, fetched, look, is_whole=fetched is first):
                self._moved_until = now + MOVED_SECONDS

    def _answered(self, answer: FetchAnswer, fetched_for: dict[_Key, _Posted]) -> None:
        """Count what was read under the limits, and rest for as long as the broker's quota demands.

        What an answer has cut off of its last batch is read again, and counts then.
        """
        self._is_lost = False
        sizes: Counter[LimitKey] = Counter()
        for fetched in answer.partitions:
            posted = fetched_for.get((fetched.topic, fetched.partition)) if len(fetched.records) else None
            if posted is not None and posted.of.assigned.limits:
                size = whole_bytes(fetched.records)
                sizes.update(dict.fromkeys(posted.of.assigned.limits, size))
        if sizes:
            self._throttle.read(sizes)
        if answer.throttle_ms > 0 and fetched_for:
            self._muted_until = self._clock.monotonic() + answer.throttle_ms / 1000

    def _lost(self, why: TanistError) -> None:
        """Read both logs again: the topic may have been re-created when the broker answers next."""
        self._is_lost = True
        self._source.drop(self._broker)
        now, epoch = self._clock.monotonic(), self._clock.now()
        lost = [*self._posted.values(), *self._resting.values()]
        for each in lost:
            each.of.source.refused(why, now, epoch)
            each.of.halt(None, now)
        self.news += [each.of for each in self._resting.values()]
        self._posted, self._resting, self._unchanged = {}, {}, None
        self._joining, self._leaving = [], set()
        self._busy.forget()
        self._idle.forget()


def _has_nothing_to_do(of: BatchPartition) -> bool:
    """Whether it is copied, nothing of it waits or is in flight, and no gap marker is due."""
    pipeline = of.pipeline
    if pipeline.halted or not pipeline.quiet or of.source.error is not None:
        return False
    return of.holes is not Holes.COPIES or pipeline.end >= pipeline.position


def _positions(partitions: Sequence[BatchPartition], permit: FetchPermit) -> list[FetchPosition]:
    """What is asked of each partition: its share of the fetch, and of what may be read of its topic."""
    size = max(PARTITION_BYTES, min(MOST_PARTITION_BYTES, FETCH_BYTES // len(partitions)))
    if not permit.of_topic:
        return [each.position(ONE_BY_ONE_BYTES if each.one_by_one else size) for each in partitions]
    limited = Counter(key for each in partitions for key in each.assigned.limits if key in permit.of_topic)
    most = {key: max(1, permit.of_topic[key] // count) for key, count in limited.items()}
    return [
        each.position(
            min(
                ONE_BY_ONE_BYTES if each.one_by_one else size,
                *(most[key] for key in each.assigned.limits if key in most),
                MOST_PARTITION_BYTES,
            )
        )
        for each in partitions
    ]


def _rotated(partitions: list[BatchPartition], turn: int) -> list[BatchPartition]:
    if not partitions:
        return partitions
    first = turn % len(partitions)
    return partitions[first:] + partitions[:first]
