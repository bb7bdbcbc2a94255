"""The exporter: every family of the registry, from what a worker knows. S3.17."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tanist.domain.checks import Mode, Readiness
from tanist.domain.errors import Unreachable
from tanist.domain.lag import KnownEnd, KnownLag
from tanist.domain.metrics import METRICS, MetricKind
from tanist.domain.names import BrokerId, EpochMs, MirrorPartition, SourceOffset, SourcePartition
from tanist.domain.records import GroupPosition, GroupSyncStatus, OffsetTailMode
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.domain.state_view import NOTHING_YET
from tanist.domain.states import DesiredState, MirrorState
from tanist.fetcher.assignment import FetcherThreadKey, PartitionKey, Report
from tanist.fetcher.metrics import _LAGS, VALUES, MirrorVerdicts, Scraped, WorkerCollector
from tanist.fetcher.totals import SyncKind, WorkerTotals
from tests.builders import AT, AT_SOURCE, DR, a_mirror, a_partition, a_topic, a_view, a_worker
from tests.fakes.clock import JumpingClock
from tests.promql import Scrape

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = EpochMs(1_700_000_000_000)
KEY = PartitionKey(DR, AT)
OF = {"mirror": DR}
STATE = a_view(
    a_mirror(created_at=EpochMs(NOW - 60_000)),
    a_topic(),
    a_partition(partition=AT),
    a_worker(version="1", host="h", started_at=EpochMs(0), at=EpochMs(NOW - 1_000)),
)


def scraped(**fields: Any) -> Scraped:
    plain: dict[str, Any] = {
        "now": NOW,
        "state": STATE,
        "groups": NOTHING_YET,
        "assigned": {KEY: None},
        "reports": {},
        "totals": WorkerTotals(),
        "dead_threads": {},
        "held": frozenset(),
        "verdicts": {},
    }
    return Scraped(**plain | fields)


def exposed(scrape: Callable[[], Scraped], clock: JumpingClock | None = None) -> Scrape:
    registry = CollectorRegistry()
    registry.register(WorkerCollector(scrape, clock or JumpingClock()))
    return Scrape.of(NOW / 1000, generate_latest(registry).decode())


def value(found: Scrape, name: str, **labels: str) -> float | None:
    return found.samples.get(name, {}).get(frozenset(labels.items()))


def test_each_family_of_the_registry_is_made_of_something() -> None:
    others = {each.name for each in METRICS if each.kind is MetricKind.HISTOGRAM} | {"tanist_groups_behind"}
    assert {each.name for each in METRICS} == VALUES.keys() | _LAGS.keys() | others
    assert len({each.name for each in METRICS}) == len(METRICS)
    for each in METRICS:
        assert each.name.endswith("_total") is (each.kind is MetricKind.COUNTER), each.name


def test_a_lag_that_nobody_knows_is_counted_and_no_lag_is_green() -> None:
    found = exposed(scraped)
    assert value(found, "tanist_lag_unknown_partitions", **OF) == 1
    assert value(found, "tanist_lag_seconds", **OF) == 0


def test_what_lags_is_named_with_its_age() -> None:
    report = Report(
        position=SourceOffset(5),
        source_high_watermark=SourceOffset(9),
        source_last_stable=SourceOffset(9),
        uncopied_at=EpochMs(NOW - 1_500),
        error=Unreachable("away"),
        records=2,
        bytes=300,
    )
    found = exposed(lambda: scraped(reports={KEY: report}))
    names = ("tanist_lag_records", "tanist_max_lag_records", "tanist_lag_bytes", "tanist_lag_seconds")
    assert [value(found, name, **OF) for name in names] == [4, 4, 600, 1.5]
    assert value(found, "tanist_partition_lag_records", topic="orders", partition="0", **OF) == 4
    assert value(found, "tanist_troubled_partitions", **OF) == 1


@pytest.mark.parametrize("state", [MirrorState.FAILED, MirrorState.PAUSED, MirrorState.STOPPED])
def test_a_partition_that_nobody_copies_had_no_lag(state: MirrorState) -> None:
    """`describe` and `status` said 105 of one that FAILED, the metrics 0: no worker has a report of it. S3.17."""
    end = KnownEnd(SourceOffset(115), EpochMs(NOW - 9_000), uncopied_at=EpochMs(NOW - 21_000), record_bytes=20.0)
    lags = {AT: KnownLag(105, end), MirrorPartition("orders", 1): KnownLag(7, end)}
    records = (*STATE.values(), a_partition(state, partition=AT))
    seen = MirrorVerdicts(words={}, at=NOW, lags=lags)
    held: dict[str, Any] = {"state": a_view(*records), "assigned": {}, "verdicts": {DR: seen}}
    found = exposed(lambda: scraped(**held, held=frozenset({DR})))
    names = ("tanist_lag_records", "tanist_max_lag_records", "tanist_lag_bytes", "tanist_lag_seconds")
    assert [value(found, name, **OF) for name in names] == [105, 105, 2_100, 21]
    assert value(found, "tanist_lag_unknown_partitions", **OF) == 0
    assert value(found, "tanist_partition_lag_records", topic="orders", partition="0", **OF) == 105
    other = exposed(lambda: scraped(**held))
    assert "tanist_lag_records" not in other.samples, "workers are added up: only one of them counts it"


@pytest.mark.parametrize("lags", [{}, {AT: KnownLag()}])
def test_of_a_partition_that_nobody_copies_the_lag_may_be_unknown(lags: dict[MirrorPartition, KnownLag]) -> None:
    records = (*STATE.values(), a_partition(MirrorState.FAILED, partition=AT))
    seen = MirrorVerdicts(words={}, at=NOW, lags=lags)
    found = exposed(lambda: scraped(state=a_view(*records), assigned={}, verdicts={DR: seen}, held=frozenset({DR})))
    assert value(found, "tanist_lag_unknown_partitions", **OF) == 1
    assert value(found, "tanist_lag_records", **OF) == 0


def test_what_is_copied_is_counted_once_by_the_worker_that_copies_it() -> None:
    seen = MirrorVerdicts(words={}, at=NOW, lags={AT: KnownLag(50)})
    found = exposed(lambda: scraped(assigned={}, verdicts={DR: seen}, held=frozenset({DR})))
    assert "tanist_lag_records" not in found.samples


def test_every_state_has_a_series_so_that_a_rule_sees_when_there_is_none() -> None:
    found = exposed(scraped).samples["tanist_partitions"]
    assert {dict(labels)["state"]: count for labels, count in found.items()} == {
        state: float(state is MirrorState.MIRRORING) for state in MirrorState
    }


def test_a_verdict_is_one_of_its_words_and_has_an_age() -> None:
    words = {Mode.PLANNED: Readiness.GO, Mode.UNPLANNED: Readiness.UNKNOWN}
    seen = MirrorVerdicts(words=words, at=EpochMs(NOW - 12_000))
    found = exposed(lambda: scraped(held=frozenset({DR}), verdicts={DR: seen}))
    words_of = {
        (dict(labels)["mode"], dict(labels)["verdict"]): each
        for labels, each in found.samples["tanist_failover_verdict"].items()
    }
    assert {key for key, each in words_of.items() if each} == {("planned", "GO"), ("unplanned", "UNKNOWN")}
    assert len(words_of) == 8
    assert value(found, "tanist_look_age_seconds", look="verdict", **OF) == 12


def test_the_worker_that_does_not_look_after_a_mirror_says_no_verdict() -> None:
    """It may have asked before: of two answers only one would be right."""
    seen = MirrorVerdicts(words={Mode.PLANNED: Readiness.GO}, at=NOW)
    found = exposed(lambda: scraped(verdicts={DR: seen}))
    assert "tanist_failover_verdict" not in found.samples
    assert value(found, "tanist_look_age_seconds", look="verdict", **OF) is None


def test_what_was_never_looked_at_is_as_old_as_the_mirror() -> None:
    found = exposed(lambda: scraped(held=frozenset({DR})))
    for look in ("source", "groups", "verdict"):
        assert value(found, "tanist_look_age_seconds", look=look, **OF) == 60


def test_the_age_of_the_source_is_that_of_its_oldest_answer_about_what_is_copied() -> None:
    """One that FAILED, or whose topic has failed over, is not asked for any more: its old answer makes no look old."""
    failed = MirrorPartition("orders", 1)
    ends = SourceEnds(
        mirror=DR,
        chunk=0,
        at=EpochMs(0),
        ends=(
            SourceEnd(AT_SOURCE, SourceOffset(1), SourceOffset(1), at=EpochMs(NOW - 8_000)),
            SourceEnd(SourcePartition("orders", 1), SourceOffset(1), SourceOffset(1), at=EpochMs(1)),
        ),
    )
    gone = a_topic("gone", desired=DesiredState.REMOVED)
    left = a_partition(partition=MirrorPartition("gone", 0))
    records = (*STATE.values(), a_partition(MirrorState.FAILED, partition=failed), ends, gone, left)
    found = exposed(lambda: scraped(state=a_view(*records)))
    assert value(found, "tanist_look_age_seconds", look="source", **OF) == 8


def test_groups_are_behind_until_their_positions_are_copied() -> None:
    ends = SourceEnds(
        mirror=DR,
        chunk=0,
        at=NOW,
        ends=(SourceEnd(AT_SOURCE, SourceOffset(9), SourceOffset(9), copied_until=SourceOffset(7), at=NOW),),
    )
    positions = [
        GroupPosition(mirror=DR, group=group, partition=AT_SOURCE, offset=SourceOffset(offset), at=NOW)
        for group, offset in (("there", 7), ("ahead", 8), ("ahead", 3))
    ]
    status = GroupSyncStatus(
        mirror=DR, worker="w", mode=OffsetTailMode.TAILING, groups=2, complete_until_ms=EpochMs(NOW - 3_000), at=NOW
    )
    state, groups = a_view(*STATE.values(), ends), a_view(*positions[:2], status)
    found = exposed(lambda: scraped(state=state, groups=groups, held=frozenset({DR})))
    assert value(found, "tanist_groups_behind", **OF) == 1
    assert value(found, "tanist_groups", **OF) == 2
    assert value(found, "tanist_look_age_seconds", look="groups", **OF) == 3


def test_what_a_thread_has_counted_stays_when_another_one_takes_its_place() -> None:
    """A counter that becomes less looks like a restart, and all of it would count again."""
    totals, key = WorkerTotals(), FetcherThreadKey(DR, BrokerId(1), 0)
    totals.of_thread(key).of_topic("orders").copied(3, 400, 20)
    totals.thread_died(DR)
    again = totals.of_thread(key)
    again.of_topic("orders").copied(1, 50, 2_000)
    again.source.fetches, again.source.throttled_ms = 7, 1_500
    again.source.certificates["kafka:9093"] = NOW
    totals.of_thread(FetcherThreadKey(DR, BrokerId(2), 0)).of_topic("orders").copied(1, 50, 20)
    totals.sync_failed(DR, SyncKind.GROUPS)
    found = exposed(lambda: scraped(totals=totals, dead_threads={DR: 1}))
    assert value(found, "tanist_copied_records_total", **OF) == 5
    assert value(found, "tanist_copied_bytes_total", **OF) == 500
    assert value(found, "tanist_fetches_total", source_broker="1", **OF) == 7
    assert value(found, "tanist_throttled_seconds_total", cluster="source", **OF) == 1.5
    assert value(found, "tanist_thread_deaths_total", **OF) == value(found, "tanist_dead_threads", **OF) == 1
    assert value(found, "tanist_sync_errors_total", kind="groups", **OF) == 1
    assert value(found, "tanist_replication_latency_seconds_count", topic="orders", **OF) == 5
    assert value(found, "tanist_replication_latency_seconds_bucket", topic="orders", le="0.025", **OF) == 4
    expiry = "tanist_certificate_expiry_timestamp_seconds"
    assert value(found, expiry, cluster="east", certificate="kafka:9093") == NOW / 1000


def test_scrapes_within_five_seconds_look_once() -> None:
    """However many scrape a worker of ten thousand partitions."""
    looks, clock = [], JumpingClock()

    def scrape() -> Scraped:
        looks.append(1)
        return scraped()

    collector = WorkerCollector(scrape, clock)
    for _ in range(3):
        list(collector.collect())
    assert len(looks) == 1
    clock.jump(5)
    list(collector.collect())
    assert len(looks) == 2


def test_only_the_first_hundred_topics_have_a_histogram() -> None:
    """Of thousands each would have a series for each bound. None changes its place later: they are counters."""
    totals, names = WorkerTotals(), [f"t{n}" for n in range(150)]
    thread = totals.of_thread(FetcherThreadKey(DR, BrokerId(1), 0))
    for name in names[:120]:
        thread.of_topic(name).copied(1, 10, 5)
    clock = JumpingClock()
    collector = WorkerCollector(lambda: scraped(totals=totals), clock)
    registry = CollectorRegistry()
    registry.register(collector)
    for records in (20.0, 50.0):
        found = Scrape.of(0.0, generate_latest(registry).decode()).samples["tanist_replication_latency_seconds_count"]
        assert len(found) == 101
        assert found[frozenset({("mirror", DR), ("topic", "")})] == records
        for name in names[120:]:
            thread.of_topic(name).copied(1, 10, 5)
        clock.jump(5)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_no_family_needs_a_mirror(name: str) -> None:
    """A worker is scraped from its first second on."""
    list(VALUES[name](scraped(state=NOTHING_YET, assigned={})))
