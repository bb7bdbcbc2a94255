"""Load and checker on real topics: the same topic written twice, the second time with one thing wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.cimpl import NewTopic

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.verify import clients
from tanist_testkit.verify.comparing import Differences
from tanist_testkit.verify.flows import Flow, FlowRecord, records
from tanist_testkit.verify.inspection import Inspection, Inspector
from tanist_testkit.verify.reading import bounds, read
from tanist_testkit.verify.traces import Place
from tanist_testkit.verify.writing import Load, LoadWriter, LogWriter
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist_testkit.sandbox.cluster import SandboxCluster

CLOCK = SystemClock()
COUNT = 200


def produce(bootstrap: str, topic: str, rows: Sequence[FlowRecord]) -> None:
    """In the order given, each at the next offset."""
    clients.create_topics(bootstrap, [NewTopic(topic, 1, 1, config={"retention.ms": "-1"})], CLOCK.deadline(20), CLOCK)
    writer = LogWriter(clients.settings(bootstrap, enable_idempotence=True))
    writer.write(topic, rows)
    assert writer.producer.flush(20) == 0


def inspected(
    clusters: Mapping[str, SandboxCluster], topic: str, spoil: Callable[[list[FlowRecord]], list[FlowRecord]]
) -> Inspection:
    east, west = (clusters[name].bootstrap_servers for name in ("east", "west"))
    flow = Flow(topic=topic, partitions=1, rate=1)
    rows = [row._replace(partition=0) for row in islice(records(flow, 0, CLOCK, 1), COUNT)]
    produce(east, topic, rows)
    produce(west, topic, spoil(rows))
    return Inspector(source=east, destination=west, clock=CLOCK).inspect(
        [topic], {}, CLOCK.deadline(20), lambda _text: None
    )


def changed(rows: list[FlowRecord], **fields: object) -> list[FlowRecord]:
    return [*rows[:100], rows[100]._replace(**fields), *rows[101:]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spoil", "found", "named"),
    [
        (lambda rows: rows, Differences(), ""),
        (lambda rows: changed(rows, value=b"one"), Differences(altered=1), "differs in value"),
        (lambda rows: changed(rows, key=b"other"), Differences(altered=1), "differs in key"),
        (lambda rows: changed(rows, headers=[("a", b"b")]), Differences(altered=1), "differs in headers"),
        (lambda rows: changed(rows, timestamp_ms=1), Differences(altered=1), "differs in timestamp_ms"),
        (lambda rows: rows[:-1], Differences(lost=1, bounds=1), "the record of 199 is not there"),
        (lambda rows: [*rows, rows[7]], Differences(repeated=1, bounds=1), "there again at 200"),
        (lambda rows: [rows[1], rows[0], *rows[2:]], Differences(reordered=1, misplaced=1), "lies at"),
        (lambda rows: rows[1:], Differences(lost=1, misplaced=199, bounds=1), "the record of 1 lies at 0, not at 1"),
    ],
    ids=["same", "value", "key", "headers", "timestamp", "lost", "repeated", "reordered", "shifted"],
)
def test_one_thing_that_is_wrong_between_two_topics_is_found(
    clusters: Mapping[str, SandboxCluster],
    topic_name: str,
    spoil: Callable[[list[FlowRecord]], list[FlowRecord]],
    found: Differences,
    named: str,
) -> None:
    findings = inspected(clusters, topic_name, spoil)
    assert findings.whole.differences == findings.uncommitted.differences == found
    assert named in findings.whole.first
    assert findings.ok == (not found)


def test_what_producers_were_told_is_what_readers_see(clusters: Mapping[str, SandboxCluster], topic_name: str) -> None:
    east = clusters["east"].bootstrap_servers
    flows = [
        Flow(topic=f"{topic_name}-plain", partitions=2, rate=2000, compression="lz4"),
        Flow(topic=f"{topic_name}-paid", partitions=2, rate=1000, writers=2, transactional=True, compression="zstd"),
    ]
    clients.create_topics(east, [flow.new_topic(1, min_isr=1) for flow in flows], CLOCK.deadline(20), CLOCK)
    load = Load(east, flows, CLOCK, 1)
    load.start()
    load.until(1_001, CLOCK.deadline(25))
    until(lambda: load.aborted, CLOCK.deadline(10), CLOCK, lambda: "no transaction was aborted")
    load.stop(CLOCK.deadline(30))
    reported = load.traces()
    logs = bounds(east, reported, CLOCK.deadline(10), CLOCK)
    seen = read(east, logs, committed=True, by=CLOCK.deadline(10), clock=CLOCK)
    raw = read(east, logs, committed=False, by=CLOCK.deadline(10), clock=CLOCK)
    assert load.acknowledged > 1000
    assert load.aborted > 0
    for place, trace in reported.items():
        assert sorted(zip(trace.offsets, trace.digests, strict=True)) == list(
            zip(seen[place].offsets, seen[place].digests, strict=True)
        )
    assert sum(map(len, raw.values())) - sum(map(len, seen.values())) == load.aborted


def test_a_log_whose_beginning_was_deleted_starts_there(
    clusters: Mapping[str, SandboxCluster], topic_name: str
) -> None:
    east = clusters["east"].bootstrap_servers
    flow = Flow(topic=topic_name, partitions=1, rate=1, deleted=300)
    clients.create_topics(east, [flow.new_topic(1, min_isr=1)], CLOCK.deadline(20), CLOCK)
    writer = LoadWriter(east, replace(flow), 0, CLOCK, 1)
    writer.write_exactly(400)
    place = Place(topic_name, 0)
    clients.delete_before(east, {place: 300})
    logs = bounds(east, [place], CLOCK.deadline(10), CLOCK)
    trace = read(east, logs, committed=True, by=CLOCK.deadline(10), clock=CLOCK)[place]
    assert (trace.start, trace.end, trace.offsets[0], len(trace)) == (300, 400, 300, 100)


def test_records_committed_behind_the_first_one_of_an_open_transaction_are_read_once_it_has_ended(
    clusters: Mapping[str, SandboxCluster], topic_name: str
) -> None:
    """A storm counted them as missing: its log ended before a transaction that a writer had given up."""
    east = clusters["east"].bootstrap_servers
    clients.create_topics(east, [NewTopic(topic_name, 1, 1)], CLOCK.deadline(20), CLOCK)
    place = Place(topic_name, 0)
    left_open, finished = (
        LogWriter(clients.settings(east, transactional_id=f"{topic_name}-{each}", transaction_timeout_ms=60_000))
        for each in ("open", "finished")
    )
    for writer in (left_open, finished):
        writer.producer.init_transactions(20)
        writer.producer.begin_transaction()
        writer.write(topic_name, [FlowRecord(partition=0, value=b"paid")])
        assert writer.producer.flush(20) == 0
    finished.producer.commit_transaction(20)
    logs = bounds(east, [place], CLOCK.deadline(10), CLOCK)
    assert logs[place].end == 3, "two records and a marker"
    left_open.producer.abort_transaction(20)
    assert list(read(east, logs, committed=True, by=CLOCK.deadline(10), clock=CLOCK)[place].offsets) == [1]
