"""What each check of `tanist status` counts, and how old it says that is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.checks import Readiness, Verdict
from tanist.domain.errors import Unreachable
from tanist.domain.growth import Grown, Growth
from tanist.domain.lag import KnownEnd, PartitionRow
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, SourceOffset, TopicPartition
from tanist.domain.offset_map import OffsetMap
from tanist.domain.readiness import Facts, status, workers_check
from tanist.domain.records import WorkerAlive
from tanist.domain.states import MirrorState, Wish

NOW = EpochMs(1_000_000)


def worker(age_ms: int, name: str = "w1") -> WorkerAlive:
    return WorkerAlive(worker=name, version="1", host="h", started_at=EpochMs(0), at=EpochMs(NOW - age_ms))


def row(number: int, source: KnownEnd | None) -> PartitionRow:
    return PartitionRow(
        mirror=MirrorName("m"),
        partition=TopicPartition("orders", number),
        desired=Wish.MIRRORING,
        state=MirrorState.MIRRORING,
        source=source,
        destination_end=DestinationOffset(0),
        map=OffsetMap(),
        observed=None,
    )


HEALTHY = Facts(
    mirror=MirrorName("m"),
    rows=(row(0, KnownEnd(SourceOffset(0), NOW)),),
    workers=(worker(0),),
    source_error=None,
    growth=Growth(),
    state_topic_problem=None,
    now=NOW,
)


@pytest.mark.parametrize(("age_ms", "verdict"), [(30_000, Verdict.PASS), (30_001, Verdict.FAIL)])
def test_a_worker_is_taken_for_dead_after_thirty_seconds_of_silence(age_ms: int, verdict: Verdict) -> None:
    found = workers_check([worker(age_ms), worker(90_000, "w2")], NOW)
    assert (found.verdict, found.age_ms, found.limit) == (verdict, age_ms, "1 heard of within 30 s")


def test_no_worker_is_no_worker_alive() -> None:
    assert workers_check([], NOW).verdict is Verdict.FAIL


@pytest.mark.parametrize("state", [MirrorState.PAUSING, MirrorState.PAUSED])
def test_what_is_paused_or_about_to_be_is_not_ready_for_a_planned_failover(state: MirrorState) -> None:
    """It would never drain."""
    end = KnownEnd(SourceOffset(0), NOW)
    rows = (row(0, end), replace(row(1, end), state=state))
    found = status(replace(HEALTHY, rows=rows))
    (running,) = [check for check in found.checks if check.name == "running"]
    assert (running.verdict, running.reason) == (Verdict.FAIL, "orders-1")
    assert (found.planned, found.unplanned) == (Readiness.NO_GO, Readiness.GO)


def test_the_lag_is_as_old_as_the_oldest_end_that_it_is_made_of() -> None:
    """The freshest one would hide a source that has been silent in part."""
    ends = [KnownEnd(SourceOffset(5), EpochMs(NOW - age)) for age in (10, 40_000, 500)]
    rows = (*(row(n, end) for n, end in enumerate(ends)), row(9, None))
    facts = replace(HEALTHY, rows=rows)
    (lag,) = [check for check in status(facts).checks if check.name == "lag"]
    assert (lag.age_ms, lag.observed, lag.verdict) == (40_000, "15 offsets", Verdict.UNKNOWN)
    assert lag.reason == "orders-9: unknown"


@pytest.mark.parametrize(
    ("left", "verdict", "reason"),
    [
        ((), Verdict.UNKNOWN, "no topic is in it"),
        (("bills", "orders"), Verdict.FAIL, "nothing is left to fail over: taken over or removed: bills; orders"),
    ],
)
def test_a_mirror_without_partitions_says_whether_it_has_taken_over(
    left: tuple[str, ...], verdict: Verdict, reason: str
) -> None:
    found = status(replace(HEALTHY, rows=(), left=left))
    (partitions,) = [check for check in found.checks if check.name == "partitions"]
    assert (partitions.verdict, partitions.observed, partitions.reason) == (verdict, "none", reason)
    ready = Readiness.NO_GO if left else Readiness.UNKNOWN
    assert (found.planned, found.unplanned) == (ready, ready)


SILENT = {"bills": Unreachable("nobody there")}
NO_GO, GO, UNKNOWN = Readiness.NO_GO, Readiness.GO, Readiness.UNKNOWN


@pytest.mark.parametrize(
    ("growth", "verdict", "planned", "unplanned"),
    [
        (Growth(), Verdict.PASS, GO, GO),
        (Growth((Grown("orders", 4, 6),)), Verdict.FAIL, NO_GO, NO_GO),
        (Growth((), SILENT), Verdict.UNKNOWN, UNKNOWN, GO),
        (Growth((Grown("orders", 4, 6),), SILENT), Verdict.FAIL, NO_GO, NO_GO),
    ],
)
def test_partitions_without_a_copy_are_lost_in_any_failover(
    growth: Growth, verdict: Verdict, planned: Readiness, unplanned: Readiness
) -> None:
    """A source that does not say how many it has stops a planned failover, and no unplanned one."""
    found = status(replace(HEALTHY, growth=growth))
    (seen,) = [check for check in found.checks if check.name == "source_partitions"]
    assert (seen.verdict, found.planned, found.unplanned) == (verdict, planned, unplanned)
    assert ("bills: UNREACHABLE" in seen.reason) is bool(growth.untold)
    if growth.grown:
        assert seen.observed.startswith("2 without a copy; 2 of orders")
        assert "orders: 4 of 6 are mirrored" in seen.reason
        assert "`tanist metadata sync m`" in seen.reason
