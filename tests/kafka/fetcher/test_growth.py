"""A source topic that gets more partitions."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka.cimpl import NewPartitions

from tanist.domain.names import MirrorPartition, SourcePartition
from tanist.fetcher.sources import LOOK_EVERY_SECONDS, SourceLeaders, SourceTopic
from tanist.kafka.wire.clock import SystemClock
from tests.kafka.fetcher.rig import soon, until

if TYPE_CHECKING:
    from tests.kafka.fetcher.rig import Rig


def test_who_leads_new_partitions_is_asked_at_once(rig: Rig, topic_name: str) -> None:
    """They were added because people wait for them; the next look would be in a quarter of a minute."""
    rig.source.create(topic_name)
    new = MirrorPartition(topic_name, 1)
    with closing(SourceLeaders(rig.source.cluster.endpoint, "test", SystemClock())) as leaders:
        leaders.look(rig.spec, {topic_name: SourceTopic(1)}, soon(), stale=False)
        assert leaders.thread_key(rig.spec, SourcePartition(*new)) is None
        rig.source.admin.create_partitions([NewPartitions(topic_name, 2)])[topic_name].result(20)

        def found() -> bool:
            leaders.look(rig.spec, {topic_name: SourceTopic(2)}, soon(), stale=False)
            return leaders.thread_key(rig.spec, SourcePartition(*new)) is not None

        until(found, LOOK_EVERY_SECONDS / 3)
