"""The check `groups`: a heartbeat of the worker is no look at the source's groups."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.checks import Verdict
from tanist.domain.failover.health import groups_check
from tanist.domain.names import EpochMs, MirrorName
from tanist.domain.records import GroupSyncStatus, OffsetTailMode

NOW = EpochMs(1_000_000)
READ = GroupSyncStatus(
    mirror=MirrorName("dr"),
    worker="w",
    mode=OffsetTailMode.TAILING,
    groups=10,
    complete_until_ms=EpochMs(NOW - 1_000),
    at=NOW,
)


def test_groups_that_were_read_a_second_ago_pass() -> None:
    found = groups_check(READ, NOW)
    assert (found.verdict, found.age_ms, found.reason) == (Verdict.PASS, 1_000, "")


def test_a_worker_that_reports_but_has_not_read_the_groups_for_long_does_not_pass() -> None:
    """A restarted one reads from the beginning; what was complete before is that old."""
    found = groups_check(replace(READ, complete_until_ms=EpochMs(NOW - 31_000)), NOW)
    assert (found.verdict, found.age_ms) == (Verdict.UNKNOWN, 31_000)
    assert found.reason == "not all of them could be read since"


def test_a_worker_that_is_gone_is_the_reason() -> None:
    gone = replace(READ, at=EpochMs(NOW - 40_000), complete_until_ms=EpochMs(NOW - 40_500))
    assert groups_check(gone, NOW).reason == "its worker no longer reports"


def test_groups_that_were_never_read_have_no_age() -> None:
    found = groups_check(replace(READ, complete_until_ms=EpochMs(0)), NOW)
    assert (found.verdict, found.age_ms) == (Verdict.UNKNOWN, None)
