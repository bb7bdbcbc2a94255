"""Records so old that brokers forget their producer are appended one batch at a time, and hold up the others little."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tanist.domain.names import BrokerId
from tanist.fetcher.engines.batches.fetch_channel import FetchChannel
from tanist.fetcher.engines.batches.reading import ONE_BY_ONE_BYTES, PARTITION_BYTES, SourceReading
from tanist.kafka.wire.clock import SystemClock
from tests.unit.fetcher.test_pipeline import copying

if TYPE_CHECKING:
    import pytest

    from tanist.kafka.protocol.frames import FetchPosition


class Posted:
    def __init__(self) -> None:
        self.positions: list[FetchPosition] = []

    def post(self, positions: list[FetchPosition], *_: object) -> None:
        self.positions = positions


def test_thousands_of_old_small_batches_did_not_let_their_fetcher_thread_read_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All steps of a fetch are done before the next one is taken: a thousand round trips for 1 MiB of small batches."""
    posted = Posted()
    monkeypatch.setattr(FetchChannel, "_open", lambda *_: posted)
    reading = SourceReading(cast("Any", None), BrokerId(1), SystemClock())
    old, new = copying(0, 1), copying(0, 1)
    old.one_by_one = True
    assert reading.post([old, new], hurry=False)
    assert sorted(each.max_bytes for each in posted.positions) == [ONE_BY_ONE_BYTES, 4 * PARTITION_BYTES]
