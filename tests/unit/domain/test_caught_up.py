"""When a copy was last caught up with its source, and whether tombstones may be gone since."""

from __future__ import annotations

from random import Random

import pytest

from tanist.domain.compaction import CaughtUp, EndSeen
from tanist.domain.names import EpochMs, SourceOffset


def seen(before: CaughtUp, copied: int, last_stable: int, now: int) -> CaughtUp:
    return before.seen(SourceOffset(copied), SourceOffset(last_stable), EpochMs(now))


def test_a_copy_at_the_end_of_its_source_is_caught_up_now() -> None:
    assert seen(CaughtUp(EpochMs(5)), 10, 10, 100) == CaughtUp(EpochMs(100))


def test_a_copy_that_reaches_an_earlier_end_was_caught_up_when_that_end_was_seen() -> None:
    behind = seen(CaughtUp(EpochMs(5)), 3, 10, 100)
    assert behind == CaughtUp(EpochMs(5), EndSeen(SourceOffset(10), EpochMs(100)))
    assert seen(behind, 9, 50, 200) == behind
    assert seen(behind, 10, 80, 300) == CaughtUp(EpochMs(100), EndSeen(SourceOffset(80), EpochMs(300)))


def test_a_copy_of_which_nothing_is_stored_is_never_in_time() -> None:
    assert CaughtUp().too_late(EpochMs(0), 1_000)
    assert CaughtUp(EpochMs(0)).too_late(EpochMs(1_000), 1_000)
    assert not CaughtUp(EpochMs(0)).too_late(EpochMs(999), 1_000)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_never_later_than_the_last_moment_at_which_nothing_was_missing(seed: int) -> None:
    rng = Random(seed)
    ends: list[tuple[int, int]] = []
    held, copied, stable = CaughtUp(EpochMs(0)), 0, 0
    for now in range(1, 300):
        stable += rng.randrange(5)
        copied = min(stable, copied + rng.randrange(9))
        ends.append((now, stable))
        held = seen(held, copied, stable, now)
        truth = max((at for at, end in ends if end <= copied), default=0)
        assert held.at is not None
        assert held.at <= truth
