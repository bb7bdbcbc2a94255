"""A compacted topic as a database: the port `StateStore`.

A view is current when the position has reached the end offset that the brokers reported after the call. Waiting for
the last record would never end if the log ends with a transaction marker.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tanist.domain.broker_errors import TopicAlreadyExists, UnknownTopicOrPartition
from tanist.domain.errors import TanistError, UnsafeStateTopic
from tanist.domain.records import STATE_PARTITIONS
from tanist.kafka.adapters.bounds import LogBoundsReader
from tanist.kafka.adapters.state_reader import Follower
from tanist.kafka.adapters.state_writer import WORKER, StateWriter, operator_of
from tanist.kafka.adapters.tail import LASTING_MS, Tail
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.protocol.stored import Unreadable
from tanist.kafka.wire.router import Router
from tanist.ports.topics import NewTopic, TopicFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.kafka.adapters.state_reader import Reader
    from tanist.ports.clock import Deadline


REPLICAS: Final = 3
MIN_IN_SYNC: Final = 2
_APPEARING: Final = 0.1
_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(8 << 20),  # only closed segments are compacted, and a replay reads all that is left
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """`partitions` is pinned at creation. `allow_small`: on fewer than three brokers, as many replicas as brokers."""

    partitions: int = STATE_PARTITIONS
    allow_small: bool = False


def ensure(topics: KafkaTopics, topic: str, layout: TopicLayout, by: Deadline, *, create: bool) -> TopicFacts:
    """The topic; created first if it is missing and `create` is True.

    Raises:
        UnsafeStateTopic: it is not compacted, not replicated enough, or has another number of partitions.
        UnknownTopicOrPartition: it is missing, and `create` is False.
    """
    facts = topics.describe([topic], by)[topic]
    if create and isinstance(facts, UnknownTopicOrPartition):
        _create(topics, topic, layout, by)
        facts = _appeared(topics, topic, by)
    if isinstance(facts, TanistError):
        raise facts
    if flaws := list(_flaws(facts, layout)):
        raise UnsafeStateTopic(f"topic {topic}: {'; '.join(flaws)}")
    return facts


def _create(topics: KafkaTopics, topic: str, layout: TopicLayout, by: Deadline) -> None:
    replicas = min(REPLICAS, len(topics.brokers(by))) if layout.allow_small else REPLICAS
    in_sync = MIN_IN_SYNC if replicas >= REPLICAS else 1
    new = NewTopic(
        name=topic,
        partitions=layout.partitions,
        replication_factor=replicas,
        configs={**_CONFIGS, "min.insync.replicas": str(in_sync)},
    )
    error = topics.create([new], by)[topic]
    if error and not isinstance(error, TopicAlreadyExists):  # somebody else was faster
        raise error


def _appeared(topics: KafkaTopics, topic: str, by: Deadline) -> TopicFacts | TanistError:
    """Wait for a topic that another process has just created: it exists before every broker knows it."""
    pause = threading.Event()
    while True:
        facts = topics.describe([topic], by)[topic]
        if not isinstance(facts, UnknownTopicOrPartition) or by.left(time.monotonic()) <= _APPEARING:
            return facts
        pause.wait(_APPEARING)


def _flaws(facts: TopicFacts, layout: TopicLayout) -> Iterator[str]:
    configs = facts.effective
    if configs.get("cleanup.policy") != "compact":
        yield f"cleanup.policy is {configs.get('cleanup.policy')}, which deletes records: it must be compact"
    if facts.partitions != layout.partitions:
        yield f"it has {facts.partitions} partitions, expected are {layout.partitions}"
    if layout.allow_small:
        return
    if facts.replication_factor < REPLICAS:
        yield f"replication factor is {facts.replication_factor}, required is {REPLICAS}"
    if int(configs.get("min.insync.replicas", "1")) < MIN_IN_SYNC:
        yield f"min.insync.replicas {configs.get('min.insync.replicas')}, required is {MIN_IN_SYNC}"


__all__ = ["WORKER", "CompactedTopic", "Shared", "TopicLayout", "operator_of"]

_FOLLOWED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Shared:
    """The router and the consumer that the state topics of one cluster share within a command."""

    router: Router
    follower: Follower


class CompactedTopic:
    """Created by `open`. Thread-safe; reads in a thread of its own."""

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
        """Check the topic and read it to its end; open it for changes unless `writer` is None.

        `writer`: `operator_of(mirror)` fences the command that opened the same mirror before, and is fenced by the next
        one; WORKER fences none. The earlier operator is fenced before the topic is read, so the view contains its last
        write. `within`: the shared connections of a command. `cluster_id`: the only id accepted.

        Raises:
            UnknownTopicOrPartition: the topic does not exist, and `create` is False.
            UnsafeStateTopic, AuthorizationFailed, AuthenticationFailed, Unreachable, TimedOut, AnotherCluster.
        """
        with contextlib.ExitStack() as undo:
            shared = within or Shared(Router(endpoint, "tanist-state", cluster_id), Follower(endpoint, LASTING_MS))
            if within is None:
                undo.callback(shared.router.close)
                undo.callback(shared.follower.close)
            facts = ensure(KafkaTopics(shared.router), topic, layout, by, create=create)
            opened = None if writer is None else StateWriter(endpoint, topic, layout.partitions, writer)
            if opened:
                undo.callback(opened.close)
                opened.open(by)
            bounds = LogBoundsReader(shared.router, topic, layout.partitions)
            if within is None:
                undo.callback(bounds.close)
            reader = shared.follower.reader(topic, bounds.starts(by), facts.topic_id)
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
        """Records that this version cannot decode, with the reason; the view does not contain them."""
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
        """Close its reader and writer; shared connections stay open."""
        self._end()
