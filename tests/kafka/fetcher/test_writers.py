"""Compare-and-append, and what it does not cover: refusals in a pipeline, forgotten ids, foreign writers."""

from __future__ import annotations

import time
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NoReturn

import pytest

from tanist.domain import recovery, small_batches
from tanist.domain.appending import Pipeline
from tanist.domain.errors import CouldNotTell
from tanist.domain.states import Finding
from tanist.fetcher.engines.batches import idle_checks
from tanist.fetcher.engines.batches.appending import Appending
from tanist.kafka.protocol.batch import patch
from tanist.kafka.wire.requests import End
from tests.kafka.fetcher.raw import producers, reassign
from tests.kafka.fetcher.rig import Rig, until
from tests.kafka.fetcher.test_identity import interleave, transactional
from tests.kafka.fetcher.test_log_start import batches

if TYPE_CHECKING:
    from tanist.domain.names import MirrorPartition
    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tests.kafka.fetcher.copier import Copier
    from tests.kafka.fetcher.logs import Row

DAY_MS = 86_400_000


def broken(copier: Copier, at: MirrorPartition) -> str:
    """The name of what broke a partition, once it is broken."""

    def is_broken() -> bool:
        report = copier.reports().get(at)
        return report is not None and report.finding is Finding.BROKEN

    until(is_broken, 15, copier.reports)
    error = copier.reports()[at].error
    assert error is not None
    return error.name


def copied_around_a_refused_record(rig: Rig, name: str, before: int) -> tuple[list[Row], list[Row]]:
    """Source and copy of a log whose record number `before` the destination does not take."""
    [at] = rig.source.create(name)
    rig.destination.create(name, config={"max.message.bytes": "2000"})
    for value in (*[b"small"] * before, bytes(5000), *(b"%d" % n for n in range(5))):
        rig.source.produce(at, [value])
    with rig.copier([at]) as copier:
        assert broken(copier, at) == "RECORD_TOO_LARGE"
        reason = str(copier.reports()[at].error)
    assert f"does not take source offsets {before} to {before} (1 record(s), 5" in reason
    assert "max.message.bytes of the destination topic is smaller" in reason
    source, copy = (rows[at] for rows in rig.read([at]))
    return source, copy


@pytest.mark.parametrize("before", [0, 1])
def test_a_refused_record_leaves_no_hole(rig: Rig, topic_name: str, before: int) -> None:
    source, copy = copied_around_a_refused_record(rig, topic_name, before)
    assert copy == source[:before]


def test_a_first_append_that_is_not_alone_leaves_a_hole_where_it_is_refused(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the rule above matters, where the broker does not know our id yet. It may refuse before anything follows."""
    monkeypatch.setattr(Pipeline, "acknowledged", property(lambda _: True, lambda *_: None))
    for n in range(10):
        source, copy = copied_around_a_refused_record(rig, f"{topic_name}-{n}", 0)
        if copy:
            assert copy[0] != source[0]
            return
    pytest.fail("no append has followed the one that was refused")


def test_a_record_whose_time_the_destination_does_not_take_is_named(rig: Rig, topic_name: str) -> None:
    """Its limit was set by others behind our back: `tanist metadata sync` would lift it."""
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name, config={"message.timestamp.before.max.ms": "60000"})
    producer = rig.source.producer()
    producer.produce(topic_name, b"old", partition=0, timestamp=1_600_000_000_000)
    assert producer.flush(20) == 0
    with rig.copier([at]) as copier:
        assert broken(copier, at) == "RECORD_REFUSED"
        assert "imestamp" in str(copier.reports()[at].error)
    assert rig.destination.end(at) == 0


def most_in_flight(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen = [0]
    prepare = Appending._prepare

    def watched(self: Appending, of: BatchPartition) -> object:
        done = prepare(self, of)
        seen[0] = max(seen[0], len(of.pipeline.in_flight))
        return done

    monkeypatch.setattr(Appending, "_prepare", watched)
    return seen


def old_batches(rig: Rig, at: MirrorPartition, count: int) -> None:
    producer = rig.source.producer(linger_ms=0)
    old = time.time_ns() // 1_000_000 - 3 * DAY_MS
    for n in range(count):
        producer.produce(at.topic, b"%d" % n, partition=at.partition, timestamp=old + n)
        producer.flush(20)


@pytest.mark.parametrize("rule", ["on", "off"])
def test_old_records_are_sent_one_by_one_and_only_under_the_lease(
    into_trio: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """The broker forgets our id at its next check. Off: records are never taken for old."""
    rig = into_trio
    monkeypatch.setattr(small_batches, "BEGINS_AT_RECORDS", 0)  # merged, they would all be one
    seen = most_in_flight(monkeypatch)
    [at] = rig.create(topic_name)
    old_batches(rig, at, 30)
    remembered = DAY_MS if rule == "on" else 100 * DAY_MS
    with rig.copier([at], remembered_ms=remembered, lease_seconds=0.0) as copier:
        if rule == "off":
            rig.copied(copier)
            assert seen[0] > 1
            return
        until(lambda: (r := copier.reports().get(at)) and r.error and r.error.name == "NOT_OUR_SLICE", 10)
        assert rig.destination.end(at) == 0
        copier.own(1e6)
        rig.copied(copier)
        assert seen == [1]
        until(lambda: rig.spec.data_id not in producers(rig.destination, at), 10)  # it has forgotten us
        old_batches(rig, at, 5)
        rig.copied(copier)
    until(lambda: rig.spec.data_id not in producers(rig.destination, at), 10)
    with rig.copier([at], name="w2", remembered_ms=remembered) as copier:
        old_batches(rig, at, 5)
        rig.copied(copier)
    assert rig.identical([at]) == ""


def test_a_replica_that_never_saw_our_batches_gets_none_of_them_twice(into_trio: Rig, topic_name: str) -> None:
    """All our data is deleted, and the partition moves to a broker that never had it: nobody knows our id there."""
    rig = into_trio
    [at] = rig.source.create(topic_name)
    rig.destination.create(topic_name, brokers=[1], config={"min.insync.replicas": "1"})
    batches(rig, at)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    rig.source.delete_before(at, 50)
    rig.destination.delete_before(at, 50)
    reassign(rig.destination, at, [2])
    assert producers(rig.destination, at) == {}
    with rig.copier([at], name="w2") as copier:
        batches(rig, at, 2)
        rig.copied(copier)
        batches(rig, at, 2)
        rig.copied(copier)
    assert rig.identical([at]) == ""


@pytest.mark.parametrize("rule", ["on", "off"])
@pytest.mark.parametrize("worker", ["up", "down"])
def test_a_foreign_record_is_never_copied_around_in_silence(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, worker: str, rule: str
) -> None:
    """Off: nobody asks who wrote. Other partitions go on."""
    if rule == "off":
        monkeypatch.setattr(recovery, "_must_be_ours", lambda *_: None)
    at, other = rig.create(topic_name, 2)
    batches(rig, at, 1)
    with rig.copier([at, other]) as copier:
        rig.copied(copier)
        if worker == "up":
            rig.destination.produce(at, [b"foreign"])
            batches(rig, at, 2)
            if rule == "on":
                assert broken(copier, at) == "FOREIGN_WRITE"
                batches(rig, other, 2)
                rig.copied(copier, only=[other])
                assert rig.identical([other]) == ""
                return
            rig.copied(copier)
    if worker == "down":
        rig.destination.produce(at, [b"foreign"] * 100)
        with rig.copier([at, other], name="w2") as copier:
            if rule == "on":
                assert broken(copier, at) == "FOREIGN_WRITE"
                return
            batches(rig, at, 1)
            rig.copied(copier)
    assert b"foreign" in {row.value for row in rig.read([at])[1][at]}


def test_a_foreign_record_in_an_idle_partition_is_found_without_another_append(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is copied any more, so no append can land elsewhere: the worker looks by itself."""
    monkeypatch.setattr(idle_checks, "CHECK_IDLE_EVERY_SECONDS", 0.2)
    [at] = rig.create(topic_name)
    batches(rig, at, 1)
    with rig.copier([at]) as copier:
        rig.copied(copier)
        rig.destination.produce(at, [b"foreign"])
        assert broken(copier, at) == "FOREIGN_WRITE"


@pytest.mark.parametrize("its_run", ["not on record", "on record"])
def test_a_foreign_record_behind_a_batch_in_flight_is_found_by_the_next_worker(
    rig: Rig, topic_name: str, its_run: str
) -> None:
    """Its owner died before it saw the answer that was one too high, or before it looked what lies there."""
    [at] = rig.create(topic_name)
    one_batch = partial(rig.source.produce, at, linger_ms=10_000)  # by a producer that knows the topic: else maybe two
    one_batch([b"%d" % n for n in range(10)])
    with pytest.MonkeyPatch.context() as patch, rig.copier([at]) as copier:
        rig.copied(copier)
        if its_run == "on record":
            patch.setattr("tanist.fetcher.engines.batches.recovery.recover_position", _cannot_look)
        else:
            patch.setattr(Appending, "_answered", lambda *_: None)
        rig.destination.produce(at, [b"foreign"])
        one_batch([b"%d" % n for n in range(200)])
        until(
            lambda: rig.destination.end(at) == 211 and len(rig.offsets(at).runs) == (its_run == "on record"),
            10,
            lambda: f"{rig.source.end(at)} at the source, {rig.destination.end(at)} at the copy, {rig.offsets(at)}",
        )
    with rig.copier([at], name="w2") as copier:
        assert broken(copier, at) == "FOREIGN_WRITE"


def _cannot_look(*_: object) -> NoReturn:
    raise CouldNotTell("it shall not look")


@pytest.mark.parametrize("rule", ["on", "off"])
def test_two_owners_at_once_write_one_log(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Both hold the lease, which must not happen. Off: data carries no id, and nobody calls it foreign."""
    if rule == "off":
        monkeypatch.setattr("tanist.fetcher.engines.batches.appending.patch", _without_id)
        monkeypatch.setattr(recovery, "_must_be_ours", lambda *_: None)
    plain = rig.create(f"{topic_name}-plain", 2)
    mixed = rig.create(topic_name)
    at = (*plain, *mixed)
    for each in plain:
        batches(rig, each, 20)
    with rig.copier(at) as one, rig.copier(at, name="w2") as two:
        for each in plain:
            batches(rig, each, 20)
        if rule == "off":
            until(lambda: all(_repeated(rig, each) for each in plain), 60)
        else:
            interleave(transactional(rig, topic_name), topic_name, Random(1), 60)
            rig.copied(one)
            rig.copied(two)
    source, copy = rig.read(at)
    same = all([r.content for r in source[each]] == [r.content for r in copy[each]] for each in at)
    assert same == (rule == "on")
    if rule == "on":
        assert rig.identical(plain) == ""
        offsets = rig.offsets(mixed[0])
        assert [offsets.locate(row.offset) for row in source[mixed[0]]] == [row.offset for row in copy[mixed[0]]]  # type: ignore[arg-type]
        assert rig.destination.end(mixed[0], End.LOG_END) == rig.destination.end(mixed[0])


def _repeated(rig: Rig, at: MirrorPartition) -> bool:
    """Whether the copy of `at` holds a record twice; if not, one more batch that both may copy at once."""
    if rig.destination.end(at) > rig.source.end(at):
        return True
    batches(rig, at, 1)
    return False


def _without_id(batch: memoryview, _id: int, _epoch: int, _sequence: int) -> None:
    patch(batch, -1, -1, -1)
