"""Records counted by how long they were on their way."""

from __future__ import annotations

import pytest

from tanist.domain.latency import BOUNDS_MS, Latency


@pytest.mark.parametrize(("ms", "bucket"), [(-7, 0), (0, 0), (5, 0), (6, 1), (1_000, 7), (1_001, 8), (10**9, 14)])
def test_a_record_is_in_the_first_bucket_whose_bound_it_does_not_exceed(ms: int, bucket: int) -> None:
    found = Latency().counted(ms, 3)
    assert [at for at, count in enumerate(found.counts) if count] == [bucket]
    assert (found.records, found.total_ms) == (3, 3 * max(0, ms))


def test_what_is_exported_grows_from_bound_to_bound_and_ends_with_all_records() -> None:
    found = Latency.of_all([Latency().counted(4, 1).counted(70, 2), Latency().counted(999_999, 5)])
    assert len(found.at_most) == len(BOUNDS_MS) + 1
    assert found.at_most[:5] == (1, 1, 1, 1, 3)
    assert found.at_most[-2:] == (3, 8)
    assert Latency.of_all([]) == Latency()
