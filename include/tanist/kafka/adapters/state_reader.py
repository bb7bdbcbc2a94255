"""The thread that follows state topics, and the view of each."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import StateLogLost, Stopped, TanistError, TimedOut
from tanist.domain.latest import take
from tanist.domain.state_view import StateView
from tanist.kafka.adapters.tail import Tail
from tanist.kafka.protocol.stored import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.state_record import StateRecord
    from tanist.kafka.adapters.tail import Burst
    from tanist.ports.clock import Deadline

log = logging.getLogger(__name__)

_LONGEST_WAIT: Final = 0.1
"""Seconds of one poll, and so the longest time that `close` takes unless the consumer is stuck."""

LOST_AFTER_SECONDS: Final = 5.0
"""A new leader may briefly report an end below what was read."""
STUCK_SECONDS: Final = 20.0
"""A partition of which nothing is read for so long, although it has more, is read by another consumer.

The threads of a consumer of librdkafka may wait for each other for ever, if a leader is lost while the consumer asks
whether its position is still in the log (OffsetForLeaderEpoch, librdkafka #5476).
"""
CLOSE_SECONDS: Final = 10.0
"""How long `close` waits. A consumer that is stuck does not close either: its thread ends with the process."""


class Follower:
    """Follows topics with one consumer, in a thread of its own, and passes records to the reader of each topic.

    Thread-safe. Connects with the first reader. A consumer that is stuck is left to its thread, which may never end,
    and another one goes on from the position of each reader.
    """

    def __init__(self, endpoint: Endpoint, quiet_ms: int) -> None:
        self._endpoint, self._quiet_ms = endpoint, quiet_ms
        self._wait = min(quiet_ms / 1000, _LONGEST_WAIT)
        self._changed = threading.Condition()
        self._readers: dict[str, Reader] = {}
        self._due: list[Reader] = []
        """Readers that come, or have left."""
        self._tail: Tail | None = None
        self._thread: threading.Thread | None = None
        self._made_at = 0.0
        self._failure: TanistError | None = None
        self._closing = False

    def reader(self, topic: str, starts: Mapping[int, int], topic_id: str = "") -> Reader:
        """The reader of a topic, from the offsets `starts`: shared by all users until the last one has closed it.

        `topic_id`: users of another topic of that name get StateLogLost.
        """
        with self._changed:
            held = self._readers.get(topic)
            if held is not None and held.topic_id != topic_id:
                held.end(StateLogLost(f"{held.what} was deleted and created again"))
            if held is not None and held.ended() is None:
                held.uses += 1
                return held
            reader = Reader(self, topic, f"topic {topic} of {self._endpoint.name}", starts, topic_id)
            if self._failure:
                reader.end(self._failure)
                return reader
            self._readers[topic] = reader
            self._due += [reader] if held is None else [held, reader]
            if self._thread is None:
                self._begin()
            self._changed.notify_all()
            return reader

    def renew(self, stuck: Reader) -> None:
        """Go on with another consumer; nothing, if this one is new, or `stuck` is not read any more."""
        with self._changed:
            if self._closing or self._failure or self._readers.get(stuck.topic) is not stuck:
                return
            if time.monotonic() - self._made_at < STUCK_SECONDS:
                return
            log.warning("nothing is read for %.0f s: going on with another consumer (%s)", STUCK_SECONDS, stuck.what)
            for reader in self._readers.values():
                reader.followed = False
            self._due = list(self._readers.values())
            self._begin()
            self._changed.notify_all()

    def _begin(self) -> None:
        """Another consumer, and a thread that reads with it; called under the lock."""
        self._tail, self._made_at = Tail(self._endpoint, self._quiet_ms), time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(self._tail,), name="tanist-follower", daemon=True)
        self._thread.start()

    def release(self, reader: Reader) -> None:
        """One user less of a reader; the consumer stays for others."""
        with self._changed:
            reader.uses -= 1
            if reader.uses:
                return
            if self._readers.get(reader.topic) is reader:
                del self._readers[reader.topic]
            self._due.append(reader)
            self._changed.notify_all()
        reader.end(Stopped(f"{reader.what}: closed"))

    def likely_cause(self) -> TanistError | None:
        """The likely reason of missing records, if connections fail."""
        return self._tail.likely_cause() if self._tail else None

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)

    # ── the thread ────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, tail: Tail) -> None:
        failure: TanistError = Stopped(f"state topics of {self._endpoint.name}: closed")
        try:
            while self._go_on(tail):
                for topic, burst in tail.burst(self._wait).items():
                    self._hand_over(tail, topic, burst)
        except TanistError as error:
            failure = error
        finally:
            with self._changed:
                readers = list(self._readers.values()) if self._tail is tail else []
                self._failure = failure if self._tail is tail else self._failure
            for reader in readers:
                reader.end(failure)
            tail.close()

    def _go_on(self, tail: Tail) -> bool:
        """Wait for a topic to follow; False: closed, or another consumer goes on."""
        with self._changed:
            while self._tail is tail and not self._closing and not self._readers and not self._due:
                self._changed.wait()
            if self._closing or self._tail is not tail:
                return False
            due, self._due = self._due, []
            come = dict.fromkeys(each for each in due if self._readers.get(each.topic) is each)
        for reader in due:
            if reader.followed:
                tail.remove(reader.topic)
                reader.followed = False
        for reader in come:
            tail.add(reader.topic, {**reader.starts, **reader.positions()})
            reader.followed = True
        return True

    def _hand_over(self, tail: Tail, topic: str, burst: Burst) -> None:
        with self._changed:
            reader = self._readers.get(topic)
            if self._tail is not tail or reader is None or not reader.followed:
                return
            reader.fold(burst)
        if burst.failure:
            reader.end(burst.failure)


class Reader:
    """Folds one topic into a view. Thread-safe."""

    def __init__(
        self, follower: Follower, topic: str, what: str, starts: Mapping[int, int], topic_id: str = ""
    ) -> None:
        self.topic, self.what, self.starts, self.topic_id = topic, what, starts, topic_id
        self.uses = 1
        self.followed = False
        """These two are the follower's own notes."""
        self._follower = follower
        self._changed = threading.Condition()
        self._records: dict[str, StateRecord] = {}
        self._unreadable: dict[str, Unreadable] = {}
        self._positions: dict[int, int] = {}
        self._published: StateView | None = StateView()
        self._failure: TanistError | None = None
        self._shrunk_since: float | None = None
        self._behind: dict[int, tuple[int, float]] = {}
        """By partition that was found behind: its position, and since when it has that (monotonic seconds)."""

    def view(self) -> StateView:
        """The current records, immutable. Copied once for each change that is read."""
        with self._changed:
            if self._published is None:
                self._published = StateView(self._records)
            return self._published

    def ended(self) -> TanistError | None:
        """The error that ended reading; None: it continues, or was closed."""
        with self._changed:
            return None if isinstance(self._failure, Stopped) else self._failure

    def problems(self) -> tuple[Unreadable, ...]:
        """The records that this version cannot read, by key."""
        with self._changed:
            return tuple(self._unreadable[key] for key in sorted(self._unreadable))

    def reach(self, ends: Mapping[int, int], by: Deadline) -> StateView:
        """The view once every partition has been read up to its offset in `ends`.

        Raises:
            TimedOut, Unreachable, StateLogLost, Stopped; the error that ended reading.
        """
        with self._changed:
            in_time = True
            while in_time and not self._reached(ends):
                if self._failure:
                    raise self._failure
                in_time = self._changed.wait(by.left(time.monotonic()))
            reached, stuck, missing = self._reached(ends), self._is_stuck(ends), self._missing(ends)
        if reached:
            return self.view()
        if stuck:
            self._follower.renew(self)
        raise self._follower.likely_cause() or TimedOut(f"{self.what}: {missing}")

    def positions(self) -> Mapping[int, int]:
        """How far each partition has been read."""
        with self._changed:
            return dict(self._positions)

    def check_not_shrunk(self, positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Raise StateLogLost if the topic ends before an offset that was read: it was re-created or truncated.

        `positions` must be taken before `ends` are requested, so that concurrent writes do not count as a loss. If that
        lasts, reading ends: librdkafka may wait for ever for the earlier topic.
        """
        shrunk = {n: (positions.get(n, 0), end) for n, end in ends.items() if positions.get(n, 0) > end}
        if not shrunk:
            self._shrunk_since = None
            return
        n, (position, end) = next(iter(shrunk.items()))
        lost = StateLogLost(f"{self.what}: partition {n} was read up to {position} and now ends at {end}")
        now = time.monotonic()
        self._shrunk_since = now if self._shrunk_since is None else self._shrunk_since
        if now - self._shrunk_since >= LOST_AFTER_SECONDS:
            self.end(lost)
        raise lost

    def close(self) -> None:
        self._follower.release(self)

    # ── from the follower's thread ────────────────────────────────────────────────────────────────────────────────

    def fold(self, burst: Burst) -> None:
        """Apply a burst to the view."""
        if not burst.positions:
            return
        with self._changed:
            for record in burst.records:
                self._take(record)
            self._positions.update(burst.positions)
            self._changed.notify_all()

    def end(self, failure: TanistError) -> None:
        """End reading with an error; the first one is kept."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def _take(self, record: StateRecord | Unreadable) -> None:
        key = record.key
        if isinstance(record, Unreadable):
            self._unreadable[key] = record
            return
        self._unreadable.pop(key, None)
        if take(self._records, record):
            self._published = None

    def _is_stuck(self, ends: Mapping[int, int]) -> bool:
        """Whether a partition is behind, and has been where it is for long."""
        now, before = time.monotonic(), self._behind
        at = {n: self._positions.get(n, 0) for n, end in ends.items() if self._positions.get(n, 0) < end}
        self._behind = {n: before[n] if n in before and before[n][0] == here else (here, now) for n, here in at.items()}
        return any(now - since >= STUCK_SECONDS for _, since in self._behind.values())

    def _reached(self, ends: Mapping[int, int]) -> bool:
        return all(self._positions.get(n, 0) >= end for n, end in ends.items())

    def _missing(self, ends: Mapping[int, int]) -> str:
        behind = [f"partition {n} at {self._positions.get(n, 0)} of {e}" for n, e in ends.items()]
        behind = [text for text, (n, e) in zip(behind, ends.items(), strict=True) if self._positions.get(n, 0) < e]
        return f"not read to its end: {', '.join(behind[:3])}"
