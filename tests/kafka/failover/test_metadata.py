"""Metadata sync beside a worker that copies, and beside a failover."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tanist.domain.names import MirrorPartition
from tanist.kafka.wire import requests
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.router import Router
from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import KafkaSide, Pair


def write(side: KafkaSide, topic: str, partitions: range, values: range) -> None:
    """Each value to each partition, known by where it went."""
    writer = LogWriter(side.client())
    for partition in partitions:
        writer.write(topic, (FlowRecord(partition, value=b"%d of %d" % (value, partition)) for value in values))
    assert writer.producer.flush(20) == 0


def grow(side: KafkaSide, topic: str, partitions: int) -> None:
    client = AdminClient(side.client("admin"))
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(20)


def delete_before(side: KafkaSide, at: MirrorPartition, offset: int) -> None:
    with Router(side.cluster.endpoint(), "tanist-test") as router:
        router.refresh([at.topic], SystemClock().deadline(10))
        assert requests.delete_records(router, {at: offset}, SystemClock().deadline(10)) == {at: offset}


def test_a_topic_grows_under_a_worker_and_every_record_arrives_at_its_offset(pair: Pair) -> None:
    """Records of the new partitions from before the sync, too, and one whose log begins late."""
    pair.worker()
    pair.east.topic("grown")
    write(pair.east, "grown", range(2), range(10))
    pair.tanist("mirrors", "create", "grown", "--source", "east", "--topic", "grown")
    pair.tanist("mirrors", "wait", "grown", "--for", "lag=0", "--timeout", "200s")
    grow(pair.east, "grown", 4)
    write(pair.east, "grown", range(4), range(10, 30))
    delete_before(pair.east, MirrorPartition("grown", 3), 7)
    pair.tanist("metadata", "diff", "grown", expected=1)
    pair.tanist("metadata", "sync", "grown", "--yes")
    pair.tanist("mirrors", "wait", "grown", "--for", "state=MIRRORING", "--timeout", "200s")
    write(pair.east, "grown", range(4), range(30, 40))
    pair.tanist("mirrors", "wait", "grown", "--for", "lag=0", "--timeout", "200s")
    records = pair.east.read("grown", 4)
    assert len(records) == 40 + 40 + 30 + 23
    until(lambda: pair.west.read("grown", 4) == records, 20)  # the log start of the copy follows a moment later
    assert "nothing to do" in pair.tanist("metadata", "sync", "grown", "--yes").err


@pytest.mark.long
def test_partitions_that_the_mirror_does_not_know_of_are_not_left_behind_in_silence(pair: Pair) -> None:
    """The status was GO, the forecast 0, while a new partition's records were nowhere else."""
    pair.worker()
    pair.east.topic("left")
    write(pair.east, "left", range(2), range(10))
    pair.tanist("mirrors", "create", "left", "--source", "east", "--topic", "left")
    pair.tanist("mirrors", "wait", "left", "--for", "lag=0", "--timeout", "200s")
    grow(pair.east, "left", 3)
    write(pair.east, "left", range(2, 3), range(200))

    def checked(expected: int | None = None) -> tuple[dict[str, str], dict[str, str]]:
        item = pair.tanist("status", "left", "--json", expected=expected).item
        return item, next(each for each in item["checks"] if each["name"] == "source_partitions")

    status, check = checked(expected=0)
    assert (status["planned"], status["unplanned"]) == ("ACCEPT", "ACCEPT")
    assert (check["verdict"], check["observed"]) == ("FAIL", "1 not mirrored")
    plan = pair.tanist("failover", "plan", "left", "--json").item
    assert "PARTITIONS_WITHOUT_COPY" in {each["name"] for each in plan["limitations"]}
    assert plan["forecast"]["by_partition"] == {"left-2": 200}

    pair.tanist("metadata", "sync", "left", "--yes")
    pair.tanist("mirrors", "wait", "left", "--for", "lag=0", "--timeout", "200s")
    assert checked()[1]["verdict"] == "PASS"
    assert pair.tanist("failover", "plan", "left", "--json").item["forecast"]["offsets_at_risk"] == 0
    assert pair.west.read("left", 3) == pair.east.read("left", 3)


def test_a_copy_that_somebody_deleted_is_made_anew_and_filled(pair: Pair) -> None:
    pair.worker()
    pair.mirror("lost", "lost")
    admin = AdminClient(pair.west.client("admin"))
    admin.delete_topics(["lost"])["lost"].result(20)
    (row,) = json.loads(pair.tanist("metadata", "sync", "lost", "--yes", "--json").out)["items"]
    assert (row["change"], row["verdict"]) == ("create", "CHANGED")
    assert pair.east.writes("lost", range(10, 20))
    pair.tanist("mirrors", "wait", "lost", "--for", "lag=0", "--timeout", "200s")
    assert pair.west.read("lost") == pair.east.read("lost")


def test_while_a_failover_is_on_record_nothing_is_copied_and_then_the_topic_is_left_alone(pair: Pair) -> None:
    """Between its steps nobody is at work; the record is what holds the sync off."""
    pair.worker()
    pair.mirror("held", "held")
    grow(pair.east, "held", 3)
    plan = pair.approved("held")
    assert pair.killed("nowhere", "held", plan, "fence") == 0
    for verb in ("sync", "diff"):
        refused = pair.tanist("metadata", verb, "held", expected=1)
        assert "MIRROR_LOCKED" in refused.err
    pair.tanist("failover", "run", "held", "--plan", plan, "--budget", "2s")
    (row,) = json.loads(pair.tanist("metadata", "sync", "held", "--yes", "--json").out)["items"]
    assert (row["verdict"], row["reason"]) == (
        "SKIPPED",
        "topic 'held' is no longer in the mirror: it was failed over or removed",
    )
    assert pair.west.writes("held", range(10, 12))


@pytest.mark.long
def test_a_new_topic_that_the_filters_match_is_not_left_behind_in_silence(pair: Pair) -> None:
    """It came after the last sync: GO, no word in any plan, and its records were nowhere else."""
    pair.worker()
    pair.east.topic("born-first")
    write(pair.east, "born-first", range(2), range(10))
    filters = ("--topic", "born-.*", "--exclude", "born-test")
    pair.tanist("mirrors", "create", "born", "--source", "east", *filters)
    pair.tanist("mirrors", "wait", "born", "--for", "lag=0", "--timeout", "200s")
    accepted = pair.approved("born")
    for topic in ("born-later", "born-test"):
        pair.east.topic(topic)
        write(pair.east, topic, range(2), range(10))

    status = pair.tanist("status", "born", "--json", expected=0).item
    assert (status["planned"], status["unplanned"]) == ("ACCEPT", "ACCEPT")
    for mode in ("planned", "unplanned"):
        found = {each["name"]: each["detail"] for each in status["limitations"][mode]}
        assert (
            "not mirrored: born-later; add them with `tanist metadata sync born --destination west`"
            in found["TOPICS_WITHOUT_COPY"]
        )
    refused = pair.tanist("failover", "run", "born", "--plan", accepted, "--budget", "2s", expected=1)
    assert "TOPICS_WITHOUT_COPY" in refused.err

    pair.tanist("metadata", "sync", "born", "--yes")
    pair.tanist("mirrors", "wait", "born", "--for", "lag=0", "--timeout", "200s")
    assert "TOPICS_WITHOUT_COPY" not in json.dumps(pair.tanist("status", "born", "--json").item)
    assert pair.west.read("born-later") == pair.east.read("born-later")
    refused = pair.tanist("failover", "run", "born", "--plan", accepted, "--budget", "2s", expected=1)
    assert "GROWN_SINCE_PLANNED" in refused.err
    assert "not in this plan of all its topics: born-later" in refused.err
