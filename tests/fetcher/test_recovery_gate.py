"""Before a recovery a worker reads whether its topics have left the mirror, and touches neither log of those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.anchoring import Writers
from tanist.domain.errors import PartitionBroken, Sealed, SourceReplaced, StateLogLost, Unreachable
from tanist.domain.names import EpochMs, MirrorName, ProducerId, TopicPartition
from tanist.domain.records import MirrorSpec
from tanist.fetcher import recovery
from tanist.fetcher.assignment import Assigned
from tanist.fetcher.copy import PartitionCopy, Phase
from tanist.fetcher.recovery import Recovery
from tests.fakes.clock import JumpingClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.ports.clock import Deadline

SPEC = MirrorSpec(
    mirror=MirrorName("m"),
    source="east",
    destination="west",
    source_cluster_id="",
    destination_cluster_id="",
    data_id=ProducerId(1),
    filler_id=ProducerId(2),
    start_id=ProducerId(3),
    created_at=EpochMs(0),
)


def recovered(
    gate: Callable[[Deadline], Callable[[str], PartitionBroken | None]], monkeypatch: pytest.MonkeyPatch
) -> PartitionCopy:
    """A copy after a recovery in which no log can be read."""
    at = TopicPartition("orders", 0)
    monkeypatch.setattr(recovery, "ids_and_ends", lambda *_: {at: Unreachable("not even asked")})
    copy = PartitionCopy(Assigned(SPEC, at, 0, 1), filler_epoch=1)
    assert copy.writers == Writers(ProducerId(1), ProducerId(2), ProducerId(3))
    Recovery(cast("Any", (None, None)), cast("Any", None), JumpingClock(), gate).recover([copy])
    return copy


@pytest.mark.parametrize("why", [Sealed("promoted"), SourceReplaced("promoted elsewhere")], ids=lambda why: why.name)
def test_what_was_promoted_is_barred_for_good(why: PartitionBroken, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = recovered(lambda _by: lambda _topic: why, monkeypatch)
    assert copy.phase is Phase.BROKEN
    assert copy.error is why


def test_what_was_not_promoted_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = recovered(lambda _by: lambda _topic: None, monkeypatch)
    assert copy.phase is Phase.RECOVER


def test_a_state_topic_that_is_gone_stops_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_by: Deadline) -> Callable[[str], PartitionBroken | None]:
        raise StateLogLost("somebody deleted it")

    copy = recovered(gone, monkeypatch)
    assert copy.phase is Phase.RECOVER
    assert isinstance(copy.error, StateLogLost)
