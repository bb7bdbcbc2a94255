"""Topics on real brokers, copied by hand with everything that happens to copies, and one job over all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tanist.domain.endpoint import Address
from tanist.domain.log_ends import LogEnds
from tanist.domain.reconciliation.job import PositionRequest, ReconciliationJob, TopicPair
from tanist.spark.reconciliation.job import reconcile
from tanist.spark.reconciliation.logs import ReadLogs
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.rig import Rig, RigCluster

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tanist.domain.names import MirrorPartition

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # of pyspark, when it collects
]

START_MS = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}  # records as old as these would be deleted within seconds
SIZE = 400
BY_HAND, TRANSACTIONS, OTHER, STAMPED = (
    TopicPair(f"reconciled-{name}", f"east.reconciled-{name}", partitions)
    for name, partitions in (("by-hand", 3), ("transactions", 1), ("other", 2), ("stamped", 1))
)
AROUND_MARKERS = (0, 1, 2, 3, 5, 6, 7)


def message(n: int) -> dict[str, Any]:
    """Records without key, without value, with headers; times out of order; every tenth looks like the one before."""
    n = alike(n)
    return {
        "key": None if n % 7 == 0 else b"%d" % (n % 5),
        "value": None if n % 11 == 0 else b"%d" % (n % 3),
        "headers": [("n", b"%d" % n), ("nothing", None)] if n % 3 else [],
        "timestamp": START_MS + n * 10 + (n % 4) * 25,
    }


def alike(n: int) -> int:
    return n - (n % 10 == 9)


def write(side: RigCluster, topic: str, partition: int, numbers: Sequence[int]) -> None:
    producer = side.producer(enable_idempotence=True)
    for n in numbers:
        producer.produce(topic, partition=partition, **message(n))
    assert producer.flush(20) == 0


def copy_by_hand(rng: Random) -> list[int]:
    """What a poor copier writes: it loses records, goes back, and stops early."""
    written: list[int] = []
    at = 0
    while at < SIZE - 20:
        until = min(SIZE - 20, at + rng.randint(50, 150))
        written += [n for n in range(at, until) if rng.random() > 0.02]
        at = until - (rng.randint(0, 30) if rng.random() < 0.5 else 0)
    return written


def transactions(rig: Rig, pair: TopicPair) -> None:
    """Markers and aborted records at the source alone: copied is what a reader of committed records sees."""
    (at,) = rig.source.create(pair.source)
    (there,) = rig.destination.create(pair.destination)
    rig.source.transaction(at, [b"a", b"b"])
    rig.source.transaction(at, [b"aborted"], commit=False)
    rig.source.transaction(at, [b"c"])
    rig.source.settle([at])
    replay(rig, at, there)


def replay(rig: Rig, at: MirrorPartition, there: MirrorPartition) -> None:
    producer = rig.destination.producer()
    for row in read(rig.source.servers, [at], "read_committed")[at]:
        producer.produce(there.topic, key=row.key, value=row.value, timestamp=row.time[1])
    assert producer.flush(20) == 0


@dataclass(frozen=True)
class Told:
    """What a job has found, and what was written to the copies of `BY_HAND`."""

    result: dict[str, Any]
    runs: list[dict[str, Any]]
    copies: list[list[int]]

    def partitions(self, pair: TopicPair) -> list[dict[str, Any]]:
        return [each for each in self.result["partitions"] if each["source_topic"] == pair.source]

    def positions(self, topic: str) -> list[dict[str, Any]]:
        return [each for each in self.result["positions"] if each["topic"] == topic]


@pytest.fixture(scope="module")
def reconciled(
    spark: SparkSession, sides: tuple[RigCluster, RigCluster], tmp_path_factory: pytest.TempPathFactory
) -> Told:
    rig, folder = Rig(*sides), tmp_path_factory.mktemp("reconciled")
    copies = [list(range(SIZE)), copy_by_hand(Random(4)), copy_by_hand(Random(5))]
    rig.source.create(BY_HAND.source, 3, config=KEPT)
    rig.destination.create(BY_HAND.destination, 3, config=KEPT)
    for partition, numbers in enumerate(copies):
        write(rig.source, BY_HAND.source, partition, range(SIZE))
        write(rig.destination, BY_HAND.destination, partition, numbers)
    transactions(rig, TRANSACTIONS)
    for pair, written, config in (
        (OTHER, range(100, 110), KEPT),
        (STAMPED, range(10), {"message.timestamp.type": "LogAppendTime"}),
    ):
        rig.source.create(pair.source, pair.partitions, config=KEPT)
        rig.destination.create(pair.destination, config=config)
        write(rig.source, pair.source, 0, range(10))
        write(rig.destination, pair.destination, 0, written)
    job = ReconciliationJob(
        run="r",
        source=rig.source.cluster.endpoint(),
        destination=rig.destination.cluster.endpoint(),
        pairs=(BY_HAND, TRANSACTIONS, OTHER, STAMPED),
        positions=(
            *(PositionRequest(TRANSACTIONS.source, 0, offset) for offset in AROUND_MARKERS),
            *(PositionRequest(BY_HAND.source, p, offset, "g") for offset in range(SIZE + 1) for p in range(3)),
            *(PositionRequest(OTHER.source, partition, 0) for partition in range(3)),
            PositionRequest(STAMPED.source, 0, 5),
            PositionRequest("another", 0, 0),
        ),
    )
    result = reconcile(spark, job, folder, lambda _: None)
    asked = [(each.topic, each.partition, each.offset) for each in job.positions]
    assert [(e["topic"], e["partition"], e["source_offset"]) for e in result["positions"]] == asked
    return Told(result, pq.read_table(folder / "runs.parquet").to_pylist(), copies)


def test_every_position_is_right_in_a_copy_with_losses_repeats_and_gaps(reconciled: Told) -> None:
    """Held against what was written: nothing of the copy is left out; where it can be told, nothing comes again."""
    healthy, *poor = reconciled.partitions(BY_HAND)
    assert (healthy["copied"], healthy["lost"], healthy["others"], healthy["runs"]) == (SIZE, 0, 0, 1)
    for each, written in zip(poor, reconciled.copies[1:], strict=True):
        ours, theirs = Counter(map(alike, range(SIZE))), Counter(map(alike, written))
        assert each["lost"] == (ours - theirs).total() > 0
        assert each["copied"] + each["lost"] == SIZE
        assert each["copied"] + each["others"] == len(written)
    answers = reconciled.positions(BY_HAND.source)
    assert len(answers) == 3 * (SIZE + 1)
    for answer in answers:
        check(answer, reconciled.copies[answer["partition"]])


def check(answer: dict[str, Any], written: Sequence[int]) -> None:
    """Of each record from the position on, as many are delivered as were copied, at most as many as there are."""
    position, there = answer["source_offset"], answer["destination_offset"]
    to_come, delivered, copied = (
        Counter(map(alike, numbers)) for numbers in (range(position, SIZE), written[there:], written)
    )
    assert all(delivered[n] >= min(many, copied[n]) for n, many in to_come.items()), answer
    if position < SIZE and written.count(position) and position % 10 < 8:
        assert there <= len(written) - 1 - written[::-1].index(position), answer
        if answer["standing"] == "exact":
            assert written[there] == position
    if written == list(range(SIZE)):
        assert (there, answer["precision"]) == (position, "exact")


def test_each_run_in_parquet_says_where_its_records_lie(reconciled: Told) -> None:
    """Offset by offset, whatever can be told from another; records without a copy have rows too."""
    rows = [row for row in reconciled.runs if row["source_topic"] == BY_HAND.source]
    assert (
        sum(row["records"] for row in rows if row["source_offset"] is not None and row["kind"] != "repeated")
        == 3 * SIZE
    )
    assert {row["destination_topic"] for row in rows} == {BY_HAND.destination}
    for row in rows:
        if row["kind"] in {"paired", "moved", "repeated"}:
            written = reconciled.copies[row["partition"]][row["destination_offset"] :][: row["offsets"]]
            numbers = range(row["source_offset"], row["source_offset"] + row["offsets"])
            assert list(map(alike, written)) == list(map(alike, numbers)), row


def test_what_a_transaction_leaves_at_one_end_only_moves_positions_and_loses_no_precision(reconciled: Told) -> None:
    """Markers and aborted records of the source have no copy, and nobody misses them."""
    (partition,) = reconciled.partitions(TRANSACTIONS)
    assert (partition["copied"], partition["lost"], partition["others"]) == (3, 0, 0)
    found = [(each["destination_offset"], each["precision"]) for each in reconciled.positions(TRANSACTIONS.source)]
    assert found == [(offset, "exact") for offset in (0, 1, 2, 2, 2, 3, 3)]


def test_what_cannot_be_told_is_unknown(reconciled: Told) -> None:
    """Nothing in common, a partition that is not there, timestamps of the destination's own. It is all counted."""
    reasons = [each["reason"] for each in reconciled.partitions(OTHER) + reconciled.partitions(STAMPED)]
    assert "no record" in reasons[0]
    assert "destination" in reasons[1]
    assert "message.timestamp.type" in reasons[2]
    unknown = (
        reconciled.positions(OTHER.source) + reconciled.positions(STAMPED.source) + reconciled.positions("another")
    )
    assert [(each["destination_offset"], each["precision"]) for each in unknown] == [(None, "unknown")] * 5
    nowhere = "the partition is not part of this reconciliation"
    assert [each["reason"] for each in unknown] == [*reasons[:2], nowhere, reasons[2], nowhere]
    assert reconciled.result["unknown"] == 3 + 5


def test_a_topic_whose_partitions_nobody_has_counted_is_not_read() -> None:
    """What is found in some of them would look like all."""
    ends = LogEnds(start=0, last_stable=1, high_watermark=1)
    assert ReadLogs(TopicPair("t", "t", 1), 0, ends, ends).trouble == ""
    assert ReadLogs(TopicPair("t", "t", 1, "not told"), 0, ends, ends).trouble == "not told"


def test_a_cluster_that_does_not_answer_is_the_reason_for_all(
    spark: SparkSession, rig: Rig, topic_name: str, tmp_path: Path
) -> None:
    """Also where there is nothing left to read."""
    rig.destination.create(topic_name)
    endpoint = rig.destination.cluster.endpoint()
    dead = replace(endpoint, bootstrap=(Address("127.0.0.1", 1),))
    pair, asked = TopicPair(topic_name, topic_name, 1), PositionRequest(topic_name, 0, 3)
    job = ReconciliationJob(run="r", source=dead, destination=endpoint, pairs=(pair,), positions=(asked,))
    result = reconcile(spark, job, tmp_path, lambda _: None)
    assert result["unknown"] == 2
    assert result["positions"][0]["reason"].startswith("source: ")
