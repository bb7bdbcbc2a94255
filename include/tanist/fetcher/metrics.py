"""Prometheus metrics of a worker: the families of `domain.metrics`, each with what its values are made of."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tanist.domain.checks import Mode, Readiness
from tanist.domain.failback.pending import tails_of
from tanist.domain.failover.limitations import SILENT_MS
from tanist.domain.groups_behind import groups_behind
from tanist.domain.latency import BOUNDS_MS, Latency
from tanist.domain.metrics import METRICS, MetricFamily, MetricKind
from tanist.domain.states import DesiredState, MirrorState
from tanist.fetcher.numbers import furthest, idle, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from tanist.domain.lag import KnownLag
    from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import PartitionKey, Report
    from tanist.fetcher.numbers import MirrorNumbers
    from tanist.fetcher.totals import WorkerTotals
    from tanist.kafka.wire.totals import ConnectionTotals
    from tanist.ports.clock import Clock

FRESH_SECONDS: Final = 5.0
"""A scrape that comes sooner gets the same answer: however many scrape, the partitions are gone through this often."""
GROUPS_SECONDS: Final = 30.0
"""So often positions of groups are compared with what is copied: there may be a hundred thousand."""
MOST_TOPICS: Final = 100
"""So many topics have a histogram, those that were copied first; the others have one together."""
_OTHERS: Final = ""
_NAMED_BY: Final[Mapping[MetricKind, Callable[[str, str], Metric]]] = MappingProxyType(
    {
        MetricKind.GAUGE: GaugeMetricFamily,
        MetricKind.COUNTER: CounterMetricFamily,
        MetricKind.HISTOGRAM: HistogramMetricFamily,
    }
)
Sample: TypeAlias = "tuple[tuple[str, ...], float]"
"""The values of the labels, and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorVerdicts:
    """The verdicts on a failover of one mirror. `at`: when the clusters last answered, ms since 1970; None: not yet.

    `lags`: of all its partitions, as they were seen then.
    """

    words: Mapping[Mode, Readiness]
    at: EpochMs | None
    lags: Mapping[MirrorPartition, KnownLag] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scraped:
    """What one answer is made of. `held`: the mirrors that this worker looks after, and that Tanist copies.

    `verdicts`: of them, if known.
    """

    now: EpochMs
    state: StateView
    groups: StateView
    assigned: Mapping[PartitionKey, object]
    reports: Mapping[PartitionKey, Report]
    totals: WorkerTotals
    dead_threads: Mapping[MirrorName, int]
    held: frozenset[MirrorName]
    verdicts: Mapping[MirrorName, MirrorVerdicts]

    @cached_property
    def idle(self) -> Mapping[PartitionKey, KnownLag]:
        """What no worker copies of the mirrors that this one looks after."""
        known = {mirror: self.verdicts.get(mirror) for mirror in self.held}
        return idle(self.state, {mirror: each.lags if each else {} for mirror, each in known.items()})


class WorkerCollector(Collector):
    """Answers scrapes from any thread; no cost in between."""

    def __init__(self, scrape: Callable[[], Scraped], clock: Clock) -> None:
        self._scrape, self._clock = scrape, clock
        self._lock = threading.Lock()
        self._answer: list[Metric] = []
        self._at = self._groups_at = float("-inf")
        self._behind: dict[str, int] = {}
        self._named: set[tuple[str, str]] = set()

    def describe(self) -> Iterable[Metric]:
        """The families without values, for `name[]` of a scrape: who asks for names must not look at the partitions."""
        return [_NAMED_BY[family.kind](family.name.removesuffix("_total"), family.help) for family in METRICS]

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            now = self._clock.monotonic()
            if now - self._at >= FRESH_SECONDS:
                self._answer = list(self._families(self._scrape(), now))
                self._at = self._clock.monotonic()
            return iter(self._answer)

    def _families(self, seen: Scraped, now: float) -> Iterator[Metric]:
        if now - self._groups_at >= GROUPS_SECONDS:
            self._groups_at, self._behind = now, dict(_groups_behind(seen))
        found = numbers(seen.assigned, seen.reports, seen.idle, seen.now)
        for family in METRICS:
            if family.kind is MetricKind.HISTOGRAM:
                yield _latencies(family, seen.totals, self._named)
            elif family.name == "tanist_groups_behind":
                yield _filled(family, (((mirror,), count) for mirror, count in sorted(self._behind.items())))
            elif family.name in _LAGS:
                of = _LAGS[family.name]
                yield _filled(family, (((mirror,), of(each)) for mirror, each in sorted(found.items())))
            else:
                yield _filled(family, VALUES[family.name](seen))


def _filled(family: MetricFamily, samples: Iterable[Sample]) -> Metric:
    kind = CounterMetricFamily if family.kind is MetricKind.COUNTER else GaugeMetricFamily
    made = kind(family.name.removesuffix("_total"), family.help, labels=family.labels)
    for labels, value in samples:
        made.add_metric(labels, value)
    return made


def _latencies(family: MetricFamily, totals: WorkerTotals, named: set[tuple[str, str]]) -> Metric:
    """`named`: the topics that have a series, which stay the same as long as the process lives."""
    made = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    found: dict[tuple[str, str], list[Latency]] = {}
    for key, thread in totals.threads().items():
        for topic, copied in dict(thread.topics).items():
            labels: tuple[str, str] = (key.mirror, topic)
            if copied.records and len(named) < MOST_TOPICS:
                named.add(labels)
            found.setdefault(labels if labels in named else (key.mirror, _OTHERS), []).append(copied.latency)
    bounds = (*(f"{ms / 1000:g}" for ms in BOUNDS_MS), "+Inf")
    for labels, each in sorted(found.items()):
        latency = Latency.of_all(each)
        if latency.records:
            made.add_metric(labels, list(zip(bounds, latency.at_most, strict=True)), latency.total_ms / 1000)
    return made


_LAGS: Final[Mapping[str, Callable[[MirrorNumbers], float]]] = MappingProxyType(
    {
        "tanist_lag_records": lambda each: each.lag,
        "tanist_max_lag_records": lambda each: each.largest,
        "tanist_lag_bytes": lambda each: each.size,
        "tanist_lag_seconds": lambda each: each.ms / 1000,
        "tanist_lag_unknown_partitions": lambda each: each.unknown,
        "tanist_troubled_partitions": lambda each: each.troubled,
    }
)


# ── what this worker copies ───────────────────────────────────────────────────────────────────────────────────────


def _furthest(seen: Scraped) -> Iterator[Sample]:
    for (mirror, at), behind in furthest(seen.reports.items(), seen.idle.items()):
        yield (mirror, at.topic, str(at.partition)), behind


def _copied(of: Callable[[int, int], int]) -> Callable[[Scraped], Iterator[Sample]]:
    """By mirror, from (records, bytes) of each topic."""

    def values(seen: Scraped) -> Iterator[Sample]:
        found: Counter[str] = Counter()
        for key, thread in seen.totals.threads().items():
            found[key.mirror] += sum(of(each.records, each.bytes) for each in list(thread.topics.values()))
        yield from (((mirror,), count) for mirror, count in sorted(found.items()))

    return values


def _fetches(seen: Scraped) -> Iterator[Sample]:
    for key, thread in sorted(seen.totals.threads().items(), key=lambda each: each[0]):
        broker = str(key.broker) if key.broker >= 0 else "all"
        yield (key.mirror, broker if not key.number else f"{broker}-{key.number}"), thread.source.fetches


def _connections(of: Callable[[ConnectionTotals], float]) -> Callable[[Scraped], Iterator[Sample]]:
    """By mirror and end of the copy."""

    def values(seen: Scraped) -> Iterator[Sample]:
        found: dict[tuple[str, str], float] = {}
        for key, thread in seen.totals.threads().items():
            for end, each in (("source", thread.source), ("destination", thread.destination)):
                found[key.mirror, end] = found.get((key.mirror, end), 0.0) + of(each)
        yield from sorted(found.items())

    return values


def _dead_threads(seen: Scraped) -> Iterator[Sample]:
    mirrors = sorted({key.mirror for key in seen.totals.threads()} | seen.dead_threads.keys())
    yield from (((mirror,), seen.dead_threads.get(mirror, 0)) for mirror in mirrors)


def _thread_deaths(seen: Scraped) -> Iterator[Sample]:
    deaths = seen.totals.deaths()
    mirrors = sorted({key.mirror for key in seen.totals.threads()} | deaths.keys())
    yield from (((mirror,), deaths.get(mirror, 0)) for mirror in mirrors)


def _sync_errors(seen: Scraped) -> Iterator[Sample]:
    counts = seen.totals.sync_errors()
    for mirror, kind in sorted(counts):
        yield (mirror, kind), counts[mirror, kind]


def _certificates(seen: Scraped) -> Iterator[Sample]:
    found: dict[tuple[str, str], float] = {}
    for key, thread in seen.totals.threads().items():
        if (spec := seen.state.mirror(key.mirror)) is None:
            continue
        for cluster, each in ((spec.source, thread.source), (spec.destination, thread.destination)):
            found |= {(cluster, which): until / 1000 for which, until in dict(each.certificates).items()}
    yield from sorted(found.items())


# ── what the state topics say ─────────────────────────────────────────────────────────────────────────────────────


def _states(seen: Scraped) -> Iterator[Sample]:
    # of topics on record: a worker may have reported a partition once more after its topic was detached
    view = seen.state
    topics = {(each.mirror, each.topic) for each in view.topics()}
    every = (each for each in view.all_observed() if (each.mirror, each.partition.topic) in topics)
    found = Counter((each.mirror, each.state) for each in every)
    for spec in view.mirrors():
        yield from (((spec.mirror, state), found[spec.mirror, state]) for state in MirrorState)


def _each_mirror(
    of: Callable[[MirrorSpec, Scraped], Iterable[tuple[tuple[str, ...], float]]],
) -> Callable[[Scraped], Iterator[Sample]]:
    """Of each mirror on record; `of` has the labels behind the mirror."""

    def values(seen: Scraped) -> Iterator[Sample]:
        for spec in seen.state.mirrors():
            yield from (((spec.mirror, *labels), value) for labels, value in of(spec, seen))

    return values


def _fences(spec: MirrorSpec, seen: Scraped) -> Iterator[Sample]:
    found = Counter(each.status.name.lower() for each in seen.state.source_fences(spec.mirror))
    yield from (((status,), count) for status, count in sorted(found.items()))


def _tails(spec: MirrorSpec, seen: Scraped) -> Iterator[Sample]:
    found = Counter(str(each.stage) for each in tails_of(seen.state, spec.mirror))
    yield from (((stage,), count) for stage, count in sorted(found.items()))


def _lost(spec: MirrorSpec, seen: Scraped) -> Iterator[Sample]:
    yield (), sum(each.offsets for each in seen.state.losses(spec.mirror))


def _unfinished(spec: MirrorSpec, seen: Scraped) -> Iterator[Sample]:
    yield (), seen.state.unfinished(spec.mirror) is not None


def _groups(spec: MirrorSpec, seen: Scraped) -> Iterator[Sample]:
    followed = seen.groups.groups_followed(spec)
    yield (), followed.groups if followed is not None else 0


def _groups_behind(seen: Scraped) -> Iterator[tuple[str, int]]:
    for spec in seen.state.mirrors():
        if spec.mirror in seen.held:
            ends = seen.state.source_ends(spec.mirror)
            yield spec.mirror, len(groups_behind(seen.groups.group_positions(spec), ends))


def _workers(seen: Scraped) -> Iterator[Sample]:
    yield (), sum(seen.now - each.at <= SILENT_MS for each in seen.state.workers())


def _look_ages(spec: MirrorSpec, seen: Scraped) -> Iterator[Sample]:
    followed, verdicts = seen.groups.groups_followed(spec), seen.verdicts.get(spec.mirror)
    groups_at = followed.complete_until_ms if followed is not None else 0
    looks = {"groups": groups_at or spec.created_at, "source": _source_answered_at(spec, seen.state)}
    if spec.mirror in seen.held:
        looks["verdict"] = (verdicts.at if verdicts is not None else None) or spec.created_at
    for look, at in sorted(looks.items()):
        if at is not None:
            yield (look,), max(0, seen.now - at) / 1000


def _source_answered_at(spec: MirrorSpec, view: StateView) -> EpochMs | None:
    """The oldest last answer about a partition in MIRRORING, as is wished of it; None: there is no such partition.

    One whose topic has failed over is not asked for any more, and may have been observed in MIRRORING last.
    """
    wished = {each.topic for each in view.mirrored(spec.mirror) if each.desired is DesiredState.MIRRORING}
    mirroring = {
        spec.names.at_source(each.partition)
        for each in view.all_observed()
        if each.mirror == spec.mirror and each.state is MirrorState.MIRRORING and each.partition.topic in wished
    }
    if not mirroring:
        return None
    known = {end.partition: record.seen(end) for record in view.source_ends(spec.mirror) for end in record.ends}
    return min(known.get(at, spec.created_at) for at in mirroring)


def _verdicts(seen: Scraped) -> Iterator[Sample]:
    """A mirror whose topics have all failed over has none: there is nothing to fail over."""
    for mirror, found in sorted(seen.verdicts.items()):
        if mirror in seen.held and seen.state.mirrored(mirror):
            for mode, word in found.words.items():
                yield from (((mirror, mode, each), each is word) for each in Readiness)


VALUES: Final[Mapping[str, Callable[[Scraped], Iterable[Sample]]]] = MappingProxyType(
    {
        "tanist_partitions": _states,
        "tanist_partition_lag_records": _furthest,
        "tanist_copied_records_total": _copied(lambda records, _: records),
        "tanist_copied_bytes_total": _copied(lambda _, size: size),
        "tanist_fetches_total": _fetches,
        "tanist_requests_total": _connections(lambda each: each.requests),
        "tanist_sent_bytes_total": _connections(lambda each: each.sent_bytes),
        "tanist_received_bytes_total": _connections(lambda each: each.received_bytes),
        "tanist_connections_total": _connections(lambda each: each.connections),
        "tanist_connection_failures_total": _connections(lambda each: each.failures),
        "tanist_throttled_seconds_total": _connections(lambda each: each.throttled_ms / 1000),
        "tanist_dead_threads": _dead_threads,
        "tanist_thread_deaths_total": _thread_deaths,
        "tanist_sync_errors_total": _sync_errors,
        "tanist_failover_verdict": _verdicts,
        "tanist_look_age_seconds": _each_mirror(_look_ages),
        "tanist_workers_alive": _workers,
        "tanist_fences": _each_mirror(_fences),
        "tanist_tails": _each_mirror(_tails),
        "tanist_lost_offsets": _each_mirror(_lost),
        "tanist_unfinished_failovers": _each_mirror(_unfinished),
        "tanist_groups": _each_mirror(_groups),
        "tanist_certificate_expiry_timestamp_seconds": _certificates,
    }
)
"""How each family that is not a lag is made."""
