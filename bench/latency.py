"""`python -m bench.latency`: how long records are on their way, from the source's producer to a reader of the copy.

The reader reads committed records. Producer, copier, reader and both clusters share the machine and its clock. First
it reads at the source, without any copier: no copy can be sooner than that.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from statistics import quantiles
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from bench import mm2_run, tanist_run
from bench.load import PARTITIONS, Load
from bench.pacing import TICK_SECONDS, Pace, writing
from bench.pair import DESTINATION, SOURCE, client, create_topic, delete_topics, running
from bench.replicators import IDENTICAL, MAPPED, MM2, MM2_EXACTLY_ONCE, Replicator
from tanist.cli.output import guard, say
from tanist.domain.errors import TimedOut
from tanist.domain.mapped_settings import DEFAULT_INTERVAL_MS
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.pair import Pair
    from tanist.ports.clock import Clock
    from tanist_testkit.sandbox.cluster import SandboxCluster

TOPIC: Final = "bench-latency"
SIZE: Final = 100
"""Bytes of a value."""
RATES: Final = "10,1000,20000"
INTERVALS_MS: Final = (100, 2_000)
WARM_UP_SECONDS: Final = 12.0
START_SECONDS: Final = 90.0
_NANOS: Final = 8
_SOON: Final[Mapping[str, object]] = MappingProxyType(
    {
        f"{SOURCE}.consumer.fetch.min.bytes": 1,
        f"{DESTINATION}.producer.linger.ms": 0,
    }
)
"""Of MirrorMaker 2, which other benchmarks give time to fill its batches."""


def _hurried(replicator: Replicator) -> Replicator:
    start = replicator.start
    more: dict[str, object] = dict(start.keywords["more"]) if isinstance(start, partial) else {}
    return replace(replicator, start=partial(mm2_run.start, more=MappingProxyType({**more, **_SOON})))


def mapped_every(interval_ms: int) -> Replicator:
    """A mirror with mapped offsets that ends its transactions so often."""
    options = ("--offsets", "mapped", "--transaction-ms", str(interval_ms))
    start = partial(tanist_run.start, options=options)
    return replace(MAPPED, name=f"{MAPPED.name}, {interval_ms} ms", start=start)


NO_COPIER: Final = "none, at the source"
REPLICATORS: Final = (
    None,
    IDENTICAL,
    *(mapped_every(each) for each in sorted({DEFAULT_INTERVAL_MS, *INTERVALS_MS})),
    _hurried(MM2),
    _hurried(MM2_EXACTLY_ONCE),
)


def _now() -> bytes:
    """A value with the time of its sending."""
    return time.monotonic_ns().to_bytes(_NANOS, "big") + bytes(SIZE - _NANOS)


def _milliseconds(at: SandboxCluster, topic: str, seconds: float, clock: Clock) -> list[float]:
    """Of every record of `topic` that was sent in so many seconds after the warm-up.

    Raises:
        TimedOut: there is no such topic, or nothing in it.
    """
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer(
        client(
            at,
            group_id="bench-latency",
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_wait_max_ms=20,
        )
    )
    try:
        by = clock.deadline(START_SECONDS)
        until(lambda: topic in reader.list_topics(timeout=START_SECONDS).topics, by, clock, lambda: "no topic", 0.2)
        reader.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
        if not reader.consume(1, START_SECONDS):
            raise TimedOut(f"{topic}: there is nothing in it")
        first = time.monotonic() + WARM_UP_SECONDS
        last, found = first + seconds, list[float]()
        while (now := time.monotonic()) < last + 1:
            if (message := reader.poll(TICK_SECONDS)) is not None:  # one at a time: none waits for a second
                now = time.monotonic()
                sent = int.from_bytes((message.value() or b"")[:_NANOS], "big") / 1e9
                if first <= sent < last:
                    found.append((now - sent) * 1e3)
        return found
    finally:
        reader.close()


def measure(pair: Pair, replicator: Replicator | None, rate: int, seconds: float) -> tuple[float, float, float]:
    """p50, p99 and p99.9 in ms; None: the reader reads at the source.

    Raises:
        TanistError: it does not copy.
    """
    create_topic(pair.source, TOPIC, PARTITIONS, {}, pair.clock)
    with writing(client(pair.source, linger_ms=1, acks="all"), Pace(TOPIC, PARTITIONS, rate, _now)):
        if replicator is None:
            found = _milliseconds(pair.source, TOPIC, seconds, pair.clock)
        else:
            process = replicator.start(pair, Load(topic=TOPIC, size=SIZE, records=0, target=0))
            try:
                found = _milliseconds(pair.destination, replicator.copy_of(TOPIC), seconds, pair.clock)
            finally:
                pair.end(process)
    for cluster in (pair.destination, pair.source):
        delete_topics(cluster, (), pair.clock)
    if len(found) < rate * seconds / 2:
        raise TimedOut(f"{_name(replicator)}: {len(found)} of {rate * seconds:.0f} records have arrived")
    parts = quantiles(found, n=1_000, method="inclusive")
    return parts[499], parts[989], parts[998]


def _name(replicator: Replicator | None) -> str:
    return NO_COPIER if replicator is None else replicator.name


def main(
    *,
    rates: Annotated[str, typer.Option(help="Records a second, separated by commas.")] = RATES,
    seconds: Annotated[float, typer.Option(min=1, help="How long each is measured, after its warm-up.")] = 20,
    only: Annotated[str, typer.Option(help="Only copiers whose names contain this.")] = "",
) -> None:
    """Measure them. Exit code 1 when p99 of identical mirrors is not below MirrorMaker 2's p50."""
    found: dict[tuple[int, str], tuple[float, float, float]] = {}
    table = Table("records/s", "copier", "p50 ms", "p99 ms", "p99.9 ms")
    with guard(), running(SystemClock()) as pair:
        for rate in map(int, rates.split(",")):
            for each in REPLICATORS:
                if only in (name := _name(each)):
                    found[rate, name] = three = measure(pair, each, rate, seconds)
                    shown = [f"{ms:,.1f}" for ms in three]
                    say(f"{rate} records/s, {name}: p50 {shown[0]}, p99 {shown[1]}, p99.9 {shown[2]} ms")
                    table.add_row(f"{rate:,}", name, *shown)
    Console().print(table)
    late = [
        rate
        for (rate, name), ours in found.items()
        if name == IDENTICAL.name and (theirs := found.get((rate, MM2.name))) and ours[1] >= theirs[0]
    ]
    for rate in late:
        say(f"missed: p99 of identical mirrors is not below the p50 of {MM2.name} at {rate} records/s")
    raise typer.Exit(1 if late else 0)


if __name__ == "__main__":
    typer.run(main)
