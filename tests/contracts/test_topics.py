"""What every Topics does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import (
    InvalidPartitions,
    InvalidReplicationFactor,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import AuthorizationFailed, CouldNotTell
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.topics import NewTopic, TopicFacts
from tests.contracts.reached import SOON
from tests.fakes.cluster import MemoryCluster
from tests.fakes.topics import MemoryTopics
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.ports.topics import Topics
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.contracts.reached import Reached


@pytest.fixture(params=["memory", "kafka"])
def topics(request: pytest.FixtureRequest) -> Iterator[Topics]:
    if request.param == "memory":
        yield MemoryTopics(MemoryCluster())
        return
    clusters: Mapping[str, SandboxCluster] = request.getfixturevalue("clusters")
    with over(KafkaTopics, clusters["east"].endpoint()) as real:
        yield real


def new(name: str, partitions: int = 3, **configs: str) -> NewTopic:
    given = {key.replace("_", "."): value for key, value in configs.items()}
    return NewTopic(name=name, partitions=partitions, replication_factor=1, configs=given)


def facts(topics: Topics, name: str) -> TopicFacts:
    found = topics.describe([name], SOON(10))[name]
    assert isinstance(found, TopicFacts)
    return found


def test_a_created_topic_is_there_at_once(topics: Topics, topic_name: str) -> None:
    assert topics.create([new(topic_name, 20, retention_ms="60000")], SOON(20)) == {topic_name: None}
    found = facts(topics, topic_name)
    assert (found.partitions, found.replication_factor) == (20, 1)
    assert found.configs == {"retention.ms": "60000"}, "what the broker sets is not the topic's own"
    assert found.effective["retention.ms"] == "60000"
    assert found.effective["cleanup.policy"] == "delete", "nor what nobody has set, but it applies"
    assert found.topic_id
    assert topic_name in topics.names(SOON(10))


def test_a_failed_topic_does_not_hide_the_others(topics: Topics, topic_name: str) -> None:
    topics.create([new(topic_name)], SOON(20))
    many = NewTopic(name=f"{topic_name}-many", partitions=1, replication_factor=9)
    answers = topics.create([new(topic_name), many, new(f"{topic_name}-b")], SOON(20))
    assert isinstance(answers[topic_name], TopicAlreadyExists)
    assert isinstance(answers[many.name], InvalidReplicationFactor)
    assert answers[f"{topic_name}-b"] is None
    described = topics.describe([topic_name, "no-such-topic"], SOON(10))
    assert isinstance(described[topic_name], TopicFacts)
    assert isinstance(described["no-such-topic"], UnknownTopicOrPartition)


def test_a_dry_run_creates_nothing(topics: Topics, topic_name: str) -> None:
    assert topics.create([new(topic_name)], SOON(20), validate_only=True) == {topic_name: None}
    assert topic_name not in topics.names(SOON(10))


def test_a_topic_only_grows(topics: Topics, topic_name: str) -> None:
    topics.create([new(topic_name, 2)], SOON(20))
    assert topics.grow(topic_name, 4, SOON(20)) is None
    assert facts(topics, topic_name).partitions == 4
    assert isinstance(topics.grow(topic_name, 3, SOON(20)), InvalidPartitions)
    assert isinstance(topics.grow("no-such-topic", 3, SOON(20)), UnknownTopicOrPartition)
    assert facts(topics, topic_name).partitions == 4


def test_partitions_are_counted_and_what_is_not_there_is_no_none(topics: Topics, topic_name: str) -> None:
    topics.create([new(topic_name, 2)], SOON(20))
    assert topics.grow(topic_name, 4, SOON(20)) is None
    found = topics.partitions([topic_name, "no-such-topic"], SOON(10))
    assert found[topic_name] == 4
    assert isinstance(found["no-such-topic"], UnknownTopicOrPartition)
    assert topics.partitions([], SOON(10)) == {}


def test_of_the_configs_only_those_that_are_named_are_told(topics: Topics, topic_name: str) -> None:
    topics.create([new(topic_name, retention_ms="60000", segment_ms="90000")], SOON(20))
    found = topics.describe([topic_name, "no-such-topic"], SOON(10), {"retention.ms", "cleanup.policy", "no.such"})
    facts = found[topic_name]
    assert isinstance(facts, TopicFacts)
    assert facts.configs == {"retention.ms": "60000"}
    assert facts.effective == {"retention.ms": "60000", "cleanup.policy": "delete"}
    assert isinstance(found["no-such-topic"], UnknownTopicOrPartition)


def test_altering_one_config_leaves_the_others(topics: Topics, topic_name: str) -> None:
    topics.create([new(topic_name, retention_ms="60000", segment_ms="90000")], SOON(20))
    changes: dict[str, str | None] = {"retention.ms": None, "cleanup.policy": "compact"}
    assert topics.alter_configs({topic_name: changes}, SOON(10)) == {topic_name: None}
    wanted: dict[str, str | None] = {"segment.ms": "90000", "cleanup.policy": "compact"}
    wait_for(topics, topic_name, wanted)


def test_a_topic_that_cannot_be_altered_holds_up_no_other(topics: Topics, topic_name: str) -> None:
    topics.create([new(topic_name, retention_ms="60000")], SOON(20))
    wanted: dict[str, str | None] = {"retention.ms": "90000"}
    found = dict(topics.alter_configs({"no-such-topic": wanted, topic_name: wanted, "nothing": {}}, SOON(10)))
    assert isinstance(found.pop("no-such-topic"), UnknownTopicOrPartition)
    assert found == {topic_name: None, "nothing": None}
    wait_for(topics, topic_name, wanted)


def test_internal_topics_are_nobodys_business(topics: Topics, topic_name: str) -> None:
    topics.create([new(f"__{topic_name}")], SOON(20))
    assert not [name for name in topics.names(SOON(10)) if name.startswith("__")]
    assert facts(topics, f"__{topic_name}").partitions == 3


def test_nothing_asked_is_nothing_answered(topics: Topics) -> None:
    assert topics.describe([], SOON(1)) == {}
    assert topics.create([], SOON(1)) == {}


def wait_for(topics: Topics, name: str, configs: Mapping[str, str | None]) -> None:
    """The controller answers before brokers know."""
    clock = SystemClock()
    deadline = clock.deadline(5)
    while facts(topics, name).configs != configs:
        assert deadline.left(clock.monotonic()), facts(topics, name).configs
        clock.wait(0.02)


def test_a_right_that_is_lacking_is_named_and_hides_no_other_topic(reached: Reached, topic_name: str) -> None:
    topics = reached.topics
    operations = ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "ALTER_CONFIGS")
    unseen, unreported, fixed, kept = (f"{topic_name}-{operation}" for operation in operations)
    for name, operation in zip((unseen, unreported, fixed, kept), operations, strict=True):
        reached.topic(name)
        reached.world.deny(operation, "Topic", name)
    reached.topic(topic_name)
    described = topics.describe([unseen, unreported, topic_name], SOON(10))
    lacking(described[unseen], "DESCRIBE on topic")
    lacking(described[unreported], "DESCRIBE_CONFIGS on topic")
    assert isinstance(described[topic_name], TopicFacts)
    lacking(topics.grow(fixed, 5, SOON(10)), "ALTER on topic")
    lacking(topics.alter_configs({kept: {"retention.ms": "1"}}, SOON(10))[kept], "ALTER_CONFIGS on topic")
    assert topic_name in topics.names(SOON(10))
    assert unseen not in topics.names(SOON(10))


def test_a_topic_is_made_by_who_may_make_it_or_any(reached: Reached, topic_name: str) -> None:
    first, second = new(topic_name), new(f"{topic_name}-b")
    for each in (first, second):
        reached.world.deny("CREATE", "Topic", each.name)
    assert reached.topics.create([first], SOON(10)) == {first.name: None}
    reached.world.deny("CREATE", "Cluster", "kafka-cluster")
    lacking(reached.topics.create([second], SOON(10))[second.name], "CREATE on topic")


def lacking(answer: object, right: str) -> None:
    assert isinstance(answer, AuthorizationFailed)
    assert right in answer.reason


def test_of_a_dead_cluster_nothing_is_told(dead: Reached) -> None:
    for ask in (dead.topics.cluster_id, dead.topics.names, lambda by: dead.topics.describe(["t"], by)):
        with pytest.raises(CouldNotTell):
            ask(SOON(0.2))
    for change in (
        lambda by: dead.topics.create([new("t")], by),
        lambda by: dead.topics.grow("t", 2, by),
        lambda by: dead.topics.alter_configs({"t": {"retention.ms": "1"}}, by),
    ):
        with pytest.raises(CouldNotTell):
            change(SOON(0.2))


def test_fifteen_hundred_topics_at_once_are_no_policy_violation(topics: Topics, topic_name: str) -> None:
    """A controller refuses whatever becomes more than 10,000 records; nobody should have to know."""
    configs = {
        "retention_ms": "60000",
        "segment_ms": "90000",
        "max_message_bytes": "999999",
        "segment_bytes": "9999999",
    }
    many = [new(f"{topic_name}-{n}", 6, **configs) for n in range(1500)]
    assert topics.create(many, SOON(60), validate_only=True) == {each.name: None for each in many}
