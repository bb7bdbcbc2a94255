"""When the source has answered: never later than it has, however long the answer has waited here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.names import BrokerId, EpochMs
from tanist.fetcher.engines.batches.reading import WAIT_MS, SourceReading
from tanist.kafka.protocol.frames import FetchAnswer, FetchedPartition
from tests.fakes.clock import JumpingClock
from tests.unit.fetcher.test_pipeline import copying
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tanist.kafka.protocol.frames import FetchLimits

FROZEN_SECONDS = 7_200.0


class Leader:
    """The connection to it: one answer, which is taken `late` seconds after the request."""

    def __init__(self, clock: JumpingClock, answer: FetchAnswer, late: float) -> None:
        self.clock, self.answer, self.late = clock, answer, late
        self.limits: FetchLimits | None = None
        self.connection, self.lost, self.readable = self, False, True

    def post(self, _positions: object, limits: FetchLimits, *_: object) -> None:
        self.limits = limits

    def receive(self, _buffer: object, _by: object) -> FetchAnswer:
        self.clock.jump(self.late)
        return self.answer


def answered(answer: FetchAnswer, late: float, of: BatchPartition) -> tuple[EpochMs, EpochMs | None]:
    """When it was asked, and when it counts as seen."""
    clock = JumpingClock()
    reading = SourceReading(cast("Any", None), BrokerId(1), clock)
    reading._busy._fetches = cast("Any", Leader(clock, answer, late))
    asked = clock.now()
    assert reading.post([of], hurry=False)
    reading.take()
    return asked, of.source.observed_at


def looked_at(records: bytes | bytearray, late: float) -> tuple[EpochMs, EpochMs | None]:
    of = copying(0, 1)
    answer = FetchedPartition(of.at.topic, of.at.partition, 0, 9, 9, 0, (), memoryview(records))
    return answered(FetchAnswer(0, [answer]), late, of)


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


def test_a_partition_without_news_was_left_out_of_the_answer_and_has_been_seen() -> None:
    """KIP-227: its ends are what they were."""
    of = copying(0, 1)
    of.source.served(EpochMs(1), 9, 8, 0)
    asked, seen = answered(FetchAnswer(0, [], 7), WAIT_MS / 1000, of)
    assert seen == asked + WAIT_MS
    assert (of.source.high_watermark, of.source.last_stable) == (9, 8)


def test_a_broker_that_throttles_its_client_has_not_looked() -> None:
    """Its answer is empty, too: a source that may have been dead for a minute counted as seen."""
    of = copying(0, 1)
    of.source.served(EpochMs(1), 9, 8, 0)
    _, seen = answered(FetchAnswer(1_000, [], 7, looked=False), WAIT_MS / 1000, of)
    assert seen == 1


def test_the_ends_of_a_partition_that_was_halted_meanwhile_are_not_lost() -> None:
    """In a session they come once: nothing else would tell them before they change again."""
    of = copying(0, 1)
    of.halt(None, 0.0)
    answered(FetchAnswer(0, [FetchedPartition(of.at.topic, of.at.partition, 0, 9, 8, 0, (), memoryview(b""))]), 0, of)
    assert (of.source.high_watermark, of.source.last_stable) == (9, 8)
