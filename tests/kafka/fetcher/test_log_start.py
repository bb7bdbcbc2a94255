"""Logs that do not begin at 0: the copy begins where the source does, at the first look and ever after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import LogStartTooFar
from tanist.domain.states import Finding
from tanist.fetcher.engines.batches import idle_checks
from tanist.kafka.protocol.batch import filler_batch
from tanist.kafka.protocol.frames import ProduceBatch
from tanist.kafka.wire import requests
from tanist.kafka.wire.hot import Appends
from tanist.kafka.wire.requests import End
from tests.kafka.fetcher.rig import soon, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorPartition
    from tanist.ports.clock import Deadline
    from tests.kafka.fetcher.copier import Copier
    from tests.kafka.fetcher.rig import Rig, RigCluster

MILLIONS = 3_000_000


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_checks, "CHECK_IDLE_EVERY_SECONDS", 0.1)


def batches(rig: Rig, at: MirrorPartition, count: int = 5) -> None:
    """`count` batches of ten records."""
    for n in range(count):
        rig.source.produce(at, [b"%d/%d" % (n, i) for i in range(10)], linger_ms=50)


@pytest.mark.parametrize("start", [20, 23, 50], ids=["border", "inside-a-batch", "everything"])
def test_a_log_that_begins_late_is_copied_at_its_offsets(rig: Rig, topic_name: str, start: int) -> None:
    at = rig.create(topic_name)
    batches(rig, at[0])
    rig.source.delete_before(at[0], start)
    with rig.copier(at) as copier:
        rig.copied(copier)
        batches(rig, at[0], 2)
        rig.copied(copier)
        until(lambda: rig.destination.end(at[0], End.EARLIEST) == start, 20)
    assert rig.identical(at) == ""
    assert rig.offsets(at[0]).runs == ()


def write_nulls(side: RigCluster, at: MirrorPartition, count: int) -> None:
    """Quickly: what the copier itself writes, by an id of nobody."""
    producer, end = requests.init_producer_id(side.router, soon()), 0
    while end < count:
        some = min(400_000, count - end)
        pipeline = Appends(side.router.connection(side.router.leader(at), soon(), "test"))
        batch = memoryview(filler_batch(some, producer, 0, end, 1))
        pipeline.post([ProduceBatch(at.topic, at.partition, batch)], soon())
        assert pipeline.collect(soon()).partitions[0].base_offset == end
        end += some


def test_three_million_offsets_are_skipped_in_seconds(rig: Rig, topic_name: str) -> None:
    at = rig.create(topic_name)
    write_nulls(rig.source, at[0], MILLIONS)
    rig.source.delete_before(at[0], MILLIONS)
    batches(rig, at[0])
    with rig.copier(at) as copier:
        rig.copied(copier, 20)
        assert copier.reports()[at[0]].finding is Finding.ALIGNED
    assert rig.identical(at) == ""
    assert rig.read(at)[1][at[0]][0].offset == MILLIONS


def test_a_log_start_beyond_the_limit_is_refused_by_name_and_nothing_is_written(rig: Rig, topic_name: str) -> None:
    far, near = rig.create(topic_name, 2)
    batches(rig, far)
    batches(rig, near)
    rig.source.delete_before(far, 40)
    rig.source.delete_before(near, 39)
    with rig.copier([far, near], spec=replace(rig.spec, max_start_fill=39)) as copier:
        rig.copied(copier, only=[near])
        until(lambda: copier.reports()[far].finding is Finding.BROKEN, 20, copier.reports)
        assert isinstance(copier.reports()[far].error, LogStartTooFar)
        until(lambda: rig.destination.end(near, End.EARLIEST) == 39, 10)  # it follows that of the source
    assert rig.destination.end(far, End.LOG_END) == 0
    assert rig.identical([near]) == ""


def test_the_log_start_of_the_copy_follows_the_source(rig: Rig, topic_name: str) -> None:
    at = rig.create(topic_name)
    batches(rig, at[0])
    with rig.copier(at) as copier:
        rig.copied(copier)
        for start in (7, 10, 50):
            rig.source.delete_before(at[0], start)
            until(lambda: rig.destination.end(at[0], End.EARLIEST) == start, 20)  # noqa: B023
        batches(rig, at[0], 1)
        rig.copied(copier)
    assert rig.identical(at) == ""


def overtaken(rig: Rig, topic_name: str, first_start: int) -> tuple[Copier, MirrorPartition]:
    """A copy that was stopped at 60 and goes on after its source has lost everything before 85."""
    at = rig.create(topic_name)
    batches(rig, at[0])
    rig.source.delete_before(at[0], first_start)
    batches(rig, at[0], 1)
    with rig.copier(at) as copier:
        rig.copied(copier)
    batches(rig, at[0], 4)
    rig.source.delete_before(at[0], 85)
    return rig.copier(at, name="w2"), at[0]


@pytest.mark.parametrize("first_start", [0, 23])
def test_retention_that_overtook_a_stopped_copy_is_told_and_offsets_stay(
    rig: Rig, topic_name: str, first_start: int
) -> None:
    """With a first start above 0 the id of the fillers has been used here before, up to another sequence."""
    again, at = overtaken(rig, topic_name, first_start)
    with again:
        rig.copied(again)
        report = again.reports()[at]
        assert "60 to 84" in report.note
        until(lambda: rig.destination.end(at, End.EARLIEST) == 85, 20)
    assert rig.identical([at]) == ""


@pytest.mark.parametrize("rule", ["on", "off"])
def test_fillers_that_are_sent_twice_by_two_workers_take_each_offset_once(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Off: the fillers carry no producer id, so that nothing compares (and nobody calls them foreign)."""
    if rule == "off":
        real = filler_batch
        monkeypatch.setattr("tanist.domain.recovery._must_be_ours", lambda *_: None)
        monkeypatch.setattr("tanist.fetcher.engines.batches.filling.filler_batch", lambda n, *_: real(n, -1, -1, -1, 1))
    monkeypatch.setattr("tanist.fetcher.engines.batches.filling.MOST_AT_ONCE", 400)
    post = Appends.post

    def twice(self: Appends, batches: Sequence[ProduceBatch], by: Deadline) -> None:
        post(self, batches, by)
        self.collect(by)
        post(self, batches, by)

    monkeypatch.setattr(Appends, "post", twice)
    at = rig.create(topic_name)
    write_nulls(rig.source, at[0], 10_000)
    rig.source.delete_before(at[0], 10_000)
    with rig.copier(at) as one, rig.copier(at, name="w2") as two:
        until(lambda: rig.destination.end(at[0]) >= 10_000, 20)
        if rule == "on":
            rig.copied(one)
            rig.copied(two)
    assert (rig.destination.end(at[0], End.LOG_END) == 10_000) == (rule == "on")
