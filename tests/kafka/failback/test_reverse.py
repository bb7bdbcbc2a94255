"""A mirror fails over, is reversed, and fails over back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At

from tests.kafka.failover.both_ways import LAG, begin, fail_over, records, reverse, tanist
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

MIRROR, TOPIC, GROUP = "dr", "to-and-fro", "billing"


def test_a_reversed_mirror_has_every_record_at_its_offset_and_groups_in_their_place(own: Pair) -> None:
    own.east.topic(TOPIC)
    assert own.east.writes(TOPIC, range(10))
    for at in ("west", "east"):
        begin(own, at)
    tanist(own, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", TOPIC)
    fail_over(own, MIRROR, "west")
    assert own.west.writes(TOPIC, range(100, 110))
    reverse(own, MIRROR, "west")
    tanist(own, "east", "mirrors", "wait", MIRROR, *LAG)
    assert records(own.east, TOPIC) == records(own.west, TOPIC)

    assert own.west.writes(TOPIC, range(110, 120))
    own.west.commit(GROUP, TOPIC, 7)
    until(lambda: GROUP in tanist(own, "east", "state", "dump", "--key", f"group/{MIRROR}").out, 40)
    fail_over(own, MIRROR, "east")
    consumer = Consumer(own.east.client(group_id=GROUP))
    assert consumer.committed([At(TOPIC, 0)], timeout=20)[0].offset == 7
    consumer.close()
    found = records(own.west, TOPIC)
    assert records(own.east, TOPIC) == found
    assert sorted(int(value or 0) for _, _, value in found) == [*range(10), *range(100, 120)]
    assert own.east.writes(TOPIC, range(200, 204))
    assert [row for row in records(own.east, TOPIC) if int(row[2] or 0) < 200] == found
