"""A FAILED partition continues once its cause is mended and a person resumes its topic, without a failover."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tanist.domain.acls import AclBinding
from tests.kafka.failover.conftest import DENY, LITERAL, TOPIC, WRITE, take
from tests.kafka.failover.test_judge import configure
from tests.kafka.failover.test_metadata import write
from tests.kafka.failover.test_source_events import delete, described, resumed_in_vain, told
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair


def mirrored(pair: Pair, topic: str) -> None:
    pair.worker()
    pair.east.topic(topic)
    write(pair.east, topic, range(2), range(10))
    pair.tanist("mirrors", "create", topic, "--source", "east", "--topic", topic)
    pair.tanist("mirrors", "wait", topic, "--for", "lag=0", "--timeout", "200s")


def test_a_record_that_was_too_large_is_copied_once_the_limit_is_raised_and_the_topic_resumed(pair: Pair) -> None:
    """It stayed FAILED for ever; taking the topic out of the mirror fenced the live source."""
    topic = "mended"
    mirrored(pair, topic)
    configure(pair.west, topic, "max.message.bytes", "1000")
    producer = Producer(pair.east.client())
    producer.produce(topic, b"x" * 5000, partition=0)
    assert producer.flush(20) == 0
    until(lambda: ("FAILED", "RECORD_TOO_LARGE") in told(pair, topic), 40, lambda: described(pair, topic))
    here = ("--topic", topic)
    too_early = pair.tanist("mirrors", "resume", topic, *here)
    assert f"{topic}-0 is FAILED with RECORD_TOO_LARGE: a fetcher compares both logs" in too_early.err
    refused = pair.tanist("mirrors", "wait", topic, "--for", "lag=0", "--timeout", "200s", expected=1)
    assert "RECORD_TOO_LARGE" in refused.err, "it has failed again: the cause is still there"

    configure(pair.west, topic, "max.message.bytes", "1048588")
    write(pair.east, topic, range(2), range(10, 20))
    pair.tanist("mirrors", "resume", topic, *here)
    pair.tanist("mirrors", "wait", topic, "--for", "lag=0", "--timeout", "200s")
    assert pair.west.read(topic) == pair.east.read(topic)
    assert len(pair.west.read(topic)) == 41
    assert told(pair, topic) == {("MIRRORING", None)}
    assert "MIRROR_TOPIC_NOT_PAUSED" in pair.tanist("mirrors", "resume", topic, *here, expected=1).err
    assert pair.east.writes(topic, range(2)), "nothing was fenced"


def test_a_foreign_write_that_is_still_there_fails_again_by_its_name_and_nothing_is_appended(pair: Pair) -> None:
    topic = "foreign-resumed"
    mirrored(pair, topic)
    assert pair.west.writes(topic, range(700, 701), user="admin", partitions=1)
    write(pair.east, topic, range(2), range(10, 20))
    until(lambda: ("FAILED", "FOREIGN_WRITE") in told(pair, topic), 40, lambda: described(pair, topic))
    copied = [row for row in pair.west.read(topic) if row[0] == 0]
    pair.tanist("mirrors", "pause", topic, "--topic", topic)
    resumed_in_vain(pair, topic, "FOREIGN_WRITE")
    assert [row for row in pair.west.read(topic) if row[0] == 0] == copied
    shown = pair.tanist("failover", "plan", topic, "--json", expected=None).item
    assert "PARTITION_NO_COPY" in {each["name"] for each in shown["limitations"]}


@pytest.mark.long
def test_a_topic_with_a_foreign_write_is_copied_again_from_its_start(pair: Pair) -> None:
    """To take it out is a failover: its producers are stopped at the source until the source fence is lifted."""
    topic = "foreign-again"
    mirrored(pair, topic)
    assert pair.west.writes(topic, range(700, 701), user="admin", partitions=1)
    write(pair.east, topic, range(2), range(10, 20))
    until(lambda: ("FAILED", "FOREIGN_WRITE") in told(pair, topic), 40, lambda: described(pair, topic))
    here = ("--topic", topic)
    plan = pair.tanist("mirrors", "remove", topic, *here, "--dry-run", "--json").item
    why = ("--mode", plan["mode"], "--reason", "foreign write")
    pair.tanist("failover", "approve", topic, plan["plan_hash"], *here, *why, user="approver")
    pair.tanist("mirrors", "remove", topic, *here, "--fence-proof", "1s", "--although-it-answers")
    delete(pair.west, topic)
    pair.tanist("fence", "lift", topic, "--promoted")
    shut_out = AclBinding(TOPIC, topic, LITERAL, pair.west.cluster.spec.principal("mirror"), "*", WRITE, DENY)
    take(pair.west.cluster, shut_out)
    pair.tanist("mirrors", "add", topic, *here, "--promoted")
    assert pair.east.writes(topic, range(20, 22))
    pair.tanist("mirrors", "wait", topic, "--for", "lag=0", "--timeout", "200s")
    assert pair.west.read(topic) == pair.east.read(topic)
    assert told(pair, topic) == {("MIRRORING", None)}
