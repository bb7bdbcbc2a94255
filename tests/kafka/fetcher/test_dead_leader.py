"""A partition whose only broker died is silent, whatever the rest of its cluster answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.names import MirrorName, MirrorPartition, ProducerId, SourcePartition
from tanist.domain.records import MirrorSpec
from tanist.fetcher.sources import SourceLeaders, SourceTopic
from tanist.kafka.wire.clock import SystemClock
from tests.kafka.fetcher.rig import soon, until

if TYPE_CHECKING:
    from tanist.fetcher.source_ends import Contact
    from tests.kafka.fetcher.rig import RigCluster


def test_a_partition_whose_only_broker_died_is_asked_in_vain_and_the_others_are_not(
    trio: RigCluster, topic_name: str
) -> None:
    """The cluster answers: only of this partition nobody knows how far it had come."""
    clock, brokers = SystemClock(), [broker.id for broker in trio.cluster.brokers]
    gone, there = (MirrorPartition(f"{topic_name}-{n}", 0) for n in range(2))
    for at, broker in ((gone, brokers[-1]), (there, brokers[0])):
        trio.create(at.topic, brokers=[broker])
    leaders = SourceLeaders(trio.cluster.endpoint, "tanist-test", clock)
    spec = MirrorSpec(
        mirror=MirrorName("m"),
        source="trio",
        destination="west",
        source_cluster_id="",
        destination_cluster_id="",
        data_id=ProducerId(1),
        marker_id=ProducerId(2),
        start_id=ProducerId(3),
        created_at=clock.now(),
    )
    wanted = {at.topic: SourceTopic(1) for at in (gone, there)}

    def seen(at: MirrorPartition) -> Contact:
        leaders.look(spec, wanted, soon(), stale=True)
        return leaders.contact(SourcePartition(*at))

    began = clock.now()
    until(lambda: seen(gone).led_at and seen(gone).silent_since is None, 20)
    trio.cluster.kill(brokers[-1])
    until(lambda: seen(gone).silent_since, 40)
    silent = seen(gone)
    assert began <= (silent.led_at or 0) <= (silent.silent_since or 0)
    assert seen(there).silent_since is None
    until(lambda: (seen(there).led_at or 0) > (silent.silent_since or 0), 20)
    assert seen(gone) == silent
    trio.cluster.start_broker(brokers[-1])
    until(lambda: seen(gone).silent_since is None, 60)
    leaders.close()
