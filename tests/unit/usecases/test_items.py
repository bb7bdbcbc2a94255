"""JSON keeps every name that it was released with, and says the better one beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tanist.domain.lag import PartitionRow
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.offset_map import OffsetMap
from tanist.domain.states import DesiredState, MirrorState
from tanist.usecases.items import row_item
from tests.builders import a_partition

AT: Final = MirrorPartition("orders", 3)
ROW: Final = PartitionRow(
    mirror=MirrorName("dr"),
    partition=AT,
    desired=DesiredState.MIRRORING,
    state=MirrorState.MIRRORING,
    source=None,
    destination_end=None,
    map=OffsetMap(),
    observed=a_partition(partition=AT, last_mirrored_epoch=7, at=EpochMs(1)),
)
# fmt: off
RELEASED: Final = frozenset({
    "mirror", "topic", "partition", "source_end_offset", "source_observed_ms", "destination_end_offset", "lag",
    "lag_ms", "state", "lme", "mode", "reason",
})
# fmt: on
"""Of `tanist mirrors describe`: scripts read them."""


def test_a_described_partition_has_every_released_name() -> None:
    assert row_item(ROW).keys() >= RELEASED


@pytest.mark.parametrize(("epoch", "said"), [(7, 7), (0, 0), (-1, None)])
def test_the_last_mirrored_epoch_has_its_whole_name_beside_the_short_one(epoch: int, said: int | None) -> None:
    assert ROW.observed is not None
    item = row_item(replace(ROW, observed=replace(ROW.observed, last_mirrored_epoch=epoch)))
    assert (item["last_mirrored_epoch"], item["lme"]) == (said, said)
