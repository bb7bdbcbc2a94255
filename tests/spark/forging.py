"""Copies made by hand: the source's own batches, but for what a test changes."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING

from tanist.kafka.protocol.batch import HEADER_SIZE, crc32c, patch
from tanist.kafka.protocol.frames import ProduceBatch
from tanist.kafka.wire.hot import Appends
from tests.kafka.fetcher.rig import soon, until
from tests.unit.kafka.protocol.batches import GZIP, encode_batch, encode_record, seal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import RigCluster


def append(side: RigCluster, at: MirrorPartition, copies: Iterable[bytearray]) -> None:
    """`copies` as they are, one after another, without a producer id."""
    end = side.end(at)
    side.router.refresh([at.topic], soon())
    appends = Appends(side.router.connection(side.router.leader(at), soon(), channel="forged"))
    for each in copies:
        patched = bytearray(each)
        patch(memoryview(patched), -1, -1, -1)
        appends.post([ProduceBatch(at.topic, at.partition, memoryview(patched))], soon())
        (answer,) = appends.collect(soon()).partitions
        assert answer.error_code == 0, answer
    until(lambda: side.end(at) > end, 5)


def flipped(batch: bytearray) -> bytearray:
    """The last byte of the records is another one, and the checksum fits."""
    changed = bytearray(batch)
    changed[-2] ^= 1  # the last byte counts the headers
    changed[17:21] = crc32c(memoryview(changed)[21:]).to_bytes(4, "big")
    assert len(changed) > HEADER_SIZE
    return changed


_AGE_MS = 60_000
"""A broker that stamps records must not hit their own times by chance; much older ones would be deleted."""


def written(side: RigCluster, at: MirrorPartition, count: int = 5, *, attributes: int = 0) -> list[bytearray]:
    """Batches of ten records each, appended, and as they are."""
    before = time.time_ns() // 1_000_000 - _AGE_MS
    made = [
        encode_batch(
            [b"%d-%d" % (n, each) for each in range(10)],
            base_offset=10 * n,
            timestamp_ms=before + n,
            attributes=attributes,
        )
        for n in range(count)
    ]
    append(side, at, made)
    return made


def without(record: int, timestamp_ms: int, batch: int = 3) -> bytearray:
    """The packed `batch` of `written`, as if that record of it had never been there."""
    left = [n for n in range(10) if n != record]
    body = b"".join(encode_record(at, b"k", b"%d-%d" % (batch, n), time_delta=n) for at, n in enumerate(left))
    return seal(zlib.compress(body, wbits=31), 0, GZIP, len(left), timestamp_ms, (-1, -1, -1))


def many(numbers: Sequence[int], times: Iterable[int], size: int = 100) -> Iterator[bytearray]:
    """One batch for each of `times`: records of those numbers, of `size` bytes. No two batches are alike."""
    body = b"".join(encode_record(at, None, b"%*d" % (size, n), time_delta=n) for at, n in enumerate(numbers))
    for timestamp_ms in times:
        yield seal(body, 0, 0, len(numbers), timestamp_ms, (-1, -1, -1))
