"""Keys that the source deleted and forgot while no worker copied: their tombstones are gone, and no offset shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.compaction import DELETE_RETENTION, Holes
from tanist.fetcher.engines.batches import lost_tombstones
from tanist.kafka.wire.clock import SystemClock
from tests.kafka.fetcher.rig import until
from tests.kafka.fetcher.test_compacted import COMPACT, COPY, agree, cleaned, committed, state

if TYPE_CHECKING:
    from tanist.domain.losses import TombstonesMissed
    from tanist.domain.names import EpochMs, MirrorPartition
    from tests.kafka.fetcher.rig import Rig

__all__ = ["cleaned"]
KEPT_MS = 1_500
KEYS = [b"key %d" % number for number in range(24)]
DELETED = KEYS[:7]


class Writer:
    """Each batch begins a segment: its time is later than the one before."""

    def __init__(self, rig: Rig, at: MirrorPartition) -> None:
        self._at, self._producer = at, rig.source.producer(linger_ms=1)
        self._time = SystemClock().now() - 3_600_000

    def write(self, *records: tuple[bytes, bytes | None]) -> None:
        self._time += 5_000
        for key, value in records:
            self._producer.produce(self._at.topic, value, key, partition=0, timestamp=self._time)
        assert self._producer.flush(20) == 0


def mirrored(rig: Rig, topic: str, holes: Holes) -> tuple[MirrorPartition, Writer, EpochMs]:
    """A topic that is copied while all keys are alive; and when its copy was last caught up."""
    rig.destination.create(topic, config=COPY if holes is Holes.COPIES else {"cleanup.policy": "delete"})
    [at] = rig.source.create(topic, config=COMPACT | {DELETE_RETENTION: str(KEPT_MS)})
    writer = Writer(rig, at)
    writer.write(*((key, b"value") for key in KEYS))
    with rig.copier([at], holes=holes, tombstones_kept_ms=KEPT_MS) as copier:
        rig.copied(copier)
        caught_up = copier.reports()[at].caught_up_at
    assert caught_up is not None
    return at, writer, caught_up


def deleted_and_forgotten(rig: Rig, at: MirrorPartition, writer: Writer) -> None:
    """Delete some keys, and wait until neither they nor their tombstones are in the source's log."""
    writer.write(*((key, None) for key in DELETED))
    number = 0

    def forgotten() -> bool:
        nonlocal number
        number += 1
        writer.write((b"other", b"%d" % number))
        return not {row.key for row in committed(rig.source, [at])[at]} & set(DELETED)

    until(forgotten, 60)


def stored(rig: Rig, at: MirrorPartition) -> TombstonesMissed | None:
    return rig.store.catch_up(SystemClock().deadline(5)).tombstones_missed(rig.spec).get(at)


def test_a_worker_that_was_away_for_too_long_deletes_what_the_source_deleted(cleaned: Rig, topic_name: str) -> None:
    at, writer, caught_up = mirrored(cleaned, topic_name, Holes.COPIES)
    deleted_and_forgotten(cleaned, at, writer)
    before = cleaned.destination.end(at)
    with cleaned.copier([at], holes=Holes.COPIES, tombstones_kept_ms=KEPT_MS, caught_up_at=caught_up) as copier:
        cleaned.copied(copier)
        later = copier.reports()[at].caught_up_at
    assert later is not None
    assert later > caught_up
    found = state(committed(cleaned.destination, [at])[at])
    assert found == state(committed(cleaned.source, [at])[at])
    assert not found.keys() & set(DELETED)
    assert before < cleaned.destination.end(at) == cleaned.source.end(at)
    assert agree(cleaned, [at]) == ""
    assert stored(cleaned, at) is None


def test_a_worker_that_was_away_for_a_moment_compares_nothing(
    cleaned: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, writer, caught_up = mirrored(cleaned, topic_name, Holes.COPIES)
    writer.write((b"other", b"1"))
    monkeypatch.setattr(lost_tombstones, "MOST_COMPARED", 0)
    with cleaned.copier([at], holes=Holes.COPIES, caught_up_at=caught_up) as copier:
        deleted_and_forgotten(cleaned, at, writer)
        cleaned.copied(copier)
    assert stored(cleaned, at) is None
    assert agree(cleaned, [at]) == ""


@pytest.mark.parametrize("holes", [Holes.COPIES, Holes.MARKERS])
def test_where_keys_are_not_compared_it_is_stored_that_tombstones_may_be_missing(
    cleaned: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, holes: Holes
) -> None:
    """The logs are too large to be compared, or the holes are filled with gap markers. Copying goes on."""
    at, writer, caught_up = mirrored(cleaned, topic_name, holes)
    deleted_and_forgotten(cleaned, at, writer)
    monkeypatch.setattr(lost_tombstones, "MOST_COMPARED", 100)
    with cleaned.copier([at], holes=holes, tombstones_kept_ms=KEPT_MS, caught_up_at=caught_up) as copier:
        cleaned.copied(copier)
    missed = stored(cleaned, at)
    assert missed is not None
    assert missed.start == len(KEYS)
    assert (missed.caught_up_at, missed.kept_ms) == (caught_up, KEPT_MS)
    assert state(committed(cleaned.destination, [at])[at]).keys() >= set(DELETED)
