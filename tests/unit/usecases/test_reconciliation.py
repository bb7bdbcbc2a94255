"""Which topics are reconciled, and the positions that are asked for: over clusters in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain import errors
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.copier import Copier
from tanist.domain.problems import Problems
from tanist.domain.reconciliation.job import PositionRequest, TopicPair
from tanist.domain.records import STATE_TOPIC, PromotionEpoch
from tanist.domain.selection import Selection
from tanist.usecases.mirror import spec_at
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.mirrors.follow import FollowRequest, follow
from tanist.usecases.reconciliation.pair import Paired, of_mirror, of_topics, positions
from tests.builders import DR, a_command, a_lineage
from tests.fakes.cluster import MemoryCluster
from tests.fakes.failover import GuardedCluster
from tests.unit.usecases.readings import clusters


def mirrored() -> tuple[MemoryCluster, MemoryCluster]:
    east = MemoryCluster("east").with_topic("orders", 2, 10).with_topic("bills")
    west = MemoryCluster("west")
    create(CreateRequest(mirror="dr", include=("orders", "bills")), east.side(), west.side(), a_command())
    return east, west


def reconciled(east: MemoryCluster, west: MemoryCluster, *include: str) -> Paired:
    announced: list[str] = []
    mirror = clusters(spec_at(west.side(), DR, a_command()), east, west)
    paired = of_mirror(mirror, Selection(include), replace(a_command(), announce=announced.extend))
    assert announced == [pair.source for pair in paired.pairs]
    return paired


def test_the_topics_of_a_mirror_are_paired_with_their_copies() -> None:
    """All of them, or those that are asked for."""
    east, west = mirrored()
    assert set(reconciled(east, west).pairs) == {TopicPair("orders", "orders", 2), TopicPair("bills", "bills", 1)}
    assert reconciled(east, west, "ord.*") == Paired(
        "east", (TopicPair("orders", "orders", 2),), spec_at(west.side(), DR, a_command())
    )
    with pytest.raises(errors.TopicNotInMirror):
        reconciled(east, west, "nosuch")


def test_a_mirror_is_paired_as_far_as_its_source_goes() -> None:
    """The job tells of the partition that has no copy; where the source does not say how many it has, nothing is."""
    east, west = mirrored()
    east.side().topics.grow("orders", 3, a_command().by)
    assert reconciled(east, west, "orders").pairs == (TopicPair("orders", "orders", 3),)
    east.denied.add(("DESCRIBE", "orders"))
    (pair,) = reconciled(east, west, "orders").pairs
    assert "the source does not report its number of partitions: MIRROR_AUTHORIZATION" in pair.trouble


def test_a_source_that_is_dead_or_another_cluster_is_told_before_anything_is_read() -> None:
    """Records of a stranger's log would pair with nothing, or with the wrong ones."""
    east, west = mirrored()
    stranger = MemoryCluster("east", id="another").with_topic("orders", 2)
    with pytest.raises(errors.AnotherCluster):
        reconciled(stranger, west)
    east.dead = True
    with pytest.raises(errors.Unreachable):
        reconciled(east, west)


def test_the_lineage_of_a_failed_over_topic_says_what_only_one_cluster_can_have() -> None:
    """A reserve of the source, and what the destination has written since; nothing of topics that are mirrored."""
    east, west = mirrored()
    lineage = a_lineage(10, 12, old_cluster_id="id-east", new_cluster_id="id-west", reserve_ends=(15, 12))
    west.write(STATE_TOPIC, lineage, PromotionEpoch(mirror=DR, topic="orders", count=1))
    (pair,) = reconciled(east, west, "orders").pairs
    assert [(each.partition, each.at_source, each.start, each.until) for each in pair.exclusive] == [
        (0, True, 10, 15),
        (0, False, 15, None),
        (1, False, 12, None),
    ]
    assert reconciled(east, west, "bills").pairs == (TopicPair("bills", "bills", 1),)


def test_two_topics_are_paired_as_far_as_the_larger_one_goes() -> None:
    """A partition that one of them has not is told by the job; a topic that is not there is told at once, both are."""
    east, west = MemoryCluster("east").with_topic("orders", 3), MemoryCluster("west").with_topic("east.orders", 2)
    pair = TopicPair("orders", "east.orders", 3)
    assert of_topics(east.side(), west.side(), ("orders", "east.orders"), a_command()) == Paired("east", (pair,))
    with pytest.raises(UnknownTopicOrPartition):
        of_topics(east.side(), west.side(), ("orders", "orders"), a_command())
    with pytest.raises(Problems) as both:
        of_topics(east.side(), west.side(), ("bills", "east.bills"), a_command())
    assert len(both.value.problems) == 2


def test_positions_are_read_from_json() -> None:
    """With a group or without."""
    text = '[{"topic": "t", "partition": 1, "offset": 7, "group": "g"}, {"topic": "t", "partition": 0, "offset": 0}]'
    assert positions(text, "f") == (PositionRequest("t", 1, 7, "g"), PositionRequest("t", 0, 0))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '["t"]',
        '[{"topic": "t", "partition": 0}]',
        '[{"topic": "t", "partition": 0, "offset": "7"}]',
        '[{"topic": "t", "partition": 0, "offset": true}]',
        '[{"topic": "t", "partition": 0, "offset": 1e30}]',
        f'[{{"topic": "t", "partition": 0, "offset": {2**63}}}]',
        '[{"topic": "t", "partition": 0, "offset": 7, "group": 3}]',
    ],
)
def test_positions_that_are_none_are_bad_input(text: str) -> None:
    """Named by file and item."""
    with pytest.raises(errors.Misconfigured, match="f"):
        positions(text, "f")


def test_topics_that_somebody_else_copies_are_paired_by_their_names() -> None:
    """A copy that is not there is told by the job; so is a partition that one of both has not."""
    east = GuardedCluster("east").with_topic("orders", 3, 10).with_topic("bills").with_topic("east.internal")
    west = GuardedCluster("west").with_topic("mirror-orders", 2, 10)
    asked = FollowRequest(mirror="dr", copied_by=Copier.OTHER, rename=("mirror-{topic}",))
    follow(asked, east.side(), west.side(), a_command())
    mirror = clusters(spec_at(west.side(), DR, a_command(), any_copier=True), east, west)
    every = of_mirror(mirror, Selection(()), a_command())
    lacking = "the destination has no topic mirror-bills"
    assert every.pairs == (
        TopicPair("bills", "mirror-bills", 1, lacking),
        TopicPair("orders", "mirror-orders", 3),
    )
    assert of_mirror(mirror, Selection(("orders",)), a_command()).pairs == every.pairs[1:]
    with pytest.raises(errors.TopicNotInMirror):
        of_mirror(mirror, Selection(("mirror-orders",)), a_command())
    east.dead = True
    with pytest.raises(errors.SourceSilent):
        of_mirror(mirror, Selection(()), a_command())
