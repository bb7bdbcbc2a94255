"""The record that keeps a barrier from the cleaner is the last one, word for word, whatever lies behind it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At

from tanist.domain.names import MirrorPartition
from tanist.domain.writer_identity import ProducerIds
from tanist.kafka.adapters.durable_fences import Keeping
from tanist.kafka.adapters.producer_fencing import KafkaProducerFencing
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire import requests
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import Markers
from tanist.kafka.wire.router import Router
from tanist.ports.fencing import Kept
from tanist.ports.topics import NewTopic
from tests.conftest import librdkafka
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist_testkit.sandbox.cluster import SandboxCluster

SOON = SystemClock().deadline
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS: Any = [("h", b"1"), ("h", None), ("other", b"")]


class Lab:
    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self.router = Router(cluster.endpoint(), "tanist-test")
        self.producer_fencing = KafkaProducerFencing(self.router)
        ids = [requests.init_producer_id(self.router, SOON(20)) for _ in range(3)]
        self.writers = ProducerIds(*ids)

    def topic(self, name: str, partitions: int = 1, **configs: str) -> tuple[MirrorPartition, ...]:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        with over(KafkaTopics, self.cluster.endpoint()) as topics:
            new = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=given)
            assert topics.create([new], SOON(20)) == {name: None}
        return tuple(MirrorPartition(name, n) for n in range(partitions))

    def write(self, at: MirrorPartition, *records: tuple[bytes | None, bytes | None], codec: str = "none") -> None:
        producer = Producer(librdkafka(self.cluster.endpoint(), compression_type=codec))
        for key, value in records:
            producer.produce(at.topic, value, key=key, partition=at.partition, headers=HEADERS)
        assert producer.flush(10) == 0

    def kept(self, at: MirrorPartition) -> Kept:
        self.producer_fencing.fence_producers({at: self.writers}, SOON(10))
        found = self.producer_fencing.keep({at: self.writers}, SOON(20))[at]
        assert isinstance(found, Kept), found
        return found

    def read(self, at: MirrorPartition) -> list[Any]:
        """(key, value, headers) of everything in it."""
        options = librdkafka(self.cluster.endpoint(), group_id="look", enable_partition_eof="true")
        with closing(Consumer(options)) as consumer:
            consumer.assign([At(at.topic, at.partition, 0)])
            found: list[Any] = []
            while (message := consumer.poll(10)) is not None and message.error() is None:
                found.append((message.key(), message.value(), message.headers()))
            return found


@pytest.fixture(scope="module")
def lab(clusters: Mapping[str, SandboxCluster]) -> Iterator[Lab]:
    lab = Lab(clusters["west"])
    yield lab
    lab.router.close()


@pytest.mark.parametrize("codec", CODECS)
def test_the_last_record_of_a_batch_is_repeated_word_for_word(lab: Lab, topic_name: str, codec: str) -> None:
    (at,) = lab.topic(topic_name, cleanup_policy="compact")
    lab.write(at, (b"a", b"1" * 500), (b"b", b"2" * 500), codec=codec)
    assert lab.kept(at) is Kept.KEPT
    assert lab.read(at) == [(b"a", b"1" * 500, HEADERS), *[(b"b", b"2" * 500, HEADERS)] * 2]


def test_a_deleted_key_stays_deleted(lab: Lab, topic_name: str) -> None:
    (at,) = lab.topic(topic_name, cleanup_policy="compact")
    lab.write(at, (b"a", b"1"), (b"a", None))
    assert lab.kept(at) is Kept.KEPT
    assert lab.read(at)[-1] == (b"a", None, HEADERS)


def test_the_last_record_is_found_far_in_front_of_the_end(lab: Lab, topic_name: str) -> None:
    """Thousands of markers follow, and records without a key, which a compacted topic would refuse."""
    (at,) = lab.topic(topic_name)
    lab.write(at, (b"a", b"1"), (None, b"2"))
    markers = {at: Markers(lab.writers.marker, 0, range(5_000))}
    assert requests.write_markers(lab.router, markers, SOON(20)) == {at: None}
    assert lab.kept(at) is Kept.KEPT
    assert lab.read(at)[-1] == (b"a", b"1", HEADERS)


def test_without_any_key_there_is_nothing_to_repeat(lab: Lab, topic_name: str) -> None:
    (at,) = lab.topic(topic_name)
    lab.write(at, (None, b"1"))
    assert lab.kept(at) is Kept.EMPTY
    assert len(lab.read(at)) == 1


def test_what_somebody_wrote_to_that_key_meanwhile_is_the_last_word(
    lab: Lab, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading the last record and repeating it: it is seen by where the copy landed, and mended."""
    (at,) = lab.topic(topic_name, cleanup_policy="compact")
    lab.write(at, (b"a", b"1"), (b"b", b"1"))
    lab.producer_fencing.fence_producers({at: lab.writers}, SOON(10))
    real, busy = Keeping._last, [True]

    def meanwhile(self: Keeping, *asked: object) -> object:
        found = real(self, *asked)  # type: ignore[arg-type]
        if busy.pop():
            lab.write(at, (b"b", b"2"), (b"a", b"2"))
        return found

    monkeypatch.setattr(Keeping, "_last", meanwhile)
    assert lab.producer_fencing.keep({at: lab.writers}, SOON(20)) == {at: Kept.KEPT}
    assert [(key, value) for key, value, _ in lab.read(at)][-4:] == [
        (b"b", b"2"),
        (b"a", b"2"),
        (b"b", b"1"),
        (b"b", b"2"),
    ]
