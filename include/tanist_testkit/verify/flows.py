"""What is written to the source: topics of every kind that a copier may stumble over, no two records equal."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka.cimpl import NewTopic

from tanist_testkit.verify.traces import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.ports.clock import Clock
    from tanist_testkit.verify.traces import Headers

DAY_MS: Final = 24 * 3600 * 1000
_CUSTOMERS: Final = 1000
_CLEANED: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.0",
    "min.compaction.lag.ms": "0",
}
"""A cleaner has something to do each second."""
_ROW: Final = 16
"""Records in a row for one partition: batches of more than one record, whatever the rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One topic and how it is written. `rate`: records per second, shared by `writers`.

    `deleted`: records per partition that are written and deleted before the mirror is made: the log starts there.
    `age_ms`: by how much timestamps lie in the past. `transactional`: each writer commits or aborts a few at a time.
    `keys`: the topic is compacted, and each record has one of so many keys. `in_a_batch`: records at most, 0: many.
    `idempotent`: False: a producer that tries again may write a record twice.
    """

    topic: str
    partitions: int
    rate: int
    compression: str = "none"
    writers: int = 1
    transactional: bool = False
    idempotent: bool = True
    deleted: int = 0
    age_ms: int = 0
    keys: int = 0
    in_a_batch: int = 0
    value_bytes: int = 300
    max_message_bytes: int = 0
    """The topic's own setting, 0: none."""

    def new_topic(self, replicas: int, *, min_isr: int) -> NewTopic:
        """As it is created at the source. Nothing expires: old records are compared to the end."""
        config = {"retention.ms": "-1", "min.insync.replicas": str(min_isr)}
        if self.max_message_bytes:
            config["max.message.bytes"] = str(self.max_message_bytes)
        if self.keys:
            config |= _CLEANED
        return NewTopic(self.topic, self.partitions, replicas, config=config)

    def __str__(self) -> str:
        kinds = [self.compression if self.compression != "none" else "plain"]
        kinds += ["transactional, some aborted"] if self.transactional else []
        kinds += [f"starts at offset {self.deleted}"] if self.deleted else []
        kinds += [f"{self.age_ms // DAY_MS} days old"] if self.age_ms else []
        kinds += [f"compacted, {self.keys} keys"] if self.keys else []
        kinds += [f"{self.in_a_batch} a batch"] if self.in_a_batch else []
        return f"{self.topic} ({self.partitions} partitions, {', '.join(kinds)})"


class FlowRecord(NamedTuple):
    """A record on its way to a log. `partition`: -1 is the one of its key. `timestamp_ms`: 0 is now."""

    partition: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = None
    timestamp_ms: int = 0

    @property
    def digest(self) -> int:
        """As `tanist_testkit.verify.traces.digest` sees it."""
        return digest(self.key, self.value, self.headers, self.timestamp_ms)


def records(flow: Flow, writer: int, clock: Clock, seed: int) -> Iterator[FlowRecord]:
    """Endless. No two are equal; some have no key, no value, no headers, or empty ones."""
    dice = random.Random(f"{seed}/{flow.topic}/{writer}")  # noqa: S311 -- load, not secrets
    filling = dice.randbytes(flow.value_bytes // 2) + b"tanist " * (flow.value_bytes // 14)
    number = 0
    while True:
        number += 1
        name = b"%s/%d/%d" % (flow.topic.encode(), writer, number)
        partition = (number // _ROW + writer) % flow.partitions
        timestamp = clock.now() - flow.age_ms - dice.randrange(50)
        key = b"%d" % dice.randrange(flow.keys or _CUSTOMERS)
        yield _shaped(FlowRecord(partition, key, name, None, timestamp), dice, filling, keyed=flow.keys > 0)


def _shaped(plain: FlowRecord, dice: random.Random, filling: bytes, *, keyed: bool) -> FlowRecord:
    """`keyed`: a record without a key would be refused."""
    name, value = plain.value, b"%s %s" % (plain.value, filling)
    match dice.randrange(16):
        case 0 if not keyed:
            return plain._replace(key=None, value=value)
        case 1:  # a tombstone
            return plain._replace(value=None, headers=[("name", name)])
        case 2:
            return plain._replace(key=b"", value=value, headers=[("empty", b""), ("none", None), ("empty", b"again")])
        case 3 | 4 | 5 | 6 | 7:
            return plain._replace(value=value, headers=[("trace", name)])
        case _:
            return plain._replace(value=value)
