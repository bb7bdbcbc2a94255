"""What the probes of a host are answered, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.names import EpochMs
from tanist.fetcher.health import WorkerFacts, not_alive, not_ready
from tanist.ports.membership import Ownership

WELL = WorkerFacts(
    ended=(),
    round_at=99.0,
    monotonic=100.0,
    heartbeat=EpochMs(50_000),
    ownership=Ownership(frozenset({1, 2}), 95.0, 10.0),
    claimed=frozenset({1, 2}),
    now=EpochMs(55_000),
)


def test_a_worker_that_does_its_work_is_alive_and_ready() -> None:
    assert (not_alive(WELL), not_ready(WELL)) == ((), ())
    idle = replace(WELL, ownership=Ownership(frozenset(), 95.0, 10.0), claimed=frozenset())
    assert not_ready(idle) == (), "more workers than state partitions: it waits for one to go"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(WELL, ended=("thread coordination does not run: None",)), "thread coordination does not run: None"),
        (replace(WELL, monotonic=300.0), "the coordination thread has completed no round for 201 s"),
    ],
)
def test_one_that_does_not_go_round_is_to_be_restarted(facts: WorkerFacts, reason: str) -> None:
    assert not_alive(facts) == (reason,)
    assert reason in not_ready(facts)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(WELL, heartbeat=None), "it has not read its own heartbeat from the state topic yet"),
        (
            replace(WELL, now=EpochMs(81_000)),
            "its last heartbeat in the state topic is 31 s old: the destination does not take or send it",
        ),
        (replace(WELL, ownership=None), "it has not joined the group of workers yet"),
        (replace(WELL, monotonic=105.0), "its membership in the group of workers has expired"),
        (replace(WELL, claimed=frozenset({1})), "it owns 1 state partition(s) that it has not claimed yet"),
    ],
)
def test_one_that_waits_for_a_cluster_is_alive_and_not_ready(facts: WorkerFacts, reason: str) -> None:
    """To restart it would not help."""
    assert not_alive(facts) == ()
    assert not_ready(facts) == (reason,)
