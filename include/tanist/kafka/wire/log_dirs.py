"""What logs occupy on the disks of their brokers (KIP-113)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.names import TopicPartition
from tanist.kafka.wire.leaders import by_topic
from tanist.kafka.wire.messages import DescribeLogDirsRequest
from tanist.kafka.wire.router import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


def log_sizes(router: Router, partitions: Sequence[TopicPartition], by: Deadline) -> dict[TopicPartition, int]:
    """The largest replica of each partition, in bytes. A broker that does not answer, or refuses, is left out."""
    router.refresh(sorted({at.topic for at in partitions}), by)
    found: dict[TopicPartition, int] = {}
    kind = DescribeLogDirsRequest.DescribableLogDirTopic
    topics = [kind(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions)]
    brokers = sorted(router.brokers)
    for index, broker in enumerate(brokers):
        try:
            connection = router.connection(broker, share(by, len(brokers) - index))
            version = connection.version(DescribeLogDirsRequest, 1, 4)
            request = DescribeLogDirsRequest(topics=topics, version=version)
            answer = connection.call(request, share(by, len(brokers) - index))
        except TanistError:
            continue
        for folder in answer.results:
            for topic in folder.topics:
                for each in topic.partitions:
                    at = TopicPartition(topic.name, each.partition_index)
                    found[at] = max(found.get(at, 0), each.partition_size)
    return found
