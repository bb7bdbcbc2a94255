"""When workers do what a mirror leaves to them, and what is on record of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Verdict
from tanist.domain.duties import Duty, DutyIncomplete, DutyResult, DutyRun, after, duties_of, interval_seconds, is_due
from tanist.domain.errors import MirrorLocked
from tanist.domain.failover.periodic_health import duty_lines, periodic_checks, rewound_groups
from tanist.domain.groups_synced import GroupsSynced
from tanist.domain.names import EpochMs
from tanist.domain.rewinds import OnRewind
from tanist.domain.states import DesiredState
from tanist.domain.sync_settings import settings_line
from tests.builders import DR, a_mirror, a_topic, a_view

if TYPE_CHECKING:
    from tanist.domain.checks import Check
    from tanist.domain.state_record import StateRecord

SPEC = a_mirror(sync_metadata_seconds=30, workers_sync_groups=True)
RUN = DutyRun(mirror=DR, duty=Duty.METADATA, worker="w1", at=EpochMs(100_000), done_at=EpochMs(100_000))


def test_workers_do_nothing_unless_the_mirror_says_so() -> None:
    """S3.5: the DAGs stay the default; an interval of groups alone is that of a schedule."""
    spec = a_mirror(sync_groups_seconds=300)
    assert [interval_seconds(spec, duty) for duty in Duty] == [0, 0]
    assert not any(is_due(spec, duty, None, EpochMs(0)) for duty in Duty)


@pytest.mark.parametrize(("seconds", "every"), [(0, 60), (300, 300)])
def test_s0_6_groups_have_one_interval_whoever_syncs_them(seconds: int, every: int) -> None:
    assert interval_seconds(replace(SPEC, sync_groups_seconds=seconds), Duty.GROUPS) == every


@pytest.mark.parametrize(
    ("now", "due"), [(100_000, False), (129_999, False), (130_000, True), (99_999, True), (10_000_000, True)]
)
def test_s3_5_a_duty_is_due_an_interval_after_the_last_run_of_whatever_worker(now: int, due: bool) -> None:
    """A last run in the future was of a host whose clock was ahead: waiting for it could take for ever."""
    assert is_due(SPEC, Duty.METADATA, RUN, EpochMs(now)) is due


def test_runs_that_leave_something_undone_are_counted_and_the_first_complete_one_ends_that() -> None:
    trouble = DutyResult("1 changed, 1 conflict", DutyIncomplete("orders: partitions cannot be removed"))
    first = after(RUN, replace(RUN, at=EpochMs(130_000)), trouble)
    second = after(first, replace(RUN, at=EpochMs(160_000)), trouble)
    assert (second.failures, second.done_at, second.error) == (2, 100_000, "SYNC_INCOMPLETE")
    assert second.reason == "orders: partitions cannot be removed"
    third = after(second, replace(RUN, at=EpochMs(190_000), done_at=EpochMs(190_000)), DutyResult("nothing to do"))
    assert (third.failures, third.done_at, third.error, third.reason) == (0, 190_000, None, "")


def test_a_duty_that_never_was_complete_has_no_time() -> None:
    run = after(None, RUN, DutyResult("not done", DutyIncomplete("why")))
    assert (run.failures, run.done_at) == (1, 0)


def checks_of(now: int, *records: StateRecord, **settings: object) -> dict[str, Check]:
    spec = replace(SPEC, **settings)  # type: ignore[arg-type]
    return {check.name: check for check in periodic_checks(spec, a_view(spec, *records), EpochMs(now))}


def test_status_passes_while_both_duties_are_done_in_time() -> None:
    groups = replace(RUN, duty=Duty.GROUPS, summary="committed 2 of 2 offset(s)")
    check = checks_of(110_000, RUN, groups)["duties"]
    assert (check.verdict, check.age_ms, check.reason) == (Verdict.PASS, 10_000, "")
    assert check.observed == "metadata: , 10 s ago by w1; groups: committed 2 of 2 offset(s), 10 s ago by w1"


def test_status_names_the_duty_that_fails_its_error_and_the_command_that_shows_more() -> None:
    failed = replace(RUN, at=EpochMs(400_000), failures=9, error="UNREACHABLE", reason="east does not answer")
    check = checks_of(400_000, failed, replace(RUN, duty=Duty.GROUPS, done_at=EpochMs(390_000)))["duties"]
    assert check.verdict is Verdict.FAIL
    assert check.reason == (
        "UNREACHABLE: east does not answer: `tanist metadata sync dr --destination west` shows every row"
    )


LOCKED = MirrorLocked("failover cafe is unfinished")


def test_a_duty_failed_in_every_failover_that_lasted() -> None:
    """It waits for the lock of the mirror, which is no failure; the command that the check named was refused, too."""
    waiting = after(RUN, replace(RUN, at=EpochMs(400_000)), DutyResult("not done", LOCKED))
    assert (waiting.waits, waiting.failures, waiting.done_at) == (True, 0, RUN.done_at)
    groups = replace(RUN, duty=Duty.GROUPS, done_at=EpochMs(390_000))
    check = checks_of(410_000, waiting, groups)["duties"]
    assert (check.verdict, check.reason) == (Verdict.PASS, "")
    assert "waits for the lock of the mirror, 10 s ago by w1: failover cafe is unfinished" in check.observed
    dead = checks_of(400_000 + 3 * 30_000 + 1, waiting, replace(groups, done_at=EpochMs(480_000)))["duties"]
    assert dead.verdict is Verdict.UNKNOWN, "nobody tries any more"


def test_a_duty_that_waits_for_a_lock_is_not_tried_every_second() -> None:
    spec = replace(SPEC, sync_metadata_seconds=1)
    waiting = after(RUN, RUN, DutyResult("not done", LOCKED))
    assert is_due(spec, Duty.METADATA, RUN, EpochMs(RUN.at + 1_000))
    assert not is_due(spec, Duty.METADATA, waiting, EpochMs(RUN.at + 9_999))
    assert is_due(spec, Duty.METADATA, waiting, EpochMs(RUN.at + 10_000))


def test_status_does_not_know_of_duties_that_no_worker_has_done() -> None:
    """A worker of an earlier version does none of them."""
    check = checks_of(110_000, RUN)["duties"]
    assert (check.verdict, check.age_ms) == (Verdict.UNKNOWN, None)
    assert "`tanist groups sync dr --destination west`" in check.reason


def test_status_says_nothing_of_duties_where_a_schedule_has_them() -> None:
    assert checks_of(0, sync_metadata_seconds=0, workers_sync_groups=False) == {}


def test_a_mirror_that_has_failed_over_leaves_nothing_to_workers() -> None:
    """Its old source may be dead for good, and each run would say so."""
    gone = a_topic(desired=DesiredState.REMOVED)
    assert a_view(SPEC, gone).has_been_left(DR)
    assert duties_of(SPEC, left=True) == {}
    synced = GroupsSynced(mirror=DR, positions=1, withheld=1, at=EpochMs(1), renewed_at=EpochMs(1), rewound=("g",))
    assert checks_of(0, gone, synced) == {}
    assert not a_view(SPEC, gone, a_topic("payments")).has_been_left(DR)
    assert not a_view(SPEC).has_been_left(DR)
    assert duties_of(SPEC, left=False) == {Duty.METADATA: 30, Duty.GROUPS: 60}


def test_groups_that_were_set_back_are_a_check_with_the_command_that_answers() -> None:
    synced = GroupsSynced(
        mirror=DR, positions=3, withheld=1, at=EpochMs(1), renewed_at=EpochMs(1), rewound=("bill.ing",)
    )
    check = checks_of(0, synced)["rewinds"]
    assert check.verdict is Verdict.FAIL
    assert "`tanist groups sync dr --destination west --group 'bill\\.ing' --backwards`" in check.reason
    assert rewound_groups(a_view(SPEC, synced), DR) == ("bill.ing",)


def test_what_is_not_the_default_is_said_in_one_line() -> None:
    spec = replace(SPEC, config_exclude=("retention.*",), group_exclude=("test-.*",), on_rewind=OnRewind.ASK)
    assert settings_line(spec) == (
        "mirror dr: workers sync metadata every 30 s; workers sync groups every 60 s; --config-exclude retention.*; "
        "--group-exclude test-.*; --on-rewind ask"
    )
    assert settings_line(a_mirror()) == ""
    assert settings_line(a_mirror(sync_groups_seconds=120)) == "mirror dr: groups are synced by a schedule, every 120 s"


def test_describe_has_a_line_for_each_duty() -> None:
    failed = replace(RUN, failures=2, error="UNREACHABLE", reason="east does not answer")
    assert [*duty_lines(SPEC, (failed,), EpochMs(103_000))] == [
        "mirror dr: metadata every 30 s: UNREACHABLE, 3 s ago by w1, 2 in a row: east does not answer",
        "mirror dr: groups every 60 s: never done",
    ]
