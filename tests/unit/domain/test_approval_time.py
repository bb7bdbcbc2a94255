"""One rule for every gate: an approval expires by the later of two clocks, and our clock must not be behind."""

from __future__ import annotations

from tanist.domain.approval.choosing import time_objections
from tanist.domain.approval.entries import Approval
from tanist.domain.approval.words import hash_of
from tanist.domain.names import EpochMs, MirrorName

AT = 1_000_000
APPROVED = Approval(
    id="0-1",
    mirror=MirrorName("dr"),
    plan=hash_of("{}"),
    plan_json="{}",
    approver="alice",
    reason="drill",
    valid_for_ms=60_000,
    at=EpochMs(AT),
)


def names(now: int, brokers_time: int | None) -> tuple[str, ...]:
    found = time_objections(APPROVED, EpochMs(now), None if brokers_time is None else EpochMs(brokers_time))
    return tuple(each.name for each in found)


def test_an_approval_is_valid_until_it_expires_by_our_clock() -> None:
    assert names(AT, None) == names(AT + 59_999, None) == names(AT + 59_999, AT) == ()
    assert names(AT + 60_000, None) == ("APPROVAL_EXPIRED",)


def test_an_approval_expires_by_the_brokers_clock_where_ours_is_slower() -> None:
    assert names(AT + 59_000, AT + 60_000) == ("APPROVAL_EXPIRED",)


def test_a_clock_behind_the_brokers_permits_nothing() -> None:
    assert names(AT - 5_000, None) == ()
    assert names(AT - 5_001, None) == ("CLOCK_BEHIND",), "behind the time of the approval itself"
    assert names(AT, AT + 5_001) == ("CLOCK_BEHIND",)
    assert names(AT, AT + 60_000) == ("APPROVAL_EXPIRED", "CLOCK_BEHIND")


def test_times_are_named_as_dates() -> None:
    """They were milliseconds since 1970."""
    why = {each.name: each.detail for each in time_objections(APPROVED, EpochMs(AT), EpochMs(AT + 60_000))}
    assert why["APPROVAL_EXPIRED"].startswith("valid until 1970-01-01T00:17:40.000Z, now is 1970-01-01T00:17:40.000Z:")
    assert "it shows 1970-01-01T00:16:40.000Z, the brokers' showed 1970-01-01T00:17:40.000Z" in why["CLOCK_BEHIND"]
