"""What Spark says becomes a promise that was kept, or not."""

from __future__ import annotations

import pytest

from tanist_testkit.demo.promises import of_validation


@pytest.mark.parametrize(
    ("verdict", "reason", "kept"),
    [
        ("EQUAL", "14 partitions are equal", True),
        ("EQUAL", "13 partitions are equal", False),
        ("DIFFERENT", "orders-0: 1 changed", False),
        ("UNKNOWN", "orders-0: 3 offsets of the source are not copied yet", False),
    ],
)
def test_only_equality_of_every_partition_keeps_it(verdict: str, reason: str, kept: bool) -> None:
    (promise,) = of_validation({"verdict": verdict, "reason": reason}, 14)
    assert promise.ok is kept
    assert reason in promise.observed
