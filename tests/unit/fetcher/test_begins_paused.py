"""A mapped copy that is paused from the beginning has no position before it is resumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.records import MirrorSpec, OffsetMode, TopicDesired
from tanist.domain.state_record import state_partition_of
from tanist.domain.state_view import NOTHING_YET, fold
from tanist.domain.states import TAKEN_IN_PAUSED_ROW, DesiredState, MirrorState
from tanist.fetcher.planning import assigned, owned
from tests.builders import AT, DR, a_mirror, a_partition, a_topic

MAPPED = a_mirror(offsets=OffsetMode.MAPPED, transactional_id="tanist-dr")
PAUSED = a_topic(source_topic_id="", desired=DesiredState.PAUSED, source_starts=(7,))
TAKEN_IN = a_partition(state=MirrorState.PREPARING, row=TAKEN_IN_PAUSED_ROW)


@pytest.mark.parametrize(
    ("spec", "topic", "draining"),
    [
        (MAPPED, PAUSED, True),
        (MAPPED, replace(PAUSED, desired=DesiredState.MIRRORING), False),  # or it would wait for ever
        (a_mirror(), PAUSED, False),  # both logs are compared first
    ],
)
def test_only_a_mapped_one_that_is_to_be_paused_is_not_recovered(
    spec: MirrorSpec,
    topic: TopicDesired,
    draining: bool,
) -> None:
    view = fold(NOTHING_YET, [spec, topic, TAKEN_IN])
    number = state_partition_of(DR, AT, 50)
    [found] = assigned(owned(view, frozenset({number}), 50), view, {number: 1}, {}, ()).values()
    assert (found.draining, found.source_start) == (draining, 7)
