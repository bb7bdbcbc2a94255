"""How far a copy is behind."""

from __future__ import annotations

import pytest

from tanist.domain.errors import BrokerError, Diverged, ForeignWrite, SourceTruncated
from tanist.domain.lag import KnownEnd, PartitionRow
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.offset_map import OffsetMap
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
