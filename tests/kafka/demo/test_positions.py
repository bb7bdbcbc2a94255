"""The group of the demo, at logs that busy machines leave behind: short ones, whose end no reader is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.verify import clients
from tanist_testkit.verify.groups import carry
from tanist_testkit.verify.reading import bounds
from tanist_testkit.verify.traces import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist_testkit.sandbox.cluster import SandboxCluster

CLOCK = SystemClock()


def write(bootstrap: str, topic: str, *, transactional_id: str) -> None:
    """Partition 0: one record committed, then five aborted. Partition 1: six committed. Partition 2: none."""
    clients.create_topics(bootstrap, [NewTopic(topic, 3, 1)], CLOCK.deadline(20), CLOCK)
    producer = Producer(clients.settings(bootstrap, transactional_id=transactional_id))
    producer.init_transactions(20)
    producer.begin_transaction()
    for partition, count in ((0, 1), (1, 6)):
        for number in range(count):
            producer.produce(topic, value=b"%d" % number, partition=partition, timestamp=1)
    producer.commit_transaction(20)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, value=b"aborted", partition=0)
    assert producer.flush(20) == 0
    producer.abort_transaction(20)


def test_a_group_reads_half_of_a_log_whose_second_half_was_aborted(
    clusters: Mapping[str, SandboxCluster], topic_name: str
) -> None:
    """It waited for a record there until its time was over: the demo failed on a busy machine."""
    east, west = (clusters[name].bootstrap_servers for name in ("east", "west"))
    for bootstrap in (east, west):
        write(bootstrap, topic_name, transactional_id=topic_name)
    by = CLOCK.deadline(15)
    logs = bounds(east, [Place(topic_name, number) for number in range(3)], by, CLOCK)
    carried = carry(topic_name, east, west, logs, by, CLOCK)
    assert carried.committed == {Place(topic_name, 0): 1, Place(topic_name, 1): 3}
    assert carried.source_next[Place(topic_name, 1)].offset == 3
    assert carried.source_next.keys() == {Place(topic_name, 1)}
    assert carried.agreeing == 1
