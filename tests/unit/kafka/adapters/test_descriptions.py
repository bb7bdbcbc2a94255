"""What is made of the answers that describe a topic."""

from __future__ import annotations

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.names import BrokerId
from tanist.kafka.adapters.topics import _facts
from tanist.kafka.wire.admin import ConfigValue
from tanist.kafka.wire.router import PartitionInfo, TopicInfo
from tanist.ports.topics import TopicFacts

ONE, TWO = BrokerId(1), BrokerId(2)
LED = PartitionInfo(0, ONE, 0, (ONE, TWO), (ONE, TWO), ())
LEADERLESS = PartitionInfo(1, None, 0, (ONE, TWO), (TWO,), (ONE, TWO))
"""Its last leader is the only replica that may become it again."""


def test_a_partition_without_a_leader_has_no_replica_in_sync() -> None:
    """What is listed then waits for its broker, and acknowledges nothing."""
    info = TopicInfo("a", None, internal=False, partitions=(LED, LEADERLESS), error=None)
    found = _facts(info, {"min.insync.replicas": ConfigValue("2", 5, read_only=False)})
    assert isinstance(found, TopicFacts)
    assert (found.leaders, found.in_sync) == ((ONE, None), (2, 0))
    assert (found.configs, found.effective) == ({}, {"min.insync.replicas": "2"})


def test_without_its_configs_a_topic_is_not_described() -> None:
    info = TopicInfo("a", None, internal=False, partitions=(LED,), error=None)
    assert type(_facts(info, None)) is UnknownTopicOrPartition
