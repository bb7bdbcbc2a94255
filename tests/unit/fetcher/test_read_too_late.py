"""Whether tombstones may be gone from what was read: also after a worker was frozen in the middle of a fetch."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tanist.domain.compaction import CaughtUp, Holes
from tanist.domain.names import EpochMs, SourceOffset
from tanist.fetcher.engines.batches.decisions import AnswerTimes, Decisions
from tanist.kafka.protocol.refilling import DeletedKeys
from tanist.kafka.wire.clock import SystemClock
from tests.unit.fetcher.test_pipeline import copying
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    from tanist.fetcher.engines.batches.partition import BatchPartition

CLOCK = SystemClock()
KEPT_MS = 60_000
HOUR_MS = 3_600_000


def compacted() -> BatchPartition:
    """Copied up to the source's end, which is offset 0."""
    found = copying(0, 0)
    found.assigned = replace(found.assigned, compacted=True, holes=Holes.COPIES, tombstones_kept_ms=KEPT_MS)
    found.source.last_stable = SourceOffset(0)
    return found


def too_late(asked_at: int, of: BatchPartition, base_offset: int) -> bool:
    answer: Any = SimpleNamespace(records=memoryview(encode_batch([b"a"], base_offset=base_offset)))
    return Decisions(CLOCK)._read_too_late(of, answer, AnswerTimes(EpochMs(asked_at), EpochMs(asked_at)))


def test_an_answer_that_waited_in_the_socket_of_a_frozen_worker_says_nothing_of_the_time_since() -> None:
    """It was taken as caught up now, and the holes that came next were not compared."""
    of, now = compacted(), CLOCK.now()
    assert not too_late(now - HOUR_MS, of, 0)
    assert of.tombstones.caught_up.at == now - HOUR_MS
    of.source.last_stable = SourceOffset(9)
    assert too_late(now, of, 5)
    assert of.tombstones.hole == 0
    assert of.halted is not None


def test_what_was_compared_is_good_for_as_long_as_the_source_keeps_tombstones() -> None:
    """It was good until the copy had caught up, however long that took."""
    of, now = compacted(), CLOCK.now()
    of.tombstones.caught_up = CaughtUp(EpochMs(now - HOUR_MS))
    of.source.last_stable = SourceOffset(9)
    of.tombstones.settled_at = EpochMs(now - KEPT_MS // 2)
    assert not too_late(now, of, 5)
    of.tombstones.settled_at = EpochMs(now - KEPT_MS)
    assert too_late(now, of, 5)


def test_a_copy_with_keys_too_many_is_not_caught_up() -> None:
    of = compacted()
    of.tombstones.deleted = DeletedKeys((b"k",), 5)
    of.compared(CLOCK.now())
    assert of.tombstones.caught_up.at is None
