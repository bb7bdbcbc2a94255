"""Topics that the old source has lost, or made again, are copied again from their start; the others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from tests.kafka.failover.both_ways import LAG, begin, delete, fail_over, records, reverse, tanist

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

MIRROR = "again"
FINE, GONE, MADE = TOPICS = ("again-fine", "again-gone", "again-made")


def topic_id(pair: Pair, topic: str) -> str:
    """Of the old source: another one if the topic was deleted and created again."""
    client = AdminClient(pair.east.client("admin"))  # what it was asked ends with it
    return str(client.describe_topics(TopicCollection([topic]))[topic].result(20).topic_id)


def test_topics_that_cannot_return_are_copied_again_and_no_others(own: Pair) -> None:
    for topic in TOPICS:
        own.east.topic(topic)
        assert own.east.writes(topic, range(10))
    for at in ("west", "east"):
        begin(own, at)
    tanist(own, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", "|".join(TOPICS))
    fail_over(own, MIRROR, "west")
    for topic in TOPICS:
        assert own.west.writes(topic, range(100, 110))
    for topic in (GONE, MADE):
        delete(own.east, topic)
    own.east.topic(MADE, 3)
    assert own.east.writes(MADE, range(300, 303))
    before = {topic: topic_id(own, topic) for topic in (FINE, MADE)}

    refused = tanist(own, "west", "mirrors", "reverse", MIRROR, "--recreate", GONE, "--dry-run", expected=1)
    assert "TOPIC_CANNOT_RETURN" in refused.err
    assert MADE in refused.err
    plan = reverse(own, MIRROR, "west", "--recreate", ".*")
    assert {row["topic"] for row in plan["topics"] if row["recreated"]} == {GONE, MADE}
    for topic in TOPICS:
        assert own.west.writes(topic, range(110, 114))
    tanist(own, "east", "mirrors", "wait", MIRROR, *LAG)
    for topic in TOPICS:
        found = records(own.west, topic)
        assert records(own.east, topic) == found
        assert sorted(int(value or 0) for _, _, value in found) == [*range(10), *range(100, 114)]
    assert topic_id(own, FINE) == before[FINE]
    assert topic_id(own, MADE) != before[MADE]
