"""A copy that somebody deletes and makes anew under a worker that holds its position."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.fetcher.engines.batches import idle_checks
from tanist.kafka.wire.connection import Connection
from tanist.kafka.wire.requests import End
from tests.kafka.fetcher.raw import surplus
from tests.kafka.fetcher.rig import soon, until
from tests.kafka.fetcher.test_log_start import batches
from tests.kafka.fetcher.test_writers import broken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import Rig, RigCluster

NEVER = 1e6


def delete(side: RigCluster, topic: str) -> None:
    side.admin.delete_topics([topic])[topic].result(20)

    def gone() -> bool:
        side.router.refresh([topic], soon())
        return isinstance(side.router.topics()[topic].error, UnknownTopicOrPartition)

    until(gone, 10)


def make_anew(side: RigCluster, at: Sequence[MirrorPartition]) -> None:
    delete(side, at[0].topic)
    side.create(at[0].topic, len(at))


@pytest.mark.parametrize("rule", ["on", "off"])
def test_a_record_meant_for_a_copy_that_was_deleted_does_not_land_in_the_new_one(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Off: topics are called by their names, as before Kafka 4.1. Nobody looks at idle copies here."""
    monkeypatch.setattr(idle_checks, "CHECK_IDLE_EVERY_SECONDS", NEVER)
    if rule == "off":
        monkeypatch.setattr(Connection, "speaks", lambda *_: False)
    at = rig.create(topic_name, 3)
    for each in at:
        batches(rig, each)
    rig.source.delete_before(at[2], 20)
    with rig.copier(at) as copier:
        rig.copied(copier)
        make_anew(rig.destination, at)
        rig.source.transaction(at[1], [b"a gap comes first"], commit=False)
        for each in at:
            batches(rig, each, 2)
        if rule == "off":
            assert broken(copier, at[0]) == "DIVERGED"
            return
        rig.copied(copier)
    assert rig.identical(at) == ""
    assert [rig.offsets(each).runs for each in at] == [(), (), ()]


def test_an_idle_copy_that_was_deleted_is_missed_and_the_new_one_filled_without_another_record(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where topics are called by their names."""
    monkeypatch.setattr(idle_checks, "CHECK_IDLE_EVERY_SECONDS", 0.1)
    monkeypatch.setattr(Connection, "speaks", lambda *_: False)
    at = rig.create(topic_name, 2)
    for each in at:
        batches(rig, each)
    with rig.copier(at) as copier:
        rig.copied(copier)
        make_anew(rig.destination, at)
        until(lambda: set(rig.destination.ends(at, End.HIGH_WATERMARK).values()) == {50}, 10, copier.reports)
        delete(rig.destination, topic_name)

        def missed() -> bool:
            errors = [report.error for report in copier.reports().values()]
            return all(isinstance(error, UnknownTopicOrPartition) for error in errors)

        until(missed, 10, copier.reports)
        rig.destination.create(topic_name, 2)
        until(lambda: set(rig.destination.ends(at, End.HIGH_WATERMARK).values()) == {50}, 10, copier.reports)
        batches(rig, at[0], 1)
        rig.copied(copier)
    assert rig.identical(at) == ""


def test_a_copy_that_is_made_anew_while_records_come_holds_all_of_them_at_their_offsets(
    rig: Rig, topic_name: str
) -> None:
    at = rig.create(topic_name, 2)
    enough = threading.Event()

    def write() -> None:
        producer, n = rig.source.producer(linger_ms=0), 0
        while not enough.wait(0.002):
            for each in at:
                producer.produce(each.topic, b"%d" % n, partition=each.partition)
            producer.poll(0)
            n += 1
        assert producer.flush(20) == 0

    writer = threading.Thread(target=write, daemon=True)
    with rig.copier(at) as copier:
        writer.start()
        for _ in range(5):
            until(lambda: min(rig.destination.ends(at, End.HIGH_WATERMARK).values()) > 100, 20, copier.reports)
            make_anew(rig.destination, at)
        enough.set()
        writer.join(20)
        rig.copied(copier)
    assert rig.identical(at) == ""
    assert [rig.offsets(each).runs for each in at] == [(), ()]


def test_a_copy_that_is_made_anew_without_its_map_being_forgotten_is_refused_by_name(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map tells of shifts that the new copy does not have."""
    monkeypatch.setattr(idle_checks, "CHECK_IDLE_EVERY_SECONDS", 0.1)
    [at] = rig.create(topic_name)
    batches(rig, at)
    with rig.copier([at]) as copier:
        rig.copied(copier)
        surplus(rig, at)
        batches(rig, at, 1)
        rig.copied(copier)
        assert rig.offsets(at).runs
        make_anew(rig.destination, [at])
        assert broken(copier, at) == "DIVERGED"
    assert rig.destination.end(at, End.LOG_END) == 0
