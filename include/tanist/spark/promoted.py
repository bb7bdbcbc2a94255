"""Which topics have left the mirror by now, read from the state topic of the destination."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import TanistError
from tanist.domain.names import TopicPartition
from tanist.domain.records import STATE_TOPIC
from tanist.domain.state_view import StateView, take
from tanist.kafka.protocol.record_set import records_in
from tanist.kafka.protocol.stored import Unreadable, decode
from tanist.kafka.wire.requests import readable_ends
from tanist.spark.columns import body_of
from tanist.spark.reading import read
from tanist.spark.spans import Span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tanist.domain.names import MirrorName
    from tanist.domain.state_record import StateRecord
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


def promoted(router: Router, mirror: MirrorName, topics: Collection[str], by: Deadline) -> frozenset[str]:
    """Those of `topics` that `mirror` has promoted or removed. None, if the cluster has no state topic.

    Raises:
        TanistError: the state topic cannot be read to its end.
    """
    router.refresh([STATE_TOPIC], by)
    found = router.topics()[STATE_TOPIC]
    if isinstance(found.error, UnknownTopicOrPartition):
        return frozenset()
    if found.error is not None:
        raise found.error
    held: dict[str, StateRecord] = {}
    logs = [TopicPartition(STATE_TOPIC, each.partition) for each in found.partitions]
    for at, ends in readable_ends(router, logs, by).items():
        if isinstance(ends, TanistError):
            raise ends
        span = Span(partition=at, start=ends.start, until=ends.last_stable)
        for record in _records(router, span, by):
            take(held, record)
    view = StateView(held)
    return frozenset(topic for topic in topics if view.promoted(mirror, topic))


def _records(router: Router, span: Span, by: Deadline) -> Iterator[StateRecord]:
    for answer in read(router, span, by.left(time.monotonic())):
        for each in answer:
            if not each.seen:
                continue
            for record in records_in(each.header, bytes(body_of(each.header, each.batch))):
                stored = decode(record.key or b"", record.value)
                if not isinstance(stored, Unreadable):
                    yield stored
