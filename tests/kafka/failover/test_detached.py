"""A topic leaves its mirror while a producer writes to it, and comes back: the producer notices nothing of either."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tests.kafka.failover.both_ways import delete
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kafka.failover.conftest import KafkaSide, Pair


@contextmanager
def written(side: KafkaSide, topic: str) -> Iterator[list[object]]:
    """A producer writes to both partitions meanwhile; what it was answered, None for a record that was taken."""
    answers: list[object] = []
    over = threading.Event()

    def write() -> None:
        producer = Producer(side.client(acks="all", linger_ms="5"))
        while not over.wait(0.01):
            for partition in range(2):
                producer.produce(
                    topic, b"%d" % len(answers), partition=partition, on_delivery=lambda error, _: answers.append(error)
                )
            producer.poll(0)
        assert producer.flush(30) == 0

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join(60)


def copied(pair: Pair, mirror: str) -> None:
    pair.tanist("mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "60s")


def test_a_topic_is_detached_under_a_producer_and_goes_on_where_it_stopped(pair: Pair) -> None:
    """No record is refused at the source, the copy stands still meanwhile, and each record is at its offset then."""
    pair.worker()
    pair.east.topic("apart")
    pair.east.topic("stays")
    pair.tanist("mirrors", "create", "apart", "--source", "east", "--topic", "apart|stays")
    with written(pair.east, "apart") as answers:
        until(lambda: len(pair.west.read("apart")) > 20, 30)
        pair.tanist("mirrors", "remove", "apart", "--topic", "apart", "--keep-copy")
        gone = json.loads(pair.tanist("mirrors", "list", "--json").out)["items"]
        assert [each["detached"] for each in gone if each["mirror"] == "apart"] == [["apart"]]
        before = len(answers)
        until(lambda: len(answers) > before + 600, 30)
        stopped = pair.west.read("apart")
        pair.tanist("metadata", "sync", "apart", "--yes")
        until(lambda: len(answers) > before + 900, 30)
        assert pair.west.read("apart") == stopped, "a worker has let it go"
        checks = pair.tanist("status", "apart", "--json", expected=None).item["checks"]
        assert [each["verdict"] for each in checks if each["name"] == "detached"] == ["FAIL"]
        assert not pair.west.writes("apart", range(1)), "the copy stays closed"
        added = pair.tanist("mirrors", "add", "apart", "--topic", "apart")
        assert "apart goes on where it stopped" in added.err
    assert set(answers) == {None}
    copied(pair, "apart")
    assert pair.west.read("apart") == pair.east.read("apart")


def test_a_topic_is_copied_again_from_its_start_without_a_failover(pair: Pair) -> None:
    """Three commands, one of them Kafka's own, and no producer is stopped."""
    pair.worker()
    pair.east.topic("again")
    pair.tanist("mirrors", "create", "again", "--source", "east", "--topic", "again")
    assert pair.east.writes("again", range(40))
    copied(pair, "again")
    pair.tanist("mirrors", "remove", "again", "--topic", "again", "--keep-copy")
    delete(pair.west, "again")
    pair.tanist("mirrors", "add", "again", "--topic", "again")
    assert pair.east.writes("again", range(40, 60))
    copied(pair, "again")
    assert pair.west.read("again") == pair.east.read("again")
