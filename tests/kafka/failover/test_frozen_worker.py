"""A worker that stands still before its append, while a stranger writes what the copy is short of."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tanist.kafka.wire.clock import SystemClock

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

QUICK = ("--fence-proof", "1s", "--drain", "5s", "--budget", "2s", "--json", "--although-it-answers")
WOKEN_SECONDS = 5.0


def test_a_worker_frozen_before_its_append_adds_nothing_to_what_a_stranger_has_written(pair: Pair) -> None:
    """Both logs have one length then. A planned failover stops by name; the other names what it takes over.

    The source's answer lies in the worker's socket when it wakes: its first act is the append.
    """
    worker = pair.worker()
    pair.mirror("stolen", "stolen")
    plan = pair.approved("stolen")
    worker.send(signal.SIGSTOP)
    try:
        assert pair.east.writes("stolen", range(10, 16))
        assert pair.west.writes("stolen", range(900, 906), user="admin"), "as many as the copy lacks, by a super user"
        stopped = pair.tanist("failover", "run", "stolen", "--plan", plan, *QUICK, expected=1)
        assert "COPY_HAS_FOREIGN_RECORDS" in stopped.out + stopped.err
        pair.tanist("failover", "abort", "stolen", "--evidence", str(pair.home / plan), expected=None)
        assert pair.east.writes("stolen", range(16, 18)), "nothing of the planned one is left"
        asked = ("--mode", "unplanned", "--json")
        shown = pair.tanist("failover", "plan", "stolen", *asked).item
        assert {"COPY_HAS_FOREIGN_RECORDS", "RECORDS_AT_RISK_UNKNOWN"} <= {
            each["name"] for each in shown["limitations"]
        }
        assert shown["forecast"]["offsets_at_risk"] is None, "no number vouches for another's records"
        taken = pair.approved("stolen", mode="unplanned")
        pair.tanist("failover", "run", "stolen", "--plan", taken, *QUICK)
        before = pair.west.read("stolen")
    finally:
        worker.send(signal.SIGCONT)
    SystemClock().wait(WOKEN_SECONDS)
    assert pair.west.read("stolen") == before
    assert {int(value or b"") for _, _, value in before} == {*range(10), *range(900, 906)}
    (check,) = [each for each in _status(pair) if each["name"] == "left_behind"]
    assert check["verdict"] != "PASS", "the two that the source took last are named"


def _status(pair: Pair) -> list[dict[str, str]]:
    return list(pair.tanist("status", "stolen", "--json", expected=None).item["checks"])
