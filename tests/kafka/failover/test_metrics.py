"""What a worker tells Prometheus."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tanist_testkit.sandbox.ports import free_ports
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair


def samples(port: int, **labels: str) -> dict[tuple[str, str], float]:
    """By name, and by upper bound where it is of a histogram; those that have all of `labels`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (each.name, each.labels.get("le", "")): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if labels.items() <= each.labels.items()
    }


def test_s1_7_the_time_that_records_take_is_a_histogram_by_topic(pair: Pair) -> None:
    (port,) = free_ports(1)
    pair.dismiss()
    pair.worker("metered", "--metrics-port", str(port))
    pair.mirror("timed", "timed-1", "timed-2")
    name = "tanist_replication_latency_seconds"
    until(lambda: samples(port, mirror="timed").get(("tanist_copied_records_total", "")) == 20, 20)
    for topic in ("timed-1", "timed-2"):
        found = samples(port, mirror="timed", topic=topic)
        buckets = [found[name_, bound] for name_, bound in found if name_ == f"{name}_bucket"]
        assert buckets == sorted(buckets)
        assert found[f"{name}_bucket", "+Inf"] == found[f"{name}_count", ""] == 10
        assert found[f"{name}_bucket", "300"] == 10
        assert 0 < found[f"{name}_sum", ""] < 10 * 300
