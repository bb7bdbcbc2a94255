"""One whole comparison: load once, warm up, then each in turn, into topics that were not there before."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

from bench import relay
from bench.load import PARTITIONS, batch_kilobytes, produce
from bench.pair import delete_topics
from bench.sampling import Watch, figures, peak_megabytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.load import Load
    from bench.pair import Pair
    from bench.replicators import Replicator
    from bench.sampling import Figures

_TELL_EVERY: Final = 500_000  # records


@dataclass(slots=True)
class Measured:
    """What one load has shown: the figures of each round by replicator."""

    load: Load
    batch_kb: float
    replicators: tuple[Replicator, ...]
    """The first is ours, the last the peer."""
    relay_mb_per_cpu_s: float
    """Median of as many rounds: what a process reaches that passes the same bytes from socket to socket unseen."""
    rounds: dict[str, list[Figures]] = field(default_factory=dict)


def compare(
    pair: Pair, loads: Sequence[Load], replicators: tuple[Replicator, ...], rounds: int, say: Callable[[str], None]
) -> list[Measured]:
    """Measure `loads`, each by every one of `replicators`; who begins alternates.

    Raises:
        TanistError: one did not do its work.
    """
    found = [_loaded(pair, load, replicators, rounds, say) for load in loads]
    kept = tuple(load.topic for load in loads)
    for measured in found:
        say(f"{measured.load.title}: warm-up, not measured")
        _run(pair, replicators[0], measured.load, kept)
        for number in range(rounds):
            for who in replicators if number % 2 == 0 else reversed(replicators):
                result = _run(pair, who, measured.load, kept)
                measured.rounds.setdefault(who.name, []).append(result)
                say(_line(measured.load, number, who, result))
    return found


def _loaded(
    pair: Pair, load: Load, replicators: tuple[Replicator, ...], rounds: int, say: Callable[[str], None]
) -> Measured:
    def report(sent: int) -> None:
        if sent % _TELL_EVERY == 0:
            say(f"loading {load.title}: {sent / load.records:.0%}")

    produce(pair, load, report)
    relayed = median(relay.mb_per_cpu_s(pair, load) for _ in range(rounds))
    return Measured(load, batch_kilobytes(pair, load), replicators, relayed)


def _run(pair: Pair, mirrored: Replicator, load: Load, kept: tuple[str, ...]) -> Figures:
    """One copy of one topic by one of them; nothing of it is left."""
    watch = Watch(pair, mirrored.copy_of(load.topic), PARTITIONS, load.records, more=mirrored.markers)
    begun = pair.clock.monotonic()
    process = mirrored.start(pair, load)
    try:
        watch.until_copied(process, begun)
        peak = peak_megabytes(process.pid)
    finally:
        pair.end(process)
    delete_topics(pair.destination, (), pair.clock)
    delete_topics(pair.source, kept, pair.clock)
    return figures(watch.samples, load, peak)


def _line(load: Load, number: int, mirrored: Replicator, found: Figures) -> str:
    speed = f"{found.mb_per_s:.0f} MB/s, {found.mb_per_cpu_s:.0f} MB per CPU-s, {found.peak_mb:.0f} MB"
    return f"{load.title}: round {number + 1}, {mirrored.name}: {speed}"
