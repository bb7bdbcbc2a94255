"""A source that deletes records before they are copied: put on record, and the mirror's setting decides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.losses import OnLoss
from tanist.fetcher.engines.batches import idle_checks
from tanist.kafka.wire.requests import End
from tests.kafka.fetcher.rig import until
from tests.kafka.fetcher.test_log_start import batches
from tests.kafka.fetcher.test_writers import broken

if TYPE_CHECKING:
    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import Rig


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_checks, "CHECK_IDLE_EVERY_SECONDS", 0.1)


def lost(rig: Rig, at: MirrorPartition) -> list[tuple[int, int]]:
    """The ranges on record: first and last offset of each."""
    found = rig.store.view().lost(rig.spec.mirror, at)
    return [(each.start, each.until - 1) for each in found.ranges] if found is not None else []


def test_a_partition_whose_source_deleted_uncopied_records_fails_and_continues_once_that_is_allowed(
    rig: Rig, topic_name: str
) -> None:
    [at] = rig.create(topic_name)
    rig.spec = replace(rig.spec, on_loss=OnLoss.FAIL)
    batches(rig, at)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    assert lost(rig, at) == []
    batches(rig, at, 3)
    rig.source.delete_before(at, 67)
    with rig.copier([at], name="w2") as copier:
        assert broken(copier, at) == "UNCOPIED_RECORDS_DELETED"
        said = str(copier.reports()[at].error)
    assert f"the source deleted offsets 50 to 66 of {at}, 17 in all" in said
    assert "`tanist mirrors alter m --destination destination --on-loss continue`" in said
    assert lost(rig, at) == [(50, 66)]
    ends = (rig.destination.end(at, End.EARLIEST), rig.destination.end(at, End.LOG_END))
    assert ends == (0, 50), "what was copied stays, and nothing is appended"
    rig.spec = replace(rig.spec, on_loss=OnLoss.CONTINUE)
    with rig.copier([at], name="w3") as copier:
        rig.copied(copier)
        batches(rig, at, 1)
        rig.copied(copier)
        until(lambda: rig.destination.end(at, End.EARLIEST) == 67, 20)
    assert rig.identical([at]) == ""
    assert lost(rig, at) == [(50, 66)]


def test_each_loss_is_on_record_also_where_nothing_is_left_of_what_was_copied(rig: Rig, topic_name: str) -> None:
    """The mirror partition is empty when the second loss is found: its end tells up to where it was copied."""
    [at] = rig.create(topic_name)
    batches(rig, at)
    rig.source.delete_before(at, 20)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    assert lost(rig, at) == [], "what was deleted before the mirror began is not lost"
    batches(rig, at, 2)
    rig.source.delete_before(at, 60)
    with rig.copier([at], name="w2") as copier:
        rig.copied(copier)
        rig.source.delete_before(at, 70)
        until(lambda: rig.destination.end(at, End.EARLIEST) == 70, 20)
    assert lost(rig, at) == [(50, 59)]
    batches(rig, at, 4)
    rig.source.delete_before(at, 95)
    with rig.copier([at], name="w3") as copier:
        rig.copied(copier)
        until(lambda: rig.destination.end(at, End.EARLIEST) == 95, 20)
    assert lost(rig, at) == [(50, 59), (70, 94)]
    assert rig.identical([at]) == ""
