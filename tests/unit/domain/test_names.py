"""Rules for names, and the arithmetic of sequence numbers."""

from __future__ import annotations

import pytest

from tanist.domain.errors import InvalidMirrorName
from tanist.domain.names import MirrorPartition, after, mirror_name


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
