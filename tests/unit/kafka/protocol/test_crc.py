"""The mended checksum is the true one, and keeps what the old one knew."""

from __future__ import annotations

from random import Random

import pytest

from tanist.kafka.protocol.batch import crc32c, patched


def test_checksum_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(
    "tail_length", [0, 1, 63, 4095, 4096, 4097, 65_535, 65_536, 1 << 20, (1 << 24) + 4096 * 17 + 5]
)
def test_mended_checksum_is_the_one_computed_anew(tail_length: int) -> None:
    rng = Random(tail_length)
    tail = rng.randbytes(tail_length)
    for _ in range(20):
        old, new = rng.randbytes(40), rng.randbytes(40)
        assert patched(crc32c(old + tail), old, new, tail_length) == crc32c(new + tail)


def test_damage_shows_after_mending_exactly_as_before() -> None:
    rng = Random(8)
    tail = bytearray(rng.randbytes(10_000))
    old, new = rng.randbytes(40), rng.randbytes(40)
    stored = crc32c(old + tail)
    tail[rng.randrange(len(tail))] ^= 1 << rng.randrange(8)
    assert patched(stored, old, new, len(tail)) != crc32c(new + tail)
