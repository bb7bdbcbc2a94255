"""What a worker tells Prometheus and the probes of its host, on real clusters with TLS."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from tanist.domain.acls import AclBinding
from tanist.domain.metrics import METRICS, MetricKind
from tanist_testkit.sandbox.ports import free_ports
from tests.kafka.failover.conftest import CERTIFICATES, DENY, LITERAL, TOPIC, WRITE, Pair, give, running, take
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until
from tests.promql import Scrape, evaluate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

RULES: Final[list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parents[3] / "docs" / "alerts.yaml").read_text(encoding="utf-8")
)["groups"][0]["rules"]
LAGS: Final = ("tanist_lag_records", "tanist_lag_bytes", "tanist_lag_seconds", "tanist_max_lag_records")


class Worker:
    """A worker with a port, and everything that was scraped of it."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.scrapes = pair, list[Scrape]()
        (self.port,) = free_ports(1)

    def start(self) -> None:
        self.pair.worker("metered", "--metrics-port", str(self.port))

    def get(self, path: str) -> tuple[int, str]:
        """The code and the text of a page; code 0: nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
        except OSError as nobody:
            return 0, str(nobody)

    def scrape(self) -> Scrape:
        code, text = self.get("/metrics")
        assert code == 200, text
        self.scrapes.append(Scrape.of(time.time(), text))  # noqa: TID251  # a scraper's clock
        return self.scrapes[-1]

    def value(self, name: str, **labels: str) -> float | None:
        """Of the only series that has all of `labels`, in a new scrape; None: there is none."""
        samples = self.scrape().samples.get(name, {})
        found = [value for each, value in samples.items() if labels.items() <= dict(each).items()]
        assert len(found) < 2, (name, samples)
        return found[0] if found else None

    def reaches(self, name: str, wanted: float, seconds: float = 40, **labels: str) -> None:
        until(lambda: self.value(name, **labels) == wanted, seconds, lambda: self.scrapes[-1].samples.get(name))

    def fired(self) -> set[str]:
        """The rules that are true now, however long they would have to be."""
        self.scrape()
        return {rule["alert"] for rule in RULES if evaluate(rule["expr"], self.scrapes)}


@pytest.fixture(scope="module")
def watched(
    guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    home = tmp_path_factory.mktemp("metrics")
    with running(guardian, client_config, home, source=CERTIFICATES) as pair:
        worker = Worker(pair)
        worker.start()
        yield worker


def row(pair: Pair, mirror: str, partition: int = 0) -> dict[str, Any]:
    found = json.loads(pair.tanist("mirrors", "describe", mirror, "--json").out)["items"]
    return next(dict(each) for each in found if each["partition"] == partition)


def test_s1_7_the_time_that_records_take_is_a_histogram_by_topic(watched: Worker) -> None:
    watched.pair.mirror("timed", "timed-1", "timed-2")
    name = "tanist_replication_latency_seconds"
    watched.reaches("tanist_copied_records_total", 20, mirror="timed")
    for topic in ("timed-1", "timed-2"):
        samples = watched.scrape().samples
        buckets = {
            float(dict(labels)["le"]): value
            for labels, value in samples[f"{name}_bucket"].items()
            if dict(labels)["topic"] == topic
        }
        counts = [buckets[bound] for bound in sorted(buckets)]
        assert counts == sorted(counts)
        assert buckets[float("inf")] == watched.value(f"{name}_count", topic=topic) == 10
        assert buckets[300] == 10
        assert 0 < (watched.value(f"{name}_sum", topic=topic) or 0) < 10 * 300


def test_s3_17_a_worker_that_is_well_is_alive_ready_and_raises_no_alert(watched: Worker) -> None:
    """Verdicts are those of `tanist status`, of the clusters as they are."""
    watched.pair.mirror("well", "well-1")
    until(lambda: watched.get("/readyz") == (200, "ok\n"), 20, lambda: watched.get("/readyz"))
    assert watched.get("/livez") == (200, "ok\n")
    name = "tanist_failover_verdict"
    until(lambda: watched.value(name, mirror="well", mode="planned", verdict="GO") is not None, 60)
    status = watched.pair.tanist("status", "well", "--json", expected=None).item
    for mode in ("planned", "unplanned"):
        watched.reaches(name, 1.0, 60, mirror="well", mode=mode, verdict=status[mode])
    until(lambda: watched.fired() == set(), 60, watched.fired)
    for look in ("source", "groups", "verdict"):
        assert 0 <= (watched.value("tanist_look_age_seconds", mirror="well", look=look) or 0) < 60
    expiry = watched.scrape().samples["tanist_certificate_expiry_timestamp_seconds"]
    shown = {(dict(labels)["cluster"], dict(labels)["certificate"] == "client") for labels in expiry}
    assert shown == {("east", True), ("east", False), ("west", True), ("west", False)}
    assert all(until_ > time.time() for until_ in expiry.values())  # noqa: TID251


def test_s3_17_what_is_not_copied_is_counted_in_offsets_bytes_and_seconds(watched: Worker) -> None:
    """Also by `describe` and `status`, which ask neither broker for sizes nor the source for records. S3.19."""
    pair = watched.pair
    pair.mirror("lags", "lags-1")
    denied = AclBinding(TOPIC, "lags-1", LITERAL, pair.west.cluster.spec.principal("mirror"), "*", WRITE, DENY)
    give(pair.west.cluster, denied)
    assert pair.east.writes("lags-1", range(100, 120))
    watched.reaches("tanist_lag_records", 20, mirror="lags")
    until(lambda: (watched.value("tanist_lag_seconds", mirror="lags") or 0) > 2, 30)
    offsets, size, seconds, largest = (watched.value(name, mirror="lags") for name in LAGS)
    assert (offsets, largest) == (20, 10)
    assert size is not None
    assert 20 * 8 < size < 20 * 500, "ten records were copied of each partition before"
    assert seconds is not None
    assert 2 < seconds < 120
    for partition in ("0", "1"):
        assert watched.value("tanist_partition_lag_records", mirror="lags", partition=partition) == 10
    watched.reaches("tanist_troubled_partitions", 2, mirror="lags")
    assert "TanistPartitionsTroubled" in watched.fired()
    until(lambda: (row(pair, "lags")["lag_ms"] or 0) > 2_000, 20)
    found = row(pair, "lags")
    assert found["lag"] == 10
    assert abs(found["lag_bytes"] - size / 2) < 20, "each as far as it is rounded"
    status = pair.tanist("status", "lags", "--json", expected=None).item
    (lag,) = (each["observed"] for each in status["checks"] if each["check"] == "lag")
    assert re.fullmatch(r"20 offsets \(about [\d.]+ K?B, at most [\d.]+ s old\)", lag)
    take(pair.west.cluster, denied)
    for name in LAGS:
        watched.reaches(name, 0, mirror="lags")
    assert watched.value("tanist_partition_lag_records", mirror="lags", partition="0") is None
    assert (row(pair, "lags")["lag_ms"], row(pair, "lags")["lag_bytes"]) == (0, 0)


def test_s3_17_what_was_lost_is_counted_and_alerts(watched: Worker) -> None:
    pair = watched.pair
    pair.east.topic("lost-1")
    assert pair.east.writes("lost-1", range(10))
    pair.tanist("mirrors", "create", "lost", "--source", "east", "--topic", "lost-1")
    pair.tanist("mirrors", "wait", "lost", "--for", "lag=0", "--timeout", "200s")
    pair.tanist("mirrors", "pause", "lost", "--topic", "lost-1")
    pair.tanist("mirrors", "wait", "lost", "--for", "state=PAUSED", "--timeout", "200s")
    watched.reaches("tanist_lost_offsets", 0, mirror="lost")
    assert pair.east.writes("lost-1", range(10, 20))
    admin = AdminClient(pair.east.client("admin"))
    for future in admin.delete_records([At("lost-1", n, 8) for n in range(2)]).values():
        future.result(20)
    pair.tanist("mirrors", "resume", "lost", "--topic", "lost-1")
    watched.reaches("tanist_lost_offsets", 6, mirror="lost")
    assert "TanistRecordsLost" in watched.fired()


def test_s3_17_fences_tails_and_groups_of_failovers_are_counted(watched: Worker) -> None:
    pair = watched.pair
    pair.mirrors({"moved": ("moved-1",), "torn": ("torn-1",)})
    pair.tanist("failover", "run", "moved", "--plan", pair.approved("moved"), *QUICK)
    watched.reaches("tanist_fences", 1, mirror="moved", status="proved")
    pair.tanist("mirrors", "pause", "torn", "--topic", "torn-1")
    pair.tanist("mirrors", "wait", "torn", "--for", "state=PAUSED", "--timeout", "200s")
    assert pair.east.writes("torn-1", range(100, 106))
    pair.east.commit("ahead", "torn-1", 8)
    watched.reaches("tanist_groups", 1, mirror="torn")
    watched.reaches("tanist_groups_behind", 1, 90, mirror="torn")
    plan = pair.approved("torn", mode="unplanned")
    pair.tanist("failover", "run", "torn", "--plan", plan, *QUICK, expected=None)
    watched.reaches("tanist_tails", 1, mirror="torn", stage="NOT_SURVEYED")
    assert watched.value("tanist_unfinished_failovers", mirror="torn") == 0
    assert "TanistTailsLeft" in watched.fired()


def test_a_port_that_is_in_use_is_refused_and_stops_no_other_worker(watched: Worker) -> None:
    """Before it joins the others: one that had joined did not end for half a minute."""
    until(lambda: watched.get("/livez")[0] == 200, 60)
    refused = watched.pair.worker("second", "--metrics-port", str(watched.port))
    log = watched.pair.home / "second.log"
    until(lambda: not refused.alive, 30, log.read_text)
    assert f"error: INVALID_CONFIG: --metrics-port {watched.port}: Address already in use" in log.read_text()
    assert "claiming" not in log.read_text()
    assert watched.get("/livez") == (200, "ok\n")


def test_s3_17_every_family_of_the_registry_was_exported_and_a_silent_cluster_shows(watched: Worker) -> None:
    """Last, since it kills first the source and then the destination."""
    pair = watched.pair
    pair.east.cluster.kill()
    for kind in ("metadata", "groups"):
        until(lambda kind=kind: (watched.value("tanist_sync_errors_total", mirror="well", kind=kind) or 0) > 0, 60)  # type: ignore[misc]
    until(lambda: (watched.value("tanist_connection_failures_total", mirror="well", cluster="source") or 0) > 0, 60)
    until(lambda: "TanistSourceSilent" in watched.fired(), 120, watched.fired)
    assert watched.get("/livez") == watched.get("/readyz") == (200, "ok\n"), "a dead source is no fault of the worker"
    assert _exported(watched) == {each.name for each in METRICS}
    pair.west.cluster.kill()
    until(lambda: watched.get("/readyz")[0] == 503, 60)
    assert re.search("has expired|heartbeat in the state topic is", watched.get("/readyz")[1])
    assert watched.get("/livez")[0] == 200, "a restart would not help"


def _exported(watched: Worker) -> set[str]:
    """The families of which a sample was scraped at any time."""
    seen = {name for scrape in watched.scrapes for name in scrape.samples}
    suffix = {MetricKind.HISTOGRAM: "_count"}
    return {each.name for each in METRICS if f"{each.name}{suffix.get(each.kind, '')}" in seen}
