"""What the source has more than a mirror, from what it answered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.errors import Unreachable
from tanist.domain.growth import Grown, Growth, growth, new_topics
from tanist.domain.names import EpochMs, SourcePartition
from tanist.domain.renaming import topic_names
from tests.builders import a_lineage, a_topic, a_view
from tests.unit.domain.test_pending_reversal import SPEC

if TYPE_CHECKING:
    from tanist.domain.records import TopicDesired


def topic(name: str, partitions: int) -> TopicDesired:
    return a_topic(name, source_topic_id=name, partitions=partitions)


def test_only_partitions_that_the_mirror_does_not_know_of_are_growth() -> None:
    """As many, or fewer, are none; what was not told is neither."""
    silent = Unreachable("nobody there")
    found = growth(
        [topic("grown", 2), topic("same", 3), topic("made anew", 4), topic("silent", 1)],
        {"grown": 4, "same": 3, "made anew": 1, "silent": silent},
    )
    assert found == Growth((Grown("grown", 2, 4, "grown"),), {"silent": silent})
    assert found.partitions == (SourcePartition("grown", 2), SourcePartition("grown", 3))


def test_topics_of_other_names_are_known_by_their_copies() -> None:
    names = topic_names(("dr.{topic}",), "east", "west")
    found = growth([topic("dr.grown", 1)], {"grown": 2}, names)
    assert found.partitions == (SourcePartition("grown", 1),)
    assert [each.topic for each in found.grown] == ["dr.grown"]
    spec = replace(SPEC, include=(".*",), rename=("dr.{topic}",))
    view = a_view(spec, topic("dr.grown", 1))
    assert new_topics(spec, ["grown", "dr.grown"], view) == ("dr.grown",)  # its copy would be dr.dr.grown


def test_a_topic_that_a_reversal_has_left_behind_is_not_new() -> None:
    """`metadata sync` took it back at once."""
    entry = a_lineage(0, mirror=SPEC.mirror, topic="left", old_cluster_id="w", new_cluster_id="e", at=EpochMs(0))
    spec = replace(SPEC, include=(".*",))
    view = a_view(spec, entry)
    assert new_topics(spec, ["left", "fresh"], view) == ("fresh",)
