"""The state topics of one command: one consumer for all of them, and a reader for all who use a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.names import EpochMs, MirrorName
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, WorkerAlive
from tanist.kafka.adapters.cluster import KafkaCluster
from tanist.kafka.wire.clock import SystemClock

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
    assert beat(topic_name).key in again.view(), "read anew from its beginning"


def test_a_cluster_of_which_nothing_was_asked_opens_and_closes_nothing(west: KafkaCluster) -> None:
    assert not west.router.brokers
    west.close()
