"""What ends by itself is named before it does. S3.17."""

from __future__ import annotations

from typing import Any

import pytest

from tanist.domain.checks import Check, Verdict
from tanist.domain.failover.expiring import certificates_check, expiry_check, fences_left
from tanist.domain.lag import KnownEnd, PartitionRow
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset
from tanist.domain.states import DesiredState, MirrorState
from tests.builders import AT, DR, a_topic, a_worker

NOW = EpochMs(1_700_000_000_000)
HOUR, DAY = 3_600_000, 86_400_000


def check(lag_ms: int = 0, configs: dict[str, str] | None = None, **certificates: int) -> Check:
    """Of a partition that lacks ten records of 100 bytes since so long."""
    source = KnownEnd(SourceOffset(20), NOW, uncopied_at=EpochMs(NOW - lag_ms), record_bytes=100.0)
    row = PartitionRow(
        mirror=DR,
        partition=AT,
        desired=DesiredState.MIRRORING,
        state=MirrorState.MIRRORING,
        source=source,
        destination_end=DestinationOffset(10),
        observed=None,
    )
    ends = {name: EpochMs(until) for name, until in certificates.items()}
    return expiry_check(NOW, ends, [row], [a_topic(deferred_configs=tuple((configs or {}).items()))])


@pytest.mark.parametrize(
    ("until", "said"),
    [
        (NOW, "client has ended: new connections are refused; renew it"),
        (NOW - 1, "client has ended: new connections are refused; renew it"),
        (NOW + 1_000, "client ends in 1.0 s; renew it"),
        (NOW + 14 * DAY - 1, "client ends in 13 d; renew it"),
        (NOW + 14 * DAY, ""),
    ],
)
def test_a_certificate_is_named_two_weeks_before_it_ends_and_in_the_second_in_which_it_does(
    until: int, said: str
) -> None:
    found = check(client=until)
    assert (found.reason, found.verdict) == (said, Verdict.FAIL if said else Verdict.PASS)


def test_the_doctor_says_when_the_first_one_of_a_cluster_ends() -> None:
    found = certificates_check("west", {"kafka:9093": EpochMs(NOW + 20 * DAY), "client": EpochMs(NOW + 30 * DAY)}, NOW)
    assert (found.name, found.verdict) == ("certificates on west", Verdict.PASS)
    assert found.observed == "2, the first one ends in 20 d"
    assert certificates_check("west", {"client": NOW}, NOW).verdict is Verdict.FAIL


def test_the_one_that_ends_first_is_named_first() -> None:
    assert check(broker=NOW + DAY + DAY, client=NOW + HOUR).reason.startswith("client ends in 60 min; renew it; broker")


@pytest.mark.parametrize(
    ("lag_ms", "configs", "said"),
    [
        (13 * HOUR, {"retention.ms": str(DAY)}, "old, and the source deletes it after 24 h"),
        (12 * HOUR, {"retention.ms": str(DAY)}, ""),
        (90 * DAY, {"retention.ms": "-1"}, ""),
        (90 * DAY, {"retention.ms": str(DAY), "cleanup.policy": "compact"}, ""),
        (90 * DAY, {"retention.ms": str(DAY), "cleanup.policy": "compact,delete"}, "deletes it after 24 h"),
        (0, {"retention.bytes": "1999"}, "it lacks about 1.0 KB, and the source keeps no more than 2.0 KB of it"),
        (0, {"retention.bytes": "2000"}, ""),
        (90 * DAY, {}, ""),
    ],
)
def test_a_lag_is_named_from_half_of_what_the_source_keeps(lag_ms: int, configs: dict[str, str], said: str) -> None:
    found = check(lag_ms, configs)
    assert (said in found.reason, found.verdict) == (True, Verdict.FAIL if said else Verdict.PASS), found


def test_producer_fences_are_named_while_nobody_renews_them() -> None:
    def worker(age: int) -> Any:
        return a_worker(version="1", host="h", started_at=EpochMs(0), at=EpochMs(NOW - age))

    assert fences_left(["orders"], [worker(30_000), worker(DAY)], NOW) == ""
    assert fences_left([], [], NOW) == ""
    assert fences_left(["orders"], [worker(3 * HOUR)], NOW).startswith("no fetcher has run for 3 h: brokers forget the")
    assert fences_left(["orders"], [], NOW).startswith("no fetcher has run ever: ")
    unrenewed = expiry_check(NOW, {}, [], [], "no fetcher has run")
    assert (unrenewed.verdict, unrenewed.reason) == (Verdict.FAIL, "no fetcher has run")
