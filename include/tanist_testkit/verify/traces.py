"""What somebody has seen of a partition: an offset and a digest per record, 16 bytes each.

Producers write down what brokers acknowledged, readers what they were served, both with `digest`. No code of the copier
is used anywhere in the load and the checker: they are ordinary clients.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

Headers: TypeAlias = "Sequence[tuple[str, bytes | None]] | None"


class Place(NamedTuple):
    """A partition, as ordinary clients name it."""

    topic: str
    partition: int

    @classmethod
    def of(cls, message: Message) -> Place:
        """Where a consumer was given it."""
        return cls(str(message.topic()), int(message.partition() or 0))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def digest(key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int) -> int:
    """64 bits of everything that a record carries. Equal only within one process: Python salts its hashes."""
    return hash((key, value, timestamp_ms, tuple(headers) if headers else None))


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Trace:
    """Records in the order seen. `start`, `end`: where the log began and ended, -1 where nobody asked.

    `unplaced`: digests of acknowledged records whose offset is unknown. Where the answer to a batch was lost,
    librdkafka may learn from what follows that it was written, and then has no offset for its records.
    """

    offsets: array[int] = field(default_factory=_numbers)
    digests: array[int] = field(default_factory=_numbers)
    start: int = -1
    end: int = -1
    unplaced: array[int] = field(default_factory=_numbers)

    def __len__(self) -> int:
        return len(self.offsets) + len(self.unplaced)

    def add(self, offset: int | None, digest: int) -> None:
        """`offset`: None where it is not known."""
        if offset is None:
            self.unplaced.append(digest)
            return
        self.offsets.append(offset)
        self.digests.append(digest)

    def extend(self, other: Trace) -> None:
        """Adds what another one has seen of the same partition."""
        self.offsets.extend(other.offsets)
        self.digests.extend(other.digests)
        self.unplaced.extend(other.unplaced)


Traces: TypeAlias = "dict[Place, Trace]"


def merged(parts: Sequence[Traces]) -> Traces:
    """All records of several witnesses, one trace per partition."""
    whole: Traces = {}
    for traces in parts:
        for place, trace in traces.items():
            whole.setdefault(place, Trace()).extend(trace)
    return whole


def total(traces: Traces) -> int:
    """Records in all partitions."""
    return sum(map(len, traces.values()))
