"""A compacted topic as a database: the port `StateStore`.

Ready means that the position reached the end offset that the brokers named after the call, never "the last record was
seen": behind a transaction marker there is nothing to see.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tanist.kafka.adapters.bounds import LogBoundsReader
from tanist.kafka.adapters.state_layout import TopicLayout, ensure
from tanist.kafka.adapters.state_reader import Follower
from tanist.kafka.adapters.state_writer import WORKER, StateWriter, operator_of
from tanist.kafka.adapters.tail import LASTING_MS, Tail
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.protocol.stored import Unreadable
from tanist.kafka.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.errors import TanistError
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.kafka.adapters.state_reader import Reader
    from tanist.ports.clock import Deadline

__all__ = ["WORKER", "CompactedTopic", "Shared", "TopicLayout", "operator_of"]

_FOLLOWED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Shared:
    """What the state topics of one cluster share within a command: one router, one consumer."""

    router: Router
    follower: Follower


class CompactedTopic:
    """Made by `open`. Thread-safe; a thread of its own reads."""

    def __init__(
        self, bounds: LogBoundsReader, reader: Reader, writer: StateWriter | None, end: Callable[[], None]
    ) -> None:
        self._bounds, self._reader, self._writer, self._end = bounds, reader, writer, end

    @classmethod
    def open(  # noqa: PLR0913 -- how it is opened, named
        cls,
        endpoint: Endpoint,
        topic: str,
        by: Deadline,
        *,
        layout: TopicLayout,
        writer: str | None = None,
        create: bool = False,
        within: Shared | None = None,
        cluster_id: str | None = None,
    ) -> Self:
        """The topic, checked, replayed to its end, and open for changes unless `writer` is None.

        `writer`: `operator_of(mirror)` fences whoever opened the same mirror before (and is fenced by whoever opens it
        next), WORKER fences nobody. An operator is fenced before the replay, so what it decides is based on the last
        word of the one before. `within`: the connections of a command, which all its state topics share.
        `cluster_id`: only of this cluster.

        Raises:
            UnknownTopicOrPartition: there is no such topic, and `create` is false.
            UnsafeStateTopic, AuthorizationFailed, AuthenticationFailed, Unreachable, TimedOut, AnotherCluster.
        """
        with contextlib.ExitStack() as undo:
            shared = within or Shared(Router(endpoint, "tanist-state", cluster_id), Follower(endpoint, LASTING_MS))
            if within is None:
                undo.callback(shared.router.close)
                undo.callback(shared.follower.close)
            ensure(KafkaTopics(shared.router), topic, layout, by, create=create)
            opened = None if writer is None else StateWriter(endpoint, topic, layout.partitions, writer)
            if opened:
                undo.callback(opened.close)
                opened.open(by)
            bounds = LogBoundsReader(shared.router, topic, layout.partitions)
            if within is None:
                undo.callback(bounds.close)
            reader = shared.follower.reader(topic, bounds.starts(by))
            undo.callback(reader.close)
            store = cls(bounds, reader, opened, undo.pop_all().close)
        try:
            store.catch_up(by)
        except BaseException:
            store.close()
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def view(self) -> StateView:
        return self._reader.view()

    def problems(self) -> tuple[Unreadable, ...]:
        """Records that this version cannot read, with the reason. They count as if they were not there."""
        return self._reader.problems()

    def ended(self) -> TanistError | None:
        return self._reader.ended()

    def catch_up(self, by: Deadline) -> StateView:
        positions = self._reader.positions()
        ends = self._bounds.ends(by)
        self._reader.check_not_shrunk(positions, ends)
        return self._reader.reach(ends, by)

    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        if self._writer is None:
            raise TypeError(f"{self._bounds.topic} was opened for reading")
        ends = self._writer.append(records, by)
        reported = {partition: end for partition, end in ends.items() if end is not None}
        return self._reader.reach(reported, by) if len(reported) == len(ends) else self.catch_up(by)

    def follow(self, by: Deadline | None) -> Iterator[StateRecord]:
        tail = Tail(self._bounds.endpoint)
        tail.add(self._bounds.topic, self._reader.starts)
        try:
            while (left := _FOLLOWED if by is None else by.left(time.monotonic())) > 0:
                for burst in tail.burst(min(left, _FOLLOWED)).values():
                    if burst.failure:
                        raise burst.failure
                    yield from (record for record in burst.records if not isinstance(record, Unreadable))
        finally:
            tail.close()

    def close(self) -> None:
        """End its reader and writer; what is shared stays open."""
        self._end()
