"""The registry of metrics: every family that a worker exports, and what stands for each metric of KIP-1279.

The exporter and the reference page are made of it. Names follow Prometheus: base units, `_total` for counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricKind(StrEnum):
    GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


class MetricScope(StrEnum):
    """Of what a worker speaks; it says how the values of several workers are put together."""

    WORKER = "what this worker copies: add up over workers, or take the largest of a maximum"
    STATE = "the state topics: every worker says the same, so take any"
    MIRROR = "the one worker that looks after the mirror: the others have no such series"


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One family. `name`: as its samples have it, a counter with `_total`, a histogram without a suffix."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    scope: MetricScope
    help: str


_G, _C, _H = MetricKind
_WORKER, _STATE, _MIRROR = MetricScope
_BY_MIRROR: Final = ("mirror",)
_BY_CLUSTER: Final = ("mirror", "cluster")

METRICS: Final = (
    MetricFamily("tanist_partitions", _G, ("mirror", "state"), _STATE, "Partitions by state"),
    MetricFamily(
        "tanist_lag_records",
        _G,
        _BY_MIRROR,
        _WORKER,
        "Offsets of the sources that are not copied, as far as is known, whatever the state of a partition: the worker "
        "that looks after the mirror counts what no worker copies (PAUSED, FAILED, STOPPED), as its verdicts saw it",
    ),
    MetricFamily("tanist_max_lag_records", _G, _BY_MIRROR, _WORKER, "Largest lag of any partition, in offsets"),
    MetricFamily(
        "tanist_lag_bytes",
        _G,
        _BY_MIRROR,
        _WORKER,
        "The lag in bytes: estimated by the average of what was copied of each partition; NaN before that",
    ),
    MetricFamily(
        "tanist_lag_seconds",
        _G,
        _BY_MIRROR,
        _WORKER,
        "Age of the first record that is not copied: at most that by its timestamp, and no older than the last moment "
        "at which nothing was missing; what only an open transaction has written does not count",
    ),
    MetricFamily(
        "tanist_lag_unknown_partitions",
        _G,
        _BY_MIRROR,
        _WORKER,
        "Partitions whose lag, or its age, is not known: the other lags do not count them",
    ),
    MetricFamily(
        "tanist_partition_lag_records",
        _G,
        ("mirror", "topic", "partition"),
        _WORKER,
        "Lag of the 100 partitions that are furthest behind, in offsets; one that does not lag has no series",
    ),
    MetricFamily(
        "tanist_troubled_partitions",
        _G,
        _BY_MIRROR,
        _WORKER,
        "Partitions that should be copied and currently cannot; not those that FAILED",
    ),
    MetricFamily("tanist_copied_records_total", _C, _BY_MIRROR, _WORKER, "Records copied"),
    MetricFamily("tanist_copied_bytes_total", _C, _BY_MIRROR, _WORKER, "Bytes copied, as batches have them"),
    MetricFamily(
        "tanist_replication_latency_seconds",
        _H,
        ("mirror", "topic"),
        _WORKER,
        "From the timestamp of a record to its acknowledgement at the destination; the newest record of a batch counts "
        "for the batch. Of the first 100 topics that were copied; of the others together, without a topic",
    ),
    MetricFamily(
        "tanist_fetches_total",
        _C,
        ("mirror", "source_broker"),
        _WORKER,
        "Fetches of records that were sent to a source",
    ),
    MetricFamily(
        "tanist_requests_total", _C, _BY_CLUSTER, _WORKER, "Requests of fetcher threads to the source or destination"
    ),
    MetricFamily("tanist_sent_bytes_total", _C, _BY_CLUSTER, _WORKER, "Bytes of these requests"),
    MetricFamily("tanist_received_bytes_total", _C, _BY_CLUSTER, _WORKER, "Bytes of the answers to them"),
    MetricFamily("tanist_connections_total", _C, _BY_CLUSTER, _WORKER, "Connections that fetcher threads have opened"),
    MetricFamily(
        "tanist_connection_failures_total",
        _C,
        _BY_CLUSTER,
        _WORKER,
        "Connections that they could not open, or log in to",
    ),
    MetricFamily(
        "tanist_throttled_seconds_total",
        _C,
        _BY_CLUSTER,
        _WORKER,
        "How long brokers have throttled fetches (source) and appends (destination), as their answers say",
    ),
    MetricFamily(
        "tanist_dead_threads",
        _G,
        _BY_MIRROR,
        _WORKER,
        "Fetcher threads that have ended by themselves and are not restarted yet",
    ),
    MetricFamily(
        "tanist_thread_deaths_total", _C, _BY_MIRROR, _WORKER, "Fetcher threads that have ended by themselves"
    ),
    MetricFamily(
        "tanist_sync_errors_total",
        _C,
        ("mirror", "kind"),
        _WORKER,
        "Attempts to follow a source that failed: its topics and leaders (metadata), committed offsets of its groups "
        "(groups), and where workers sync metadata, configs of topics (configs) and ACLs (acls)",
    ),
    MetricFamily(
        "tanist_failover_verdict",
        _G,
        ("mirror", "mode", "verdict"),
        _MIRROR,
        "1: the verdict of a planned or unplanned failover now, as `tanist status` has it; 0: the other verdicts",
    ),
    MetricFamily(
        "tanist_look_age_seconds",
        _G,
        ("mirror", "look"),
        _STATE,
        "Age of what is known: the oldest answer of the source about a partition in MIRRORING (source), the committed "
        "offsets of groups (groups), the verdicts (verdict, only of the worker that looks after the mirror); if there "
        "was none yet, the age of the mirror",
    ),
    MetricFamily("tanist_workers_alive", _G, (), _STATE, "Workers with a heartbeat within 30 s"),
    MetricFamily(
        "tanist_fences", _G, ("mirror", "status"), _STATE, "Topics of the source by the status of their fence"
    ),
    MetricFamily(
        "tanist_tails",
        _G,
        ("mirror", "stage"),
        _STATE,
        "Topics whose old source may have records that the new primary lacks, by how far their tails have come",
    ),
    MetricFamily(
        "tanist_lost_offsets", _G, _BY_MIRROR, _STATE, "Offsets that the source deleted before they were copied"
    ),
    MetricFamily("tanist_unfinished_failovers", _G, _BY_MIRROR, _STATE, "Failovers that have begun and not ended"),
    MetricFamily("tanist_groups", _G, _BY_MIRROR, _STATE, "Groups of the source whose committed offsets are kept"),
    MetricFamily(
        "tanist_groups_behind",
        _G,
        _BY_MIRROR,
        _MIRROR,
        "Groups with a committed offset that is not copied yet: a failover now would move them back",
    ),
    MetricFamily(
        "tanist_certificate_expiry_timestamp_seconds",
        _G,
        ("cluster", "certificate"),
        _WORKER,
        "When a certificate ends, seconds since 1970: ours (client), or that of a broker by its address, as fetcher "
        "threads have last seen it",
    ),
)
"""Every family; the exporter has a function for each."""


@dataclass(frozen=True, slots=True)
class KipMetric:
    """A metric of KIP-1279. `here`: an expression over our families, empty: there is none, and `why`."""

    name: str
    here: str
    why: str = ""


KIP_1279: Final = (
    KipMetric("MaxLag", "max by (mirror) (tanist_max_lag_records)"),
    KipMetric("MinFetchRate", "min by (mirror) (rate(tanist_fetches_total[1m]))"),
    KipMetric("ConsumerLag", "tanist_partition_lag_records"),
    KipMetric("DeadThreadCount", "sum by (mirror) (tanist_dead_threads)"),
    KipMetric("FailedPartitionsCount", 'max by (mirror) (tanist_partitions{state="FAILED"})'),
    KipMetric("BytesPerSec", 'rate(tanist_received_bytes_total{cluster="source"}[1m])'),
    KipMetric("RequestsPerSec", "rate(tanist_fetches_total[1m])"),
    KipMetric(
        "RequestMetrics (LocalTimeMs, ErrorsPerSec, ...)",
        "",
        "a broker's time for its own mirror requests, which do not exist here: commands write to the state topic",
    ),
    KipMetric("connection-creation-total", "tanist_connections_total"),
    KipMetric("failed-authentication-total", "tanist_connection_failures_total"),
    KipMetric("request-total, response-total", "tanist_requests_total"),
    KipMetric("outgoing-byte-total", "tanist_sent_bytes_total"),
    KipMetric("incoming-byte-total, network-io-total", "tanist_received_bytes_total"),
    KipMetric("MetadataRefreshError", 'tanist_sync_errors_total{kind="metadata"}'),
    KipMetric("TopicConfigMetadataSyncError", 'tanist_sync_errors_total{kind="configs"}'),
    KipMetric("ConsumerGroupOffsetSyncError", 'tanist_sync_errors_total{kind="groups"}'),
    KipMetric("AclSyncError", 'tanist_sync_errors_total{kind="acls"}'),
    KipMetric("ByteRate", "rate(tanist_copied_bytes_total[1m])"),
    *(
        KipMetric(f"{state.capitalize()}PartitionState", f'tanist_partitions{{state="{state}"}}')
        for state in ("FAILED", "STOPPED", "STOPPING", "MIRRORING", "PREPARING")
    ),
)
"""The table of KIP-1279, "Metrics", by meaning."""
