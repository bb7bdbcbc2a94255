"""Logs of message formats 0 and 1, as Kafka 2.8 still writes them, are copied at their offsets, with their times."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from tanist.domain.names import MirrorPartition
from tanist_testkit.sandbox.spec import ClusterSpec
from tanist_testkit.waiting import until
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.fetcher.logs import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.fetcher.logs import Row

pytestmark = pytest.mark.long
CODECS: Final = {"0.9.0": ("none", "gzip", "snappy"), "0.10.2": ("none", "gzip", "snappy", "lz4")}
"""By the format of the topic. LZ4 of format 0 is refused."""
NEWER: Final = "2.8"
TIME: Final = 1_700_000_000_000


@pytest.fixture
def pair(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("formats")
    east = ClusterSpec(name="east", heap_mb=384, version="2.8.2")
    with running(guardian, client_config, home, source=east, authorizer=False) as pair:
        yield pair


def write(pair: Pair, topic: str, codec: str, first: int, count: int = 20) -> bool:
    """Records in batches of at most eight; brokers convert them to the topic's format. Whether they took all."""
    refused = list[object]()
    producer = Producer(pair.east.client(compression_type=codec, batch_num_messages="8", linger_ms="20"))
    for n in range(first, first + count):
        key, value = (None if n % 5 == 0 else b"k%d" % n), (None if n % 7 == 0 else b"%s %d" % (codec.encode(), n))
        producer.produce(
            topic,
            value,
            key,
            partition=0,
            timestamp=TIME + 1000 * n,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    return not refused


def set_format(pair: Pair, topic: str, version: str) -> None:
    entry = ConfigEntry("message.format.version", version, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(pair.east.client("admin"))
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(20)


def times(row: Row) -> int:
    """As a consumer of the copy gets it; librdkafka has 0 where format 0 has no time."""
    kind, time = row.time
    return -1 if kind == TIMESTAMP_NOT_AVAILABLE else time


def caught_up(pair: Pair) -> None:
    pair.tanist("mirrors", "wait", "old", "--for", "lag=0", "--timeout", "200s")


def test_logs_of_old_formats_are_copied_record_by_record(pair: Pair) -> None:
    """Of each format one topic, then records of format 2 behind them; a worker is killed in between.

    Brokers learn of a newer format a moment after it was set, and refuse zstd until then.
    """
    topics = {version: f"format-{version}" for version in CODECS}
    for version, topic in topics.items():
        pair.east.topic(topic, 1, message_format_version=version, retention_ms="-1")
        for number, codec in enumerate(CODECS[version]):
            assert write(pair, topic, codec, 20 * number)
    pair.worker()
    pair.tanist("mirrors", "create", "old", "--source", "east", "--topic", "|".join(topics.values()))
    caught_up(pair)
    pair.worker().send(signal.SIGKILL)
    for topic in topics.values():
        assert write(pair, topic, "gzip", 100)
        set_format(pair, topic, NEWER)
        begun = partial(write, pair, topic, "zstd", 120, 1)
        rest = partial(write, pair, topic, "zstd", 121)
        for ready in (begun, rest):  # a broker that has taken one may still refuse the next
            until(ready, pair.clock.deadline(60), pair.clock, lambda: "no zstd")
    pair.worker("w2")
    caught_up(pair)
    at = [MirrorPartition(topic, 0) for topic in topics.values()]
    source, copy = (read(each.cluster.bootstrap_servers, at, "read_committed") for each in (pair.east, pair.west))
    assert [len(source[each]) for each in at] == [20 * (len(codecs) + 2) + 1 for codecs in CODECS.values()]
    for each in at:
        assert [row[:3] for row in copy[each]] == [row[:3] for row in source[each]]
        assert [row.time[1] for row in copy[each]] == [times(row) for row in source[each]]
    for level in ("records", "batches"):
        found = pair.tanist("validate", "old", "--level", level, "--json").item
        assert found["verdict"] == "EQUAL", found["reason"]
