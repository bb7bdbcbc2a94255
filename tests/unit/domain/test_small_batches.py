"""When small batches are merged."""

from __future__ import annotations

from tanist.domain.small_batches import LEAST_BYTES, MERGED_BYTES, Merging


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
