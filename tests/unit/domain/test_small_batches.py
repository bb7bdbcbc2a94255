"""When small batches are merged."""

from __future__ import annotations

import pytest

from tanist.domain.names import EpochMs
from tanist.domain.records import MirrorSpec, WorkerAlive
from tanist.domain.small_batches import GONE_MS, LEAST_BYTES, MERGED_BYTES, Merging, may_merge
from tanist.kafka.protocol.stored import decode


def test_small_batches_are_merged_until_they_are_clearly_not_small() -> None:
    """Between the thresholds it stays as it is: a log of mixed batches does not change its way all the time."""
    off = Merging()
    on = off.seen(16, 16, 16 * 170)
    assert (off.on, on.on) == (False, True)
    for batch in ((13, 1_700), (1, 4_000)):
        fetched = (16, 16 * batch[0], 16 * batch[1])
        assert (off.seen(*fetched).on, on.seen(*fetched).on) == (False, True)
    assert not on.seen(16, 16 * 20, 16 * 2_000).on
    assert not on.seen(16, 16, 16 * 10_000).on


def test_one_batch_says_nothing() -> None:
    assert not Merging().seen(1, 1, 170).on
    assert Merging(on=True).seen(0, 0, 0).on
    assert Merging(on=True).seen(1, 5_000, 500_000).on


def test_a_topic_that_takes_no_large_batches_gets_smaller_ones() -> None:
    merging, halvings = Merging(on=True), 0
    while (smaller := merging.refused(1_000)) is not None:
        assert smaller.limit < merging.limit
        merging, halvings = smaller, halvings + 1
    assert (merging.limit, halvings) == (LEAST_BYTES, 8)
    assert Merging().refused(MERGED_BYTES + 1) is None, "that was no merged batch"


NOW = EpochMs(1_700_000_000_000)


def spec(stored: str = "") -> MirrorSpec:
    found = decode(
        b"mirror/m",
        (
            '{"v":1,"mirror":"m","source":"e","destination":"w","source_cluster_id":"E","destination_cluster_id":"W",'
            f'"data_id":1,"filler_id":2,"start_id":3,"created_at":4{stored}}}'
        ).encode(),
    )
    assert isinstance(found, MirrorSpec)
    return found


def worker(age_ms: int, stored: str = "") -> WorkerAlive:
    written = f'{{"v":1,"worker":"w","version":"0.1.0","host":"h","started_at":1,"at":{NOW - age_ms}{stored}}}'
    found = decode(b"worker/w", written.encode())
    assert isinstance(found, WorkerAlive)
    return found


def test_a_mirror_of_an_earlier_version_merges_nothing_until_it_is_altered() -> None:
    able = worker(0, ',"reads_merged":true')
    assert not may_merge(spec(), [able], NOW)
    assert may_merge(spec(',"merge_small_batches":"auto"'), [able], NOW)
    assert not may_merge(spec(',"merge_small_batches":"off"'), [able], NOW)


@pytest.mark.parametrize(("age_ms", "allowed"), [(0, False), (GONE_MS, False), (GONE_MS + 1, True)])
def test_nothing_is_merged_while_a_worker_of_an_earlier_version_may_take_over(age_ms: int, allowed: bool) -> None:
    """Its heartbeats have neither field; frozen for some minutes it may still come back."""
    able = worker(0, ',"reads_merged":true')
    assert may_merge(spec(',"merge_small_batches":"auto"'), [able, worker(age_ms)], NOW) is allowed
