"""Partitions of an old source that no survey can compare: named, counted, and never in the way of the others."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tanist.domain.names import DestinationOffset, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, OffsetRangeWritten
from tanist.kafka.adapters.compacted_topic import WORKER, CompactedTopic, TopicLayout
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import begin, records, reverse, tanist
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.own.test_expired_tails import finding, surveyed
from tests.kafka.failover.own.test_recreate import decides
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
TOPICS: Final = ("before", "still", "more")
MIRROR: Final = "dr"
SOON: Final = SystemClock().deadline


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("shifted")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        yield pair


def shift(pair: Pair, topic: str, *ranges: tuple[int, int]) -> None:
    """As surplus gap markers in partition 0 leave the offset map: pairs of a source and a destination offset."""
    endpoint = pair.west.cluster.endpoint()
    with CompactedTopic.open(endpoint, STATE_TOPIC, SOON(20), layout=TopicLayout(allow_small=True)) as state:
        spec = state.view().mirror(MirrorName(MIRROR))
    assert spec is not None
    written = [
        OffsetRangeWritten(
            mirror=spec.mirror,
            mirror_id=spec.mirror_id,
            partition=MirrorPartition(topic, 0),
            source=SourceOffset(source),
            destination=DestinationOffset(destination),
            why="surplus",
        )
        for source, destination in ranges
    ]
    layout = TopicLayout(partitions=1, allow_small=True)
    with CompactedTopic.open(endpoint, OFFSETS_TOPIC, SOON(20), layout=layout, writer=WORKER) as offsets:
        offsets.append(written, SOON(20))


def dies_with_tails(pair: Pair) -> None:
    """Each partition has five copied records, and four that nobody has copied; one partition has no copy at all."""
    for topic in TOPICS:
        pair.east.topic(topic)
        assert pair.east.writes(topic, range(10))
    tanist(pair, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", "|".join(TOPICS))
    tanist(pair, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    pair.workers["west"].send(signal.SIGKILL)
    shift(pair, "before", (1, 2), (3, 3))
    shift(pair, "still", (2, 3))
    for topic in TOPICS:
        assert pair.east.writes(topic, range(100, 108))
    client = AdminClient(pair.east.client("admin"))
    client.create_partitions([NewPartitions("more", 3)])["more"].result(20)
    until(lambda: pair.east.writes("more", range(2, 3), partitions=3), 20)
    pair.east.cluster.kill()
    tanist(
        pair,
        "west",
        "failover",
        "run",
        MIRROR,
        "--plan",
        pair.approved(MIRROR, mode="unplanned"),
        *QUICK,
        expected=None,
    )
    pair.east.cluster.start()
    begin(pair, "west")
    never = {("still", 0), ("more", 2)}
    until(lambda: all(row["final"] for at, row in surveyed(pair).items() if at not in never), 60)


def test_a_partition_that_cannot_be_compared_is_named_and_does_not_keep_the_others_from_being_rescued(
    own: Pair,
) -> None:
    dies_with_tails(own)
    rows = surveyed(own)
    assert "below offset 3" in str(rows["before", 0]["warnings"])
    assert (rows["before", 0]["final"], rows["before", 0]["records"]) == (True, 4)
    assert "shifted by 1" in rows["still", 0]["reason"]
    assert "never mirrored" in rows["more", 2]["reason"]
    assert rows["more", 2]["end"] == 1
    assert "TAIL_NOT_COMPARED" in finding(own, "west")["reason"]

    waiting = tanist(own, "west", "failback", "rescue", MIRROR, expected=3).err
    assert "still-0 is not rescued" in waiting
    assert "more-2 is not rescued" in waiting
    for topic, count in (("before", 8), ("still", 4), ("more", 8)):
        assert len(own.west.read(f"__mirror_quarantine.{topic}")) == count
    refused = tanist(own, "west", "mirrors", "reverse", MIRROR, "--dry-run", "--accept", "TAIL_UNDECIDED", expected=1)
    assert "'still' cannot be compared: still-0: its records have other offsets" in refused.err
    assert "'more' has 3 partition(s) at 'east', 2 were copied" in refused.err
    everything = tanist(own, "west", "mirrors", "reverse", MIRROR, "--exclude", ".*", "--dry-run", expected=1)
    assert "NOTHING_FAILED_OVER" in everything.err
    decides(own, rescued=3)
    plan = reverse(own, MIRROR, "west", "--recreate", ".*")
    named = {each["name"]: each["detail"] for each in plan["limitations"]}
    assert "more (1 offsets); still (9 offsets)" in named["RECORDS_NOT_SURVEYED"]
    begin(own, "east")
    tanist(own, "east", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    for topic in ("still", "more"):
        assert records(own.east, topic) == records(own.west, topic)
