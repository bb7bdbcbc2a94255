"""The batches of a span of a log, each judged: whether a reader of committed records sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.kafka.protocol.batch import walk
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.protocol.record_proof import judged
from tanist.kafka.wire import requests
from tanist.kafka.wire.leaders import value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import TopicPartition
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_READ: Final = 1 << 20


def batches_read(
    router: Router, at: TopicPartition, start: int, until: int, by: Deadline
) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
    """All that reach into [`start`, `until`), in order; they end early where the leader has no more for such a reader.

    Raises:
        TimedOut, BrokerError, CorruptBatch, UnsupportedBatch.
    """
    limits = FetchLimits(max_wait_ms=0, isolation=Isolation.READ_COMMITTED)
    while start < until:
        fetched = value(requests.fetch(router, {at: start}, by, limits, _READ)[at])
        before = start
        for header, batch, is_seen in judged(walk(fetched.records), fetched.aborted):
            if header.next_offset > start and header.base_offset < until:
                yield header, batch, is_seen
            start = max(start, header.next_offset)
        if start == before:
            return
