"""What every Positions does. There is the real one only: no unit test needs a fake of it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tanist.clusters.positions import KafkaPositions
from tanist.domain.broker_errors import UnknownMember, UnknownTopicOrPartition, UnstableOffsetCommit
from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.names import TopicPartition
from tanist.ports.positions import Committed, GroupFacts
from tests.contracts.reached import SOON, nowhere
from tests.fetcher.rig import Side, until
from tests.groups.readers import consumer, positions_in_transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.ports.positions import Positions
    from tanist.sandbox.cluster import Cluster

pytestmark = [pytest.mark.calm, pytest.mark.timeout(120)]


@pytest.fixture
def west(clusters: Mapping[str, Cluster]) -> Iterator[Side]:
    with closing(Side(clusters["west"])) as side:
        yield side


@pytest.fixture
def positions(west: Side) -> Iterator[Positions]:
    with closing(KafkaPositions(west.cluster.endpoint())) as real:
        yield real


@pytest.fixture
def group(topic_name: str) -> str:
    """Librdkafka takes no other characters into a transaction."""
    return f"group-of-{topic_name}"


def test_what_was_committed_is_told_as_it_was(positions: Positions, west: Side, topic_name: str, group: str) -> None:
    """With what its committer wrote beside it; of other partitions and of unknown groups there is nothing to tell."""
    first, _ = west.create(topic_name, 2)
    kept = {first: Committed(3, "ü")}
    assert positions.commit({group: kept}, SOON(20)) == {group: {first: None}}
    assert positions.committed([group, f"{group}-b"], SOON(10)) == {group: kept, f"{group}-b": {}}
    assert positions.groups(SOON(10))[group] == GroupFacts(group=group, kind="classic", state="Empty", members=0)


def test_a_partition_that_is_not_there_does_not_hide_the_others(
    positions: Positions, west: Side, topic_name: str, group: str
) -> None:
    (at,) = west.create(topic_name)
    missing = TopicPartition(f"{topic_name}-missing", 0)
    told = positions.commit({group: dict.fromkeys((missing, at), Committed(1, ""))}, SOON(20))[group]
    assert not isinstance(told, TanistError)
    assert told[at] is None
    assert isinstance(told[missing], UnknownTopicOrPartition)


def test_a_position_that_a_transaction_is_about_to_change_is_not_told(
    positions: Positions, west: Side, topic_name: str, group: str
) -> None:
    at, other = west.create(topic_name, 2)
    positions.commit({group: dict.fromkeys((at, other), Committed(1, ""))}, SOON(20))
    with positions_in_transaction(west, group, at, 2) as producer:
        held = positions.committed([group], SOON(10))[group]
        assert not isinstance(held, TanistError)
        assert isinstance(held[at], UnstableOffsetCommit)
        assert held[other] == Committed(1, "")
        producer.commit_transaction(10)
    until(lambda: positions.committed([group], SOON(10)) == {group: {at: Committed(2, ""), other: Committed(1, "")}}, 5)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_counted_and_keeps_its_positions_to_itself(
    positions: Positions, west: Side, topic_name: str, group: str, protocol: str
) -> None:
    (at,) = west.create(topic_name)
    west.produce(at, [b"x"])
    member = consumer(west.servers, group, protocol)
    with closing(member):
        member.subscribe([topic_name])
        until(lambda: member.poll(0.1) is not None, 20)
        facts = positions.groups(SOON(10))[group]
        assert (facts.kind, facts.state, facts.members) == (protocol, "Stable", 1)
        told = positions.commit({group: {at: Committed(1, "")}}, SOON(10))[group]
        assert not isinstance(told, TanistError)
        assert isinstance(told[at], UnknownMember)


def test_nothing_asked_is_nothing_answered(positions: Positions) -> None:
    assert positions.committed([], SOON(1)) == {}
    assert positions.commit({}, SOON(1)) == {}


def test_of_a_dead_cluster_nothing_is_told() -> None:
    with closing(KafkaPositions(nowhere())) as dead:
        for ask in (dead.groups, lambda by: dead.committed(["g"], by)):
            with pytest.raises(CouldNotTell):
                ask(SOON(0.5))
        told = dead.commit({"g": {TopicPartition("t", 0): Committed(1, "")}}, SOON(0.5))
        assert isinstance(told["g"], CouldNotTell)
