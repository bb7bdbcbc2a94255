"""Which keys of a copy its source has deleted: both logs are played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from tanist.domain.log_ends import CopyEnds
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset
from tanist.fetcher.engines.batches import lost_tombstones
from tanist.fetcher.engines.batches.lost_tombstones import deleted_keys
from tanist.kafka.wire import requests
from tanist.kafka.wire.clock import SystemClock
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    import pytest

AT = MirrorPartition("t", 0)


def test_a_record_without_a_key_does_not_hide_that_the_empty_key_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key was taken for the empty one, and the copy kept the deleted record."""
    logs = {
        "source": [encode_batch([b"without"], key=None), encode_batch([b"alive"], base_offset=9)],
        "copy": [encode_batch([b"deleted"], key=b""), encode_batch([b"alive"], base_offset=1)],
    }

    def played(router: Any, *_: object) -> list[Any]:
        return [SimpleNamespace(records=memoryview(b"".join(logs[router])), aborted=())]

    monkeypatch.setattr(lost_tombstones, "_log", played)
    monkeypatch.setattr(requests, "list_offsets", lambda *_: {AT: 0})
    ends = CopyEnds(DestinationOffset(0), DestinationOffset(2), DestinationOffset(2))
    by = SystemClock().deadline(5)
    assert deleted_keys(AT, cast("Any", ("source", "copy")), ends, SourceOffset(2), by).keys == (b"",)
    logs["source"][0] = encode_batch([b"alive"], key=b"")
    assert not deleted_keys(AT, cast("Any", ("source", "copy")), ends, SourceOffset(2), by).keys
