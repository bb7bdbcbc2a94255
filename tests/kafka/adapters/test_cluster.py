"""The state topics of one command: one consumer for all of them, and a reader for all who use a topic."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from tanist.domain.names import EpochMs, MirrorName
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC, WorkerAlive
from tanist.domain.state_record import Tombstone
from tanist.kafka.adapters import tail
from tanist.kafka.adapters.cluster import KafkaCluster
from tanist.kafka.protocol.stored import decode
from tanist.kafka.wire.clock import SystemClock
from tanist.wiring.registry import side_of
from tests.conftest import librdkafka
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist_testkit.sandbox.cluster import SandboxCluster

SOON = SystemClock().deadline


@pytest.fixture
def west(clusters: Mapping[str, SandboxCluster]) -> Iterator[KafkaCluster]:
    with KafkaCluster(clusters["west"].endpoint(), small_state=True) as cluster:
        yield cluster


def beat(name: str) -> WorkerAlive:
    return WorkerAlive(worker=name, version="1", host="h", started_at=EpochMs(1), at=EpochMs(2))


def test_whoever_reads_a_topic_that_is_being_read_shares_the_reader(west: KafkaCluster, topic_name: str) -> None:
    operator = west.open_store(STATE_TOPIC, MirrorName(topic_name), SOON(20), create=True)
    reader = west.open_store(STATE_TOPIC, None, SOON(20))
    other = west.open_store(OFFSETS_TOPIC, None, SOON(20), create=True)
    operator.append([beat(topic_name)], SOON(10))
    assert beat(topic_name).key in reader.catch_up(SOON(10))
    operator.close()
    assert reader.ended() is None, "one of two has closed it"
    assert beat(topic_name).key in reader.catch_up(SOON(10))
    reader.close()
    assert other.ended() is None
    again = west.open_store(STATE_TOPIC, None, SOON(20))
    assert beat(topic_name).key in again.view()


def test_a_command_that_looks_again_reads_only_what_has_come_since(
    west: KafkaCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reversal opened the state topic some sixty times, and read all of it each time."""
    decoded: list[bytes] = []

    def counting(key: bytes, value: bytes | None) -> Any:
        if threading.current_thread() is west._state.follower._thread:  # another cluster's reads as well
            decoded.append(key)
        return decode(key, value)

    west.open_store(STATE_TOPIC, None, SOON(20), create=True).close()
    side = side_of(west)
    before = side.state(STATE_TOPIC, SOON(20))
    monkeypatch.setattr(tail, "decode", counting)
    with closing(west.open_store(STATE_TOPIC, None, SOON(20), appends=True)) as store:
        store.append([beat(topic_name)], SOON(10))
    assert len(decoded) == 1
    for _ in range(3):
        assert {key for key in side.state(STATE_TOPIC, SOON(20)) if key not in before} == {beat(topic_name).key}
    del decoded[:]
    with (
        KafkaCluster(west.router.endpoint, small_state=True) as another,
        closing(another.open_store(STATE_TOPIC, None, SOON(20), appends=True)) as store,
    ):
        store.append([Tombstone(beat(topic_name).key)], SOON(10))
    assert beat(topic_name).key not in side.state(STATE_TOPIC, SOON(20))
    assert len(decoded) == 1


def test_what_was_kept_of_a_topic_is_not_taken_for_the_next_one_of_its_name(
    west: KafkaCluster, topic_name: str
) -> None:
    with closing(west.open_store(GROUPS_TOPIC, None, SOON(20), create=True, appends=True)) as store:
        store.append([beat(topic_name)], SOON(10))
    admin = AdminClient(librdkafka(west.router.endpoint))
    admin.delete_topics([GROUPS_TOPIC])[GROUPS_TOPIC].result(20)
    until(lambda: GROUPS_TOPIC not in admin.list_topics(timeout=10).topics, 20)
    with closing(west.open_store(GROUPS_TOPIC, None, SOON(20), create=True, appends=True)) as store:
        assert not list(store.view())
        store.append([beat("another")], SOON(10))
        assert list(store.view()) == [beat("another").key]


def test_a_cluster_of_which_nothing_was_asked_opens_and_closes_nothing(west: KafkaCluster) -> None:
    assert not west.router.brokers
    west.close()
