"""The state partition of a mirror partition: Kafka's partitioner hash, so all clients agree."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName, TopicPartition

_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Murmur2 as `org.apache.kafka.common.utils.Utils.murmur2` computes it, as an unsigned 32 bit number."""
    h = _SEED ^ len(data)
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if tail := data[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=1 << 18)
def state_partition_of(mirror: MirrorName, partition: TopicPartition, partitions: int) -> int:
    """The partition of the state topic whose owner copies this partition."""
    key = f"{mirror}/{partition.topic}/{partition.partition}"
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions
