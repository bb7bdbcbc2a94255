"""The records that are copied: made once, by an ordinary producer, spread evenly over the partitions."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from bench.pair import client, create_topic
from tanist.domain.errors import TimedOut
from tanist_testkit.verify.writing import LogWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench.pair import Pair
    from tanist_testkit.sandbox.cluster import SandboxCluster

PARTITIONS: Final = 8
FLUSH_SECONDS: Final = 120.0
FEW: Final = 100
"""A producer whose batches hold so few records does not linger for more."""
_AT_ONCE: Final = 2_000  # records handed over in one call
_NOISE_BYTES: Final = 1 << 20
_PRODUCER: Final = {
    "enable_idempotence": True,
    "queue_buffering_max_kbytes": 256 << 10,
    "queue_buffering_max_messages": 2_000_000,
}
_KEEP: Final = {"retention.ms": "-1", "segment.bytes": str(256 << 20)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One source topic: `records` values of `size` bytes without keys, uncompressed."""

    topic: str
    size: int
    records: int
    target: float
    """How many times MirrorMaker 2's MB per CPU-second the fetcher must reach."""
    rate_target: float = 0.0
    """How many times MirrorMaker 2's MB/s."""
    batch_bytes: int = 512 << 10
    """The most bytes of a batch of the source's producer."""
    batch_records: int = 1_000_000
    """The most records of a batch."""
    codec: str = "none"
    """What the source's producer, and MirrorMaker 2's, compress with."""

    @property
    def megabytes(self) -> float:
        """Of values alone, 10^6 bytes each; the same count for both sides."""
        return self.records * self.size / 1e6

    @property
    def label(self) -> str:
        """How large its records and its batches are."""
        batch = f"{self.batch_bytes >> 10} KiB" if self.batch_records > FEW else f"{self.batch_records} record(s)"
        packed = "" if self.codec == "none" else f", {self.codec}"
        return f"{self.size} B, batches of {batch}{packed}"

    @property
    def title(self) -> str:
        return f"{self.records / 1e6:g} M records of {self.label}"


def produce(pair: Pair, load: Load, report: Callable[[int], None]) -> None:
    """Make the topic of `load` and fill it; `report` hears how many records went out.

    Raises:
        KafkaException, BufferError: the cluster refused. TimedOut: not delivered within two minutes after the last.
    """
    create_topic(pair.source, load.topic, PARTITIONS, _KEEP, pair.clock)
    write(pair.source, load, report)


def write(cluster: SandboxCluster, load: Load, report: Callable[[int], None]) -> None:
    """Append the records of `load` to its topic at `cluster`.

    Raises:
        As `produce`.
    """
    batches = {
        "batch_size": load.batch_bytes,
        "batch_num_messages": load.batch_records,
        "linger_ms": 200 if load.batch_records > 1 else 0,
        "compression_type": load.codec,
    }
    writer = LogWriter(client(cluster, **batches, **_PRODUCER))
    sent = 0
    for number, values in enumerate(_chunks(load)):
        writer.write_values(load.topic, number % PARTITIONS, values)
        sent += len(values)
        report(sent)
    if left := writer.producer.flush(FLUSH_SECONDS):
        raise TimedOut(f"{left} records of {load.topic} were not delivered")


def _chunks(load: Load) -> Iterator[list[bytes]]:
    """Values cut out of the same noise at ever other places: nothing that compresses within a batch.

    For a codec the noise is hexadecimal digits: it compresses to half, as a mix of text and numbers does.
    """
    dice = Random(load.size)
    noise = dice.randbytes(_NOISE_BYTES)
    if load.codec != "none":
        noise = noise.hex().encode()[:_NOISE_BYTES]
    last = _NOISE_BYTES - load.size
    for done in range(0, load.records, _AT_ONCE):
        starts = dice.choices(range(last), k=min(_AT_ONCE, load.records - done))
        yield [noise[start : start + load.size] for start in starts]


def source_log(pair: Pair, topic: str, partition: int) -> Path:
    """The directory of the segments of a source partition."""
    return pair.source.directory / "node-1" / "data" / f"{topic}-{partition}"


def batch_kilobytes(pair: Pair, load: Load) -> float:
    """How large the batches of the source are on average, in 10^3 bytes, by a look at the beginning of a partition."""
    from tanist.kafka.protocol.batch import HEADER_SIZE, header_of  # noqa: PLC0415

    data = source_log(pair, load.topic, 0) / f"{0:020}.log"
    seen = memoryview(data.read_bytes()[: 32 << 20])
    sizes: list[int] = []
    at = 0
    while len(seen) - at >= HEADER_SIZE:
        sizes.append(header_of(seen[at:]).size)
        at += sizes[-1]
    return sum(sizes) / max(1, len(sizes)) / 1e3
