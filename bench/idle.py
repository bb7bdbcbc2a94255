"""`python -m bench.idle`: what a worker costs that has many partitions and nothing to do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from bench import tanist_run
from bench.load import PARTITIONS, Load
from bench.pair import client, create_topic, running
from bench.sampling import Watch, cpu_seconds, peak_megabytes
from tanist.cli.output import guard
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter

if TYPE_CHECKING:
    from bench.pair import Pair

IDLE: Final = 300
"""Partitions."""
SETTLE_SECONDS: Final = 5.0
MEASURE_SECONDS: Final = 20.0
TARGET: Final = 0.05
"""Of one core."""


def measure(pair: Pair) -> tuple[float, float]:
    """The share of a core and the memory in MB of a worker that has copied one record of each partition."""
    per_topic = 6 * PARTITIONS + 2
    topics = [f"idle-{number}" for number in range(IDLE // per_topic)]
    for topic in topics:
        create_topic(pair.source, topic, per_topic, {}, pair.clock)
        _one_record_each(pair, topic, per_topic)
    begun = pair.clock.monotonic()
    process = tanist_run.start(pair, Load(topic="idle-.*", size=1, records=IDLE, target=0))
    try:
        for topic in topics:
            Watch(pair, topic, per_topic, per_topic).until_copied(process, begun)
        pair.clock.wait(SETTLE_SECONDS)
        at, cpu = pair.clock.monotonic(), cpu_seconds(process.pid)
        pair.clock.wait(MEASURE_SECONDS)
        used = (cpu_seconds(process.pid) - cpu) / (pair.clock.monotonic() - at)
        return used, peak_megabytes(process.pid)
    finally:
        pair.end(process)


def _one_record_each(pair: Pair, topic: str, partitions: int) -> None:
    writer = LogWriter(client(pair.source))
    writer.write(topic, (FlowRecord(partition, value=b"x") for partition in range(partitions)))
    writer.producer.flush(SETTLE_SECONDS)


def main() -> int:
    """1 when it costs more than the target."""
    with guard(), running(SystemClock()) as pair:
        used, megabytes = measure(pair)
    verdict = "" if used < TARGET else f", more than {TARGET:.0%}"
    print(f"{IDLE} idle partitions: {used:.1%} of a core, {megabytes:.0f} MB{verdict}")
    return 0 if used < TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
