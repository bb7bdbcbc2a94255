"""Tails of which somebody decides what becomes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.selection import EVERY_TOPIC
from tanist.domain.states import DesiredState
from tanist.domain.tails import TailStage
from tanist.usecases.failback.deciding import undecided_tails
from tanist.usecases.failback.survey import MirrorReversed
from tests.unit.domain.test_findings import DR, LINEAGE, UNDECIDED, mirror, topic, view


def test_rescued_tails_are_decided_before_a_reversal_and_not_after_it() -> None:
    """The plan would have been made for the log of the cluster that has the tails, to which the mirror copies."""
    rescued = replace(UNDECIDED, stage=TailStage.RESCUED)
    before = view(mirror("e", "w"), topic(DesiredState.REMOVED), LINEAGE, rescued)
    assert undecided_tails(before, DR, EVERY_TOPIC) == (rescued,)
    after = view(mirror("w", "e"), topic(DesiredState.MIRRORING), LINEAGE, rescued)
    with pytest.raises(MirrorReversed, match="undecided") as refused:
        undecided_tails(after, DR, EVERY_TOPIC)
    assert "failback accept NAME --finding TAIL_UNDECIDED" in str(refused.value)
