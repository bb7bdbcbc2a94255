"""What the source has more than a mirror, from what it answered."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.errors import Unreachable
from tanist.domain.growth import Grown, Growth, growth, new_topics
from tanist.domain.lineage import TopicLineage
from tanist.domain.names import EpochMs, MirrorName, SourcePartition
from tanist.domain.records import TopicDesired
from tanist.domain.state_view import StateView
from tanist.domain.states import DesiredState
from tests.unit.domain.test_pending_reversal import SPEC


def topic(name: str, partitions: int) -> TopicDesired:
    return TopicDesired(
        mirror=MirrorName("dr"),
        topic=name,
        desired=DesiredState.MIRRORING,
        source_topic_id=name,
        partitions=partitions,
        changed_at=EpochMs(0),
    )


def test_only_partitions_that_the_mirror_does_not_know_of_are_growth() -> None:
    """As many, or fewer, are none; what was not told is neither."""
    silent = Unreachable("nobody there")
    found = growth(
        [topic("grown", 2), topic("same", 3), topic("made anew", 4), topic("silent", 1)],
        {"grown": 4, "same": 3, "made anew": 1, "silent": silent},
    )
    assert found == Growth((Grown("grown", 2, 4),), {"silent": silent})
    assert found.partitions == (SourcePartition("grown", 2), SourcePartition("grown", 3))


def test_a_topic_that_a_reversal_has_left_behind_is_not_new() -> None:
    """`metadata sync` took it back at once."""
    entry = TopicLineage(
        mirror=SPEC.mirror,
        topic="left",
        promotion_epoch=1,
        old_cluster_id="w",
        new_cluster_id="e",
        old_ends=(0,),
        reserve_ends=(0,),
        at=EpochMs(0),
    )
    spec = replace(SPEC, include=(".*",))
    view = StateView({each.key: each for each in (spec, entry)})
    assert new_topics(spec, ["left", "fresh"], view) == ("fresh",)
