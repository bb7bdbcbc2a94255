"""Prometheus metrics of the service: the quantities of KIP-1279 under Prometheus-style names."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tanist.domain.errors import Misconfigured
from tanist.domain.latency import BOUNDS_MS, Latency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.core import Metric

    from tanist.domain.names import MirrorName
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import PartitionKey, Report
    from tanist.fetcher.service import Service
    from tanist.fetcher.throttle import ThrottledBy


class FetcherCollector(Collector):
    """Collects on each scrape; no cost in between."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        reports = self._service.reports()
        yield _states(self._service.view())
        yield _per_mirror(
            GaugeMetricFamily(
                "tanist_max_lag_records", "Largest lag of any partition, in offsets (MaxLag)", labels=["mirror"]
            ),
            [(copied.mirror, _lag(report)) for copied, report in reports.items()],
            max,
        )
        yield _per_mirror(
            CounterMetricFamily("tanist_copied_records", "Records copied by this worker", labels=["mirror"]),
            [(copied.mirror, report.records) for copied, report in reports.items()],
            sum,
        )
        yield _per_mirror(
            CounterMetricFamily("tanist_copied_bytes", "Bytes copied by this worker (BytesPerSec)", labels=["mirror"]),
            [(copied.mirror, report.bytes) for copied, report in reports.items()],
            sum,
        )
        yield _per_mirror(
            GaugeMetricFamily(
                "tanist_troubled_partitions", "Partitions that currently cannot be copied", labels=["mirror"]
            ),
            [(copied.mirror, int(report.error is not None)) for copied, report in reports.items()],
            sum,
        )
        yield _throttled(self._service.throttled_seconds())
        yield _latencies(reports)


def _throttled(seconds: Mapping[tuple[MirrorName, ThrottledBy], float]) -> Metric:
    family = CounterMetricFamily(
        "tanist_throttled_seconds",
        "How long threads of this worker were made to wait by quotas of the brokers of a cluster",
        labels=["mirror", "cluster"],
    )
    for (mirror, cluster), found in sorted(seconds.items()):
        family.add_metric([mirror, cluster], found)
    return family


def _latencies(reports: Mapping[PartitionKey, Report]) -> Metric:
    """By topic. The time of the newest record of a batch counts for the batch."""
    family = HistogramMetricFamily(
        "tanist_replication_latency_seconds",
        "From the timestamp of a record to its acknowledgement at the destination, of records that this worker copied",
        labels=["mirror", "topic"],
    )
    found: defaultdict[tuple[str, str], list[Latency]] = defaultdict(list)
    for copied, report in reports.items():
        if report.latency.records:
            found[copied.mirror, copied.partition.topic].append(report.latency)
    for labels, each in sorted(found.items()):
        latency = Latency.of_all(each)
        bounds = (*(f"{ms / 1000:g}" for ms in BOUNDS_MS), "+Inf")
        family.add_metric(labels, list(zip(bounds, latency.at_most, strict=True)), latency.total_ms / 1000)
    return family


def _states(view: StateView) -> Metric:
    family = GaugeMetricFamily("tanist_partitions", "Partitions by state, all workers", labels=["mirror", "state"])
    # of topics on record: a worker may have reported a partition once more after its topic was detached
    every = (each for each in view.all_observed() if view.topic(each.mirror, each.partition.topic) is not None)
    found = Counter((each.mirror, each.state.value) for each in every)
    for (mirror, state), count in sorted(found.items()):
        family.add_metric([mirror, state], count)
    return family


def _per_mirror(
    family: GaugeMetricFamily | CounterMetricFamily,
    values: list[tuple[str, int]],
    together: Callable[[list[int]], int],
) -> Metric:
    for mirror in sorted({mirror for mirror, _ in values}):
        family.add_metric([mirror], together([value for name, value in values if name == mirror]))
    return family


def _lag(report: Report) -> int:
    if report.source_high_watermark is None or report.position is None:
        return 0
    return max(0, report.source_high_watermark - report.position)


def serve(service: Service, port: int) -> None:
    """Serve the metrics of `service` on `port` of every address, from a thread of its own.

    Raises:
        Misconfigured: the port is not available.
    """
    REGISTRY.register(FetcherCollector(service))
    try:
        start_http_server(port)
    except OSError as taken:
        raise Misconfigured(f"--metrics-port {port}: {taken.strerror or taken}") from taken
