"""How far a copy is behind."""

from __future__ import annotations

from typing import Any

import pytest

from tanist.domain.errors import BrokerError, Diverged, ForeignWrite, SourceTruncated
from tanist.domain.lag import KnownEnd, PartitionRow, asked_again, counted, last_known
from tanist.domain.lag_amounts import in_bytes, in_seconds
from tanist.domain.names import (
    DestinationOffset,
    EpochMs,
    MirrorName,
    MirrorPartition,
    SourceOffset,
    SourcePartition,
)
from tanist.domain.offset_map import OffsetMap
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.domain.state_view import StateView
from tanist.domain.states import DesiredState, MirrorState
from tests.builders import a_partition


@pytest.mark.parametrize(
    ("error", "lag"),
    [(ForeignWrite.name, None), (Diverged.name, None), (SourceTruncated.name, None), (BrokerError.name, 3)],
)
def test_a_log_that_is_no_copy_any_more_has_no_lag(error: str, lag: int | None) -> None:
    at, dr = MirrorPartition("orders", 0), MirrorName("dr")
    observed = a_partition(MirrorState.FAILED, mirror=dr, partition=at, row=0, error=error, claim_epoch=1)
    row = PartitionRow(
        mirror=dr,
        partition=at,
        desired=DesiredState.MIRRORING,
        state=MirrorState.FAILED,
        source=KnownEnd(SourceOffset(10), EpochMs(0)),
        destination_end=DestinationOffset(7),
        map=OffsetMap(),
        observed=observed,
    )
    assert row.lag == lag


NOW = EpochMs(100_000)


def row(end: int | None, **source: Any) -> PartitionRow:
    return PartitionRow(
        mirror=MirrorName("dr"),
        partition=MirrorPartition("orders", 0),
        desired=DesiredState.MIRRORING,
        state=MirrorState.MIRRORING,
        source=KnownEnd(SourceOffset(10), NOW, **source),
        destination_end=None if end is None else DestinationOffset(end),
        map=OffsetMap(),
        observed=None,
    )


def test_s3_19_a_lag_has_an_age_and_a_size_and_neither_is_guessed() -> None:
    behind = row(7, uncopied_at=EpochMs(98_500), record_bytes=120.4)
    assert (behind.lag, behind.lag_ms, behind.lag_bytes) == (3, 1_500, 361)
    assert (row(7).lag_ms, row(7).lag_bytes) == (None, None), "no worker has recorded either"
    complete = row(10, uncopied_at=EpochMs(98_500), record_bytes=120.4)
    assert (complete.lag, complete.lag_ms, complete.lag_bytes) == (0, 0, 0)
    assert (row(None).lag, row(None).lag_ms, row(None).lag_bytes) == (None, None, None)
    ahead = row(7, uncopied_at=EpochMs(100_700), record_bytes=1.0)
    assert ahead.lag_ms == 0, "a producer whose clock is ahead makes no age below 0"


def test_the_sum_says_what_is_known_of_the_rows_that_lag() -> None:
    known, unknown = row(7, uncopied_at=EpochMs(98_500), record_bytes=1000.0), row(5)
    assert str(counted([known, row(10)])) == "2 MIRRORING; lag 3 offsets (about 3.0 KB, at most 1.5 s old)"
    assert str(counted([known, unknown])) == "2 MIRRORING; lag 8 offsets (about 3.0 KB, at most 1.5 s old)"
    assert str(counted([unknown])) == "1 MIRRORING; lag 5 offsets"
    assert str(counted([row(10)])) == "1 MIRRORING; lag 0 offsets"


def test_an_end_says_since_when_something_may_be_missing() -> None:
    """What was complete when the source answered lacks later records only."""
    at = SourcePartition("orders", 0)

    def known(copied: int | None, uncopied_at: int | None = None) -> KnownEnd:
        since = None if uncopied_at is None else EpochMs(uncopied_at)
        until = None if copied is None else SourceOffset(copied)
        end = SourceEnd(at, SourceOffset(10), SourceOffset(9), copied_until=until, at=NOW, uncopied_at=since)
        ends = SourceEnds(mirror=MirrorName("dr"), chunk=0, ends=(end,), at=NOW)
        return last_known(StateView({ends.key: ends}), MirrorName("dr"))[at]

    assert known(9).uncopied_at == NOW, "readers of committed records see nothing that is missing"
    assert known(8, 77).uncopied_at == 77
    assert (known(8).uncopied_at, known(None).uncopied_at) == (None, None)
    again = asked_again(known(8, 77), SourceOffset(20), EpochMs(200_000))
    assert (again.high_watermark, again.at, again.uncopied_at) == (20, 200_000, 77)


@pytest.mark.parametrize(
    ("amount", "said"),
    [(0, "0 B"), (999, "999 B"), (1_500, "1.5 KB"), (20_400_000, "20 MB"), (3 * 10**12, "3.0 TB")],
)
def test_bytes_for_people(amount: int, said: str) -> None:
    assert in_bytes(amount) == said


@pytest.mark.parametrize(
    ("ms", "said"), [(0, "0.0 s"), (450, "0.5 s"), (75_000, "75 s"), (180_000, "3 min"), (3 * 86_400_000, "3 d")]
)
def test_times_for_people(ms: int, said: str) -> None:
    assert in_seconds(ms) == said
