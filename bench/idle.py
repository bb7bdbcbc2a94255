"""`python -m bench.idle [PARTITIONS...]`: what a worker, and the source, cost that have many partitions at rest.

Of each number of partitions: the share of a core of the worker and of the source's broker, beyond what that takes
without a worker; the worker's memory; and how long the records of one busy partition among them take.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from bench import tanist_run
from bench.load import Load
from bench.pacing import TICK_SECONDS, Pace, writing
from bench.pair import client, create_topic, running
from bench.sampling import Watch, cpu_seconds, peak_megabytes
from tanist.cli.output import guard
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.pair import Pair

NUMBERS: Final = (300, 2_000, 10_000)
A_TOPIC: Final = 50
"""Partitions."""
BUSY: Final = "busy"
RATE: Final = 100
"""Records per second of the busy partition."""
SETTLE_SECONDS: Final = 15.0
FADED_SECONDS: Final = 330.0
"""The rate of a record a second has faded to nothing by then: until then ends are stored again, and not confirmed."""
MEASURE_SECONDS: Final = 20.0
FLUSH_SECONDS: Final = 30.0
SHARES: Final = {2_000: 0.03, 10_000: 0.10}
"""Of one core, at most, by partitions; 300: as 2,000."""
MEGABYTES: Final = {10_000: 300}
_NANOS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """`worker`, `source`: shares of a core. `median_ms`, `late_ms`: p50 and p99 of the busy partition's records."""

    partitions: int
    worker: float
    source: float
    megabytes: float
    median_ms: float
    late_ms: float

    def missed(self) -> Iterator[str]:
        """The targets that were not reached."""
        share, most = SHARES.get(self.partitions, 0.03), MEGABYTES.get(self.partitions, 300)
        if self.worker > share:
            yield f"{self.partitions} idle partitions: more than {share:.0%} of a core"
        if self.megabytes > most:
            yield f"{self.partitions} idle partitions: more than {most} MB"

    def __str__(self) -> str:
        return (
            f"{self.partitions:,} idle partitions: worker {self.worker:.1%} of a core, source {self.source:.1%}, "
            f"{self.megabytes:.0f} MB; one busy among them: p50 {self.median_ms:.0f} ms, p99 {self.late_ms:.0f} ms"
        )


def measure(partitions: int) -> Cost:
    """Between two new clusters; each idle partition has one record, and gets another one before it rests."""
    with running(SystemClock()) as pair:
        topics = [f"idle-{number}" for number in range(max(1, partitions // A_TOPIC))]
        for topic in topics:
            create_topic(pair.source, topic, A_TOPIC, {}, pair.clock)
            _one_record_each(pair, topic)
        create_topic(pair.source, BUSY, 1, {}, pair.clock)
        source = next(each.pid for each in pair.source.brokers if each.pid is not None)
        pair.clock.wait(SETTLE_SECONDS)
        alone = _share(pair, source)
        load = Load(topic=f"idle-.*|{BUSY}", size=1, records=partitions, target=0)
        process = tanist_run.start(pair, load, options=("--timeout", "4m"))
        begun = pair.clock.monotonic()
        try:
            for topic in topics:
                Watch(pair, topic, A_TOPIC, A_TOPIC).until_copied(process, begun)
            pair.clock.wait(SETTLE_SECONDS)
            for topic in topics:
                _one_record_each(pair, topic)
            for topic in topics:
                Watch(pair, topic, A_TOPIC, 2 * A_TOPIC).until_copied(process, begun)
            pair.clock.wait(FADED_SECONDS)
            at, before = pair.clock.monotonic(), (cpu_seconds(process.pid), cpu_seconds(source))
            pair.clock.wait(MEASURE_SECONDS)
            seconds = pair.clock.monotonic() - at
            worker, served = (cpu_seconds(process.pid) - before[0], cpu_seconds(source) - before[1])
            median, late = _busy_milliseconds(pair)
            return Cost(
                partitions=partitions,
                worker=worker / seconds,
                source=max(0.0, served / seconds - alone),
                megabytes=peak_megabytes(process.pid),
                median_ms=median,
                late_ms=late,
            )
        finally:
            pair.end(process)


def _share(pair: Pair, pid: int) -> float:
    at, before = pair.clock.monotonic(), cpu_seconds(pid)
    pair.clock.wait(MEASURE_SECONDS)
    return (cpu_seconds(pid) - before) / (pair.clock.monotonic() - at)


def _one_record_each(pair: Pair, topic: str) -> None:
    writer = LogWriter(client(pair.source))
    writer.write(topic, (FlowRecord(partition, value=b"x") for partition in range(A_TOPIC)))
    writer.producer.flush(FLUSH_SECONDS)


def _busy_milliseconds(pair: Pair) -> tuple[float, float]:
    """p50 and p99, from the producer at the source to a reader at the destination."""
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer(client(pair.destination, group_id="bench-idle", fetch_wait_max_ms=20, enable_auto_commit=False))
    reader.assign([TopicPartition(BUSY, 0, 0)])
    found: list[float] = []
    try:
        with writing(client(pair.source, linger_ms=1, acks="all"), Pace(BUSY, 1, RATE, _now)):
            first, last = time.monotonic() + SETTLE_SECONDS, time.monotonic() + SETTLE_SECONDS + MEASURE_SECONDS
            while (now := time.monotonic()) < last:
                for message in reader.consume(1_000, TICK_SECONDS):
                    now, at = time.monotonic(), int.from_bytes(message.value() or b"", "big") / 1e9
                    if first <= at:
                        found.append(1e3 * (now - at))
    finally:
        reader.close()
    parts = quantiles(found, n=100, method="inclusive")
    return parts[49], parts[98]


def _now() -> bytes:
    return time.monotonic_ns().to_bytes(_NANOS, "big")


def main(numbers: tuple[int, ...]) -> int:
    """1 when it costs more than the targets."""
    missed: list[str] = []
    with guard():
        for each in numbers:
            cost = measure(each)
            print(cost, flush=True)
            missed += cost.missed()
    for what in missed:
        print(f"missed: {what}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(tuple(map(int, sys.argv[1:])) or NUMBERS))
