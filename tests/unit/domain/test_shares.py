"""Slices, as any Kafka client would compute them."""

from __future__ import annotations

from random import Random

import pytest

from tanist.domain.names import MirrorName, MirrorPartition
from tanist.domain.state_record import murmur2, state_partition_of


@pytest.mark.parametrize(
    ("text", "signed"),
    [  # org.apache.kafka.common.utils.UtilsTest.testMurmur2
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(text: str, signed: int) -> None:
    """The vectors of Kafka's own test; Java's int is signed."""
    assert murmur2(text.encode()) == signed & 0xFFFFFFFF


def test_slices_stay_in_range_and_share_the_work() -> None:
    """The hash decides, so a slice of one mirror is no heavier than another; and it never moves."""
    rng = Random(0)
    counts = [0] * 50
    for _ in range(5000):
        partition = MirrorPartition(f"topic-{rng.randrange(300)}", rng.randrange(40))
        counts[state_partition_of(MirrorName("m"), partition, 50)] += 1
    assert min(counts) > 40
    assert max(counts) < 200
    assert (
        state_partition_of(MirrorName("m"), MirrorPartition("orders", 7), 50)
        == (murmur2(b"m/orders/7") & 0x7FFFFFFF) % 50
    )
