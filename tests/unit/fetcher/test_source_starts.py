"""Where many logs of the source begin is read together, and what is wrong with one of them concerns it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tanist.domain.names import MirrorPartition
from tanist.fetcher.engines.batches import evidence
from tanist.kafka.protocol.frames import FetchedPartition
from tanist.kafka.wire import requests
from tanist.ports.clock import Deadline
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    import pytest

DAMAGED, WHOLE, EMPTY, NO_ROOM = (MirrorPartition("logs", n) for n in range(4))


def test_a_damaged_first_batch_hides_the_start_of_its_own_log_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stopped the recovery of every partition that was read with it."""
    batch = bytearray(encode_batch([b"a"], base_offset=3))
    damaged = bytearray(batch)
    damaged[-1] ^= 1
    logs = {DAMAGED: (damaged, 9), WHOLE: (batch, 9), EMPTY: (bytearray(), 5), NO_ROOM: (bytearray(), 9)}
    monkeypatch.setattr(requests, "list_offsets", lambda *_: dict.fromkeys(logs, 5))
    answers = {
        at: FetchedPartition(at.topic, at.partition, 0, end, end, 0, (), memoryview(log))
        for at, (log, end) in logs.items()
    }
    monkeypatch.setattr(requests, "fetch", lambda *_: answers)
    found = evidence.source_starts(cast("Any", None), tuple(logs), Deadline(1e9))
    assert {at: tuple(start) for at, start in found.items()} == {WHOLE: (5, 3), EMPTY: (5, 5)}
