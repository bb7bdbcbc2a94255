"""Topics as the controller creates and deletes them, and as brokers describe them, their configurations and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.domain.broker_errors import ClusterAuthorizationFailed, NotController, UnknownTopicOrPartition
from tanist.domain.errors import MalformedFrame, TanistError, Unreachable
from tanist.domain.names import TopicPartition, topic_id_of
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.admin import controller
from tanist.kafka.wire.leaders import by_topic
from tanist.kafka.wire.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
)
from tanist.kafka.wire.requests import left_ms
from tanist.kafka.wire.router import describe_topics, share

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.topics import NewTopic


_FIRST_BY_ID: Final = 6  # DeleteTopics


def create_topics(
    router: Router, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool
) -> dict[str, TanistError | None]:
    """Ask for `topics` in one request; None: created, though not every broker knows of it yet."""
    kind = CreateTopicsRequest.CreatableTopic
    wanted = [
        kind(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=-1 if topic.replication_factor is None else topic.replication_factor,
            assignments=[],
            configs=[kind.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
        )
        for topic in topics
    ]

    def ask(connection: Connection) -> dict[str, TanistError | None]:
        version = connection.version(CreateTopicsRequest, 4, 7)
        request = CreateTopicsRequest(
            topics=wanted, timeout_ms=left_ms(by), validate_only=validate_only, version=version
        )
        return {each.name: _refusal(each, "topic") for each in connection.call(request, by).topics}

    return _each(_of_controller(router, by, ask), [topic.name for topic in topics])


def create_partitions(router: Router, topic: str, count: int, by: Deadline) -> TanistError | None:
    """Ask for partitions until `topic` has `count`; None: they are created, though not every broker knows of them."""
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)

    def ask(connection: Connection) -> dict[str, TanistError | None]:
        version = connection.version(CreatePartitionsRequest, 0, 3)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=left_ms(by), validate_only=False, version=version)
        return {each.name: _refusal(each, "topic") for each in connection.call(request, by).results}

    return _each(_of_controller(router, by, ask), [topic])[topic]


def delete_topic(router: Router, topic: str, topic_id: str, by: Deadline) -> TanistError | None:
    """Ask for the deletion of the topic with this id, whatever its name is used for; None: it is deleted."""
    wanted = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id_of(topic_id))

    def ask(connection: Connection) -> dict[str, TanistError | None]:
        version = connection.version(DeleteTopicsRequest, _FIRST_BY_ID, _FIRST_BY_ID)
        request = DeleteTopicsRequest(topics=[wanted], timeout_ms=left_ms(by), version=version)
        (found,) = connection.call(request, by).responses
        return {topic: None if found.error_code == NONE else error_for(found.error_code, f"topic {topic!r}")}

    return _of_controller(router, by, ask)[topic]


def _of_controller(
    router: Router, by: Deadline, ask: Callable[[Connection], dict[str, TanistError | None]]
) -> dict[str, TanistError | None]:
    """With KRaft every broker forwards to the controller; with ZooKeeper one that is not the controller says so."""
    answers = ask(router.any_connection(by))
    if any(isinstance(answer, NotController) for answer in answers.values()):
        router.refresh([], by)
        answers |= ask(controller(router, by))
    return answers


def _each(answers: Mapping[str, TanistError | None], names: Iterable[str]) -> dict[str, TanistError | None]:
    silent = MalformedFrame("an answer without this topic")
    return {name: answers.get(name, silent) for name in names}


def _refusal(each: Any, what: str) -> Any:
    """The error of one item, with the broker's reason; None: there is none."""
    if each.error_code == NONE:
        return None
    return error_for(
        each.error_code, f"{what} {each.name!r}" + (f": {each.error_message}" if each.error_message else "")
    )


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
