"""Rules for names, and the arithmetic of sequence numbers."""

from __future__ import annotations

import pytest

from tanist.domain.errors import InvalidMirrorName
from tanist.domain.names import EpochMs, MirrorPartition, after, iso_time, mirror_name


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "x" * 249, "removed", "a.paused.b", "..."])
def test_what_a_topic_may_be_called_a_mirror_may(name: str) -> None:
    """Kafka's own rules for topic names."""
    assert mirror_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "ü", "a\n", "a.removed", "a.paused", ".paused"]
)
def test_a_refused_name_says_which_rule_it_breaks(name: str) -> None:
    """The rule and the name, the latter on one line and cut short."""
    with pytest.raises(InvalidMirrorName, match=r"(characters of|ends with|cannot be a name)") as caught:
        mirror_name(name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_sequence_goes_on_from_zero_after_the_last_number() -> None:
    """KIP-98: 2^31-1 is followed by 0, also inside a batch."""
    assert after(0, 1) == 1
    assert after(2**31 - 1, 1) == 0
    assert after(2**31 - 3, 10) == 7


def test_partitions_sort_by_number_and_read_as_kafka_prints_them() -> None:
    """orders-10 after orders-9."""
    assert MirrorPartition("orders", 9) < MirrorPartition("orders", 10) < MirrorPartition("orders2", 0)
    assert str(MirrorPartition("orders", 9)) == "orders-9"


@pytest.mark.parametrize(
    ("at", "read"),
    [(0, "1970-01-01T00:00:00.000Z"), (1_700_000_000_123, "2023-11-14T22:13:20.123Z"), (2**62, f"{2**62} ms")],
)
def test_people_read_a_time_as_a_date_and_not_as_a_number(at: int, read: str) -> None:
    assert iso_time(EpochMs(at)) == read
