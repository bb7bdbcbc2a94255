"""docs/alerts.yaml: each rule fires for what it is about, and for nothing else. S3.17."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tanist.domain.metrics import KIP_1279, METRICS, MetricKind
from tests import quoted
from tests.promql import Scrape, evaluate, names

RULES: Final[list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parents[2] / "docs" / "alerts.yaml").read_text(encoding="utf-8")
)["groups"][0]["rules"]
SUFFIXES: Final = ("_bucket", "_count", "_sum")
NOW: Final = 1_700_000_000.0
WELL: Final = """
tanist_workers_alive 1
tanist_failover_verdict{mirror="dr",mode="planned",verdict="GO"} 1
tanist_failover_verdict{mirror="dr",mode="planned",verdict="NO-GO"} 0
tanist_failover_verdict{mirror="dr",mode="unplanned",verdict="UNKNOWN"} 0
tanist_look_age_seconds{mirror="dr",look="verdict"} 20
tanist_look_age_seconds{mirror="dr",look="source"} 9
tanist_look_age_seconds{mirror="dr",look="groups"} 1
tanist_lag_seconds{mirror="dr"} 0.4
tanist_lag_unknown_partitions{mirror="dr"} 0
tanist_partitions{mirror="dr",state="FAILED"} 0
tanist_troubled_partitions{mirror="dr"} 0
tanist_replication_latency_seconds_bucket{mirror="dr",topic="t",le="1"} 100
tanist_replication_latency_seconds_bucket{mirror="dr",topic="t",le="30"} 100
tanist_replication_latency_seconds_bucket{mirror="dr",topic="t",le="+Inf"} 100
tanist_thread_deaths_total{mirror="dr"} 0
tanist_sync_errors_total{mirror="dr",kind="groups"} 2
tanist_throttled_seconds_total{mirror="dr",cluster="source"} 1
tanist_lost_offsets{mirror="dr"} 7
tanist_tails{mirror="dr",stage="DONE"} 2
tanist_fences{mirror="dr",status="proved"} 2
tanist_unfinished_failovers{mirror="dr"} 0
tanist_certificate_expiry_timestamp_seconds{cluster="west",certificate="client"} 1702000000
"""
ILL: Final = {
    "TanistNotRunning": [("tanist_workers_alive 1\n", "")],
    "TanistNoFailover": [('verdict="NO-GO"} 0', 'verdict="NO-GO"} 1')],
    "TanistVerdictOld": [('look="verdict"} 20', 'look="verdict"} 301')],
    "TanistLag": [('tanist_lag_seconds{mirror="dr"} 0.4', 'tanist_lag_seconds{mirror="dr"} 61')],
    "TanistLagUnknown": [('unknown_partitions{mirror="dr"} 0', 'unknown_partitions{mirror="dr"} 1')],
    "TanistSourceSilent": [('look="source"} 9', 'look="source"} 61')],
    "TanistGroupsOld": [('look="groups"} 1', 'look="groups"} 121')],
    "TanistPartitionsFailed": [('state="FAILED"} 0', 'state="FAILED"} 1')],
    "TanistPartitionsTroubled": [('troubled_partitions{mirror="dr"} 0', 'troubled_partitions{mirror="dr"} 3')],
    "TanistSlow": [('le="1"} 100', 'le="1"} 102'), ('le="30"} 100', 'le="30"} 150'), ('"+Inf"} 100', '"+Inf"} 150')],
    "TanistThreadDied": [('deaths_total{mirror="dr"} 0', 'deaths_total{mirror="dr"} 1')],
    "TanistSyncErrors": [('kind="groups"} 2', 'kind="groups"} 8')],
    "TanistThrottled": [('cluster="source"} 1', 'cluster="source"} 15')],
    "TanistRecordsLost": [('lost_offsets{mirror="dr"} 7', 'lost_offsets{mirror="dr"} 9')],
    "TanistTailsLeft": [('stage="DONE"} 2', 'stage="NOT_RESCUED"} 2')],
    "TanistFencePending": [('status="proved"', 'status="pending"')],
    "TanistFailoverUnfinished": [('unfinished_failovers{mirror="dr"} 0', 'unfinished_failovers{mirror="dr"} 1')],
    "TanistCertificateExpires": [("1702000000", "1701000000")],
    "TanistCertificateExpired": [("1702000000", "1700000000")],
}
"""What is otherwise where a rule fires. A certificate that ends this second has ended."""
ALSO: Final = {"TanistCertificateExpired": {"TanistCertificateExpires"}}


def fires(rule: dict[str, Any], *scrapes: Scrape) -> bool:
    return bool(evaluate(rule["expr"], scrapes))


def scrapes(*changes: tuple[str, str]) -> tuple[Scrape, Scrape]:
    """Two minutes ago all was well; since then something has changed."""
    text = WELL
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return Scrape.of(NOW - 120, WELL), Scrape.of(NOW, text)


def test_nothing_fires_while_all_is_well() -> None:
    assert [rule["alert"] for rule in RULES if fires(rule, *scrapes())] == []


@pytest.mark.parametrize("alert", [rule["alert"] for rule in RULES])
def test_a_rule_fires_for_what_it_is_about_and_for_nothing_else(alert: str) -> None:
    found = {rule["alert"] for rule in RULES if fires(rule, *scrapes(*ILL[alert]))}
    assert found == {alert} | ALSO.get(alert, set())


def test_every_rule_is_tried_and_reads_metrics_that_exist() -> None:
    assert [rule["alert"] for rule in RULES] == list(ILL)
    families = {each.name for each in METRICS}
    known = families | {f"{each.name}{s}" for each in METRICS if each.kind is MetricKind.HISTOGRAM for s in SUFFIXES}
    assert set.union(*(names(rule["expr"]) for rule in RULES)) <= known


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_says_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["annotations"].keys() == {"summary", "next"}
    said = re.sub(r"{{ \$labels.mirror }}", "dr", rule["annotations"]["next"])
    assert [why for each in quoted.in_text(rule["alert"], said) if (why := quoted.problem(each))] == []
    assert rule["labels"]["severity"] in {"page", "warn"}


def test_every_metric_of_kip_1279_has_an_expression_that_can_be_evaluated_or_a_reason() -> None:
    families = {each.name for each in METRICS}
    for each in KIP_1279:
        assert bool(each.here) != bool(each.why), each
        assert names(each.here) <= families
        if each.here:
            evaluate(each.here, scrapes())


def test_a_counter_that_begins_again_has_not_lost_anything() -> None:
    """A worker was restarted: Prometheus counts on."""
    text = 'tanist_fetches_total{mirror="dr",source_broker="1"} '
    seen = [Scrape.of(NOW + n, f"{text}{count}\n") for n, count in ((0, 10), (10, 30), (20, 4))]
    assert evaluate("sum by (mirror) (increase(tanist_fetches_total[1m]))", seen) == {
        frozenset({("mirror", "dr")}): 24.0
    }
    assert evaluate("rate(tanist_fetches_total[1m])", seen) == {
        frozenset({("mirror", "dr"), ("source_broker", "1")}): 1.2
    }
