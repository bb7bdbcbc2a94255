"""Which topics do not exist: what every broker says while their controller is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import ClusterAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import Unreachable
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.messages import DescribeQuorumRequest
from tanist.kafka.wire.router import describe_topics, share

if TYPE_CHECKING:
    from collections.abc import Collection

    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_METADATA_TOPIC: Final = "__cluster_metadata"


def missing_topics(router: Router, topics: Collection[str], by: Deadline) -> frozenset[str]:
    """The topics that, by every live broker of the cluster, do not exist. `router.refresh` must have been called.

    A broker alone may have missed what the controller decided, or have an old disk. With the controller away all of
    them may.

    Raises:
        TanistError: a broker or the controller does not answer, so nothing is known.
    """
    missing = frozenset(topics)
    brokers = sorted(router.brokers)
    for number, broker in enumerate(brokers):
        connection = router.connection(broker, share(by, len(brokers) - number))
        answers = describe_topics(connection, sorted(missing), by)
        missing = frozenset(name for name in missing if isinstance(answers[name].error, UnknownTopicOrPartition))
        if not missing:
            return missing
        if number == 0:
            _controller_must_answer(router, connection, by)
    return missing if brokers else frozenset()


def _controller_must_answer(router: Router, connection: Connection, by: Deadline) -> None:
    """Raises what prevents it. KRaft brokers forward this request; with ZooKeeper the controller is a broker."""
    kind = DescribeQuorumRequest
    if not connection.speaks(kind.API_KEY, 0):
        if router.controller not in router.brokers:
            raise Unreachable(f"cluster {router.endpoint.name!r} has no controller now")
        return
    partition = kind.TopicData.PartitionData(partition_index=0)
    request = kind(topics=[kind.TopicData(topic_name=_METADATA_TOPIC, partitions=[partition])], version=0)
    code = connection.call(request, by).error_code
    if code not in {NONE, ClusterAuthorizationFailed.code}:  # to be refused by the controller is an answer, too
        raise error_for(code, f"controller of cluster {router.endpoint.name!r}")
