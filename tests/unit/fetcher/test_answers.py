"""When the source has answered: never later than it has, however long the answer has waited here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.names import BrokerId, EpochMs
from tanist.fetcher.engines.batches.reading import WAIT_MS, SourceReading
from tanist.kafka.protocol.frames import FetchedPartition
from tests.fakes.clock import JumpingClock
from tests.unit.fetcher.test_pipeline import copying
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    from tanist.kafka.protocol.frames import FetchLimits

FROZEN_SECONDS = 7_200.0


class Leader:
    """The connection to it: one answer, which is taken `late` seconds after the request."""

    def __init__(self, clock: JumpingClock, answer: FetchedPartition, late: float) -> None:
        self.clock, self.partitions, self.late = clock, (answer,), late
        self.limits: FetchLimits | None = None
        self.connection, self.lost = self, False

    def post(self, _positions: object, limits: FetchLimits, _by: object) -> None:
        self.limits = limits

    def receive(self, _buffer: object, _by: object) -> Leader:
        self.clock.jump(self.late)
        return self


def looked_at(records: bytes | bytearray, late: float) -> tuple[EpochMs, EpochMs | None]:
    """When it was asked, and when it counts as seen."""
    clock, of = JumpingClock(), copying(0, 1)
    reading = SourceReading(cast("Any", None), BrokerId(1), clock)
    answer = FetchedPartition(of.at.topic, of.at.partition, 0, 9, 9, 0, (), memoryview(records))
    reading._fetches = cast("Any", Leader(clock, answer, late))
    asked = clock.now()
    assert reading.post([of], hurry=False)
    reading.take()
    return asked, of.source.observed_at


@pytest.mark.parametrize("late", [2.0, FROZEN_SECONDS])
def test_an_answer_that_waited_in_the_socket_of_a_frozen_process_is_no_later_look(late: float) -> None:
    """The source may have died meanwhile, and taken what was written in those hours with it."""
    asked, seen = looked_at(encode_batch([b"a"], base_offset=2), late)
    assert seen == asked
    asked, seen = looked_at(b"", late)
    assert seen == asked + WAIT_MS, "without records it was made when the leader had waited for some"


def test_an_idle_partition_has_been_seen_when_its_empty_answer_came() -> None:
    asked, seen = looked_at(b"", WAIT_MS / 1000)
    assert seen == asked + WAIT_MS
    asked, seen = looked_at(b"", 0.1)
    assert seen == asked + 100, "but never later than now"
