"""Control batches say what ended, or that they are damaged."""

from __future__ import annotations

import pytest

from tanist.domain.errors import CorruptBatch
from tanist.kafka.protocol.batch import ControlType, control_type
from tests.unit.kafka.protocol.batches import CONTROL, encode_batch, encode_marker, seal


@pytest.mark.parametrize(
    ("number", "kind"), [(0, ControlType.ABORT), (1, ControlType.COMMIT), (2, ControlType.LEADER_CHANGE)]
)
def test_the_key_tells_the_type(number: int, kind: ControlType) -> None:
    assert control_type(memoryview(encode_marker(5, number))) is kind


def test_a_type_from_the_future_is_unknown_and_no_error() -> None:
    assert control_type(memoryview(encode_marker(5, 99))) is ControlType.UNKNOWN


def test_data_is_no_marker() -> None:
    with pytest.raises(CorruptBatch, match="offset 8: not a control batch"):
        control_type(memoryview(encode_batch([b"v"], base_offset=8)))


def test_a_marker_cut_anywhere_is_named_damage() -> None:
    """Up to the end of its key: what follows is not read."""
    whole = encode_marker(5, 1)
    key_ends = 61 + 1 + 1 + 1 + 1 + 1 + 4
    for cut in range(key_ends):
        with pytest.raises(CorruptBatch):
            control_type(memoryview(whole)[:cut])


@pytest.mark.parametrize("body", [b"\x80" * 12, b"\x02\0\0\0\x01", b"\x08\0\0\0\x02a"])
def test_nonsense_for_a_record_is_named_damage(body: bytes) -> None:
    with pytest.raises(CorruptBatch):
        control_type(memoryview(seal(body, 5, CONTROL, 1, 0, (1, 0, -1))))
