"""Operations that this login may do on topics, groups and the cluster, as brokers report them (KIP-430)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tanist.domain.acls import AclOperation
from tanist.domain.broker_errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import MalformedFrame, TanistError
from tanist.domain.names import TopicPartition
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.coordinators import ByGroup, ask_coordinators
from tanist.kafka.wire.leaders import Answers, ask_leaders
from tanist.kafka.wire.messages import DescribeGroupsRequest, MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_NO_TOPIC_ID: Final = UUID(int=0)
_LAST_WITH_CLUSTER_OPERATIONS: Final = 10  # Metadata; later ones leave that to DescribeCluster


def topic_operations(router: Router, topics: Sequence[str], by: Deadline) -> dict[str, frozenset[str] | TanistError]:
    """Names of the operations that this login may do on each topic, as one broker tells them."""
    if not topics:
        return {}
    answer = _metadata(router.any_connection(by), topics, by)
    return {topic.name: _operations(topic, f"topic {topic.name!r}") for topic in answer.topics}


def group_operations(router: Router, groups: Sequence[str], by: Deadline) -> ByGroup[frozenset[str]]:
    """Names of the operations that this login may do on each group, whether it exists or not."""
    return ask_coordinators(router, groups, by, _ask_groups) if groups else {}


def _ask_groups(connection: Connection, groups: Sequence[str], by: Deadline) -> ByGroup[frozenset[str]]:
    """DescribeGroups up to version 5 describes a group that does not exist, or of another type, as a dead one."""
    request = DescribeGroupsRequest(
        groups=list(groups),
        include_authorized_operations=True,
        version=connection.version(DescribeGroupsRequest, 3, 5),
    )
    answer = connection.call(request, by)
    return {each.group_id: _operations(each, f"group {each.group_id!r}") for each in answer.groups}


def cluster_operations(router: Router, by: Deadline) -> frozenset[str] | TanistError:
    """Names of the operations that this login may do on the cluster."""
    connection = router.any_connection(by)
    request = MetadataRequest(
        topics=[],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=False,
        version=connection.version(MetadataRequest, 8, _LAST_WITH_CLUSTER_OPERATIONS),
    )
    return _named(connection.call(request, by).authorized_operations, "the cluster")


def may_write(router: Router, topics: Sequence[str], by: Deadline) -> dict[str, bool | TanistError]:
    """Whether this login may WRITE to each topic, as reported by all leaders of its partitions.

    True if any leader grants it; False for a topic without DESCRIBE. Each broker learns ACLs by itself, within
    milliseconds: after a change, ask again.

    Raises:
        CouldNotTell: no broker answers.
    """
    if not topics:
        return {}
    router.refresh(topics, by)
    known = router.topics()
    partitions = [TopicPartition(name, part.partition) for name in topics for part in known[name].partitions]
    answers = ask_leaders(router, dict.fromkeys(partitions), by, _ask) if partitions else {}
    told: defaultdict[str, list[bool | TanistError]] = defaultdict(list)
    for at, answer in answers.items():
        told[at.topic].append(answer)
    return {name: _any(known[name].error, told[name]) for name in topics}


def _any(error: TanistError | None, answers: Sequence[bool | TanistError]) -> bool | TanistError:
    if isinstance(error, TopicAuthorizationFailed):
        return False
    if any(each is True for each in answers):
        return True
    refused = [each for each in answers if isinstance(each, TanistError)]
    if error is None and not answers:
        return UnknownTopicOrPartition("a topic without partitions")
    return error or (refused[0] if refused else False)


def _ask(
    connection: Connection, partitions: Mapping[TopicPartition, None], by: Deadline
) -> Answers[TopicPartition, bool]:
    answer = _metadata(connection, sorted({at.topic for at in partitions}), by)
    answers = {topic.name: _writes(topic) for topic in answer.topics}
    return {at: answers[at.topic] for at in partitions if at.topic in answers}


def _writes(topic: Any) -> bool | TanistError:
    found = _operations(topic, f"topic {topic.name!r}")
    if isinstance(found, TanistError):
        return False if isinstance(found, TopicAuthorizationFailed) else found
    return AclOperation.WRITE.name in found


def _metadata(connection: Connection, topics: Iterable[str], by: Deadline) -> Any:
    kind = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=[kind(topic_id=_NO_TOPIC_ID, name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
        version=connection.version(MetadataRequest, 8, 12),
    )
    return connection.call(request, by)


def _operations(each: Any, what: str) -> frozenset[str] | TanistError:
    if each.error_code != NONE:
        return error_for(each.error_code, what)
    return _named(each.authorized_operations, what)


def _named(codes: Iterable[int] | None, what: str) -> frozenset[str] | TanistError:
    """`codes` of AclOperation; None: they were not reported."""
    if codes is None:
        return MalformedFrame(f"{what}: the broker reports no authorized operations")
    known = {each.value: each.name for each in AclOperation}
    return frozenset(known[code] for code in codes if code in known)
