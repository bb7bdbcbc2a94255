"""`python -m bench.markers`: what transactions cost where many partitions each have few records.

Every transaction leaves one marker in each of its partitions, whatever it has copied there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from bench.latency import mapped_every
from bench.load import Load
from bench.pacing import Pace, writing
from bench.pair import client, create_topic, delete_topics, running
from bench.replicators import IDENTICAL, MM2_EXACTLY_ONCE
from bench.sampling import Watch, cpu_seconds
from tanist.cli.output import guard, say
from tanist.domain.errors import TimedOut
from tanist.domain.mapped_settings import DEFAULT_INTERVAL_MS
from tanist.kafka.wire.clock import SystemClock

if TYPE_CHECKING:
    from bench.pair import Pair
    from bench.replicators import Replicator
    from tanist_testkit.sandbox.cluster import SandboxCluster

TOPIC: Final = "bench-markers"
SIZE: Final = 100
"""Bytes of a value."""
SETTLE_SECONDS: Final = 10.0
INTERVALS_MS: Final = (DEFAULT_INTERVAL_MS, 5_000)
VALUE: Final = bytes(SIZE)


class Cost(NamedTuple):
    """Shares of a core, and how much longer than its records the copy has become: offsets for each record."""

    copier: float
    broker: float
    offsets: float


def _broker_seconds(cluster: SandboxCluster) -> float:
    return sum(cpu_seconds(each.pid) for each in cluster.brokers if each.pid is not None)


def measure(pair: Pair, replicator: Replicator, partitions: int, rate: int, seconds: float) -> Cost:
    """While records go on coming.

    Raises:
        TanistError: it does not copy, or not as fast as they come.
    """
    create_topic(pair.source, TOPIC, partitions, {}, pair.clock)
    copy = replicator.copy_of(TOPIC)
    pace = Pace(TOPIC, partitions, rate, lambda: VALUE)
    with writing(client(pair.source, linger_ms=5), pace):
        begun = pair.clock.monotonic()
        process = replicator.start(pair, Load(topic=TOPIC, size=SIZE, records=0, target=0))
        try:
            Watch(pair, copy, partitions, 2 * partitions, more=True).until_copied(process, begun)
            pair.clock.wait(SETTLE_SECONDS)
            looks = []
            for wait in (seconds, 0.0):
                ends = Watch(pair, copy, partitions, 0, more=True).records_now(process)
                looks.append(
                    (pair.clock.monotonic(), cpu_seconds(process.pid), _broker_seconds(pair.destination), ends)
                )
                pair.clock.wait(wait)
        finally:
            pair.end(process)
    for cluster in (pair.destination, pair.source):
        delete_topics(cluster, (), pair.clock)
    took, copier, broker, offsets = (after - before for before, after in zip(*looks, strict=True))
    if offsets < 0.9 * rate * took:
        raise TimedOut(f"{replicator.name}: {offsets:.0f} offsets in {took:.0f} s, of {rate} records a second")
    return Cost(copier / took, broker / took, offsets / (rate * took))


def main(
    *,
    partitions: Annotated[int, typer.Option(min=1)] = 2_000,
    rate: Annotated[int, typer.Option(min=1, help="Records a second, of all partitions.")] = 2_000,
    seconds: Annotated[float, typer.Option(min=1, help="How long each is measured.")] = 30,
) -> None:
    """Measure identical offsets, mapped ones at two intervals, and MirrorMaker 2 with exactly-once support."""
    table = Table("copier", "its CPU", "CPU of the destination's broker", "offsets for each record")
    with guard(), running(SystemClock()) as pair:
        for each in (IDENTICAL, *map(mapped_every, INTERVALS_MS), MM2_EXACTLY_ONCE):
            cost = measure(pair, each, partitions, rate, seconds)
            shown = (f"{cost.copier:.0%}", f"{cost.broker:.0%}", f"{cost.offsets:.2f}")
            say(f"{each.name}: {shown[0]} of a core, broker {shown[1]}, {shown[2]} offsets for each record")
            table.add_row(each.name, *shown)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
