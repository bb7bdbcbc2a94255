"""The coordination thread over stores in memory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NoReturn

import pytest

from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.names import EpochMs, MirrorName
from tanist.domain.records import STATE_TOPIC
from tanist.fetcher.claims import Claims
from tanist.fetcher.coordination import Coordination, Worker
from tanist.fetcher.fetcher_threads import FetcherThreads
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.sandbox.ports import free_ports
from tests.builders import a_mirror, a_topic
from tests.fakes.cluster import MemoryCluster
from tests.fakes.membership import MemoryGroup, MemoryMembership
from tests.fakes.state import WORKER, MemoryStateStore
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.state_record import StateRecord

M, NOW = MirrorName("m"), EpochMs(0)
WISHES: tuple[StateRecord, ...] = (
    a_mirror(M, created_at=NOW),
    a_topic(mirror=M, source_topic_id="", changed_at=NOW),
)


def no_lane(*_: object) -> NoReturn:
    raise AssertionError("no leader is known, so no lane can be")


@pytest.fixture
def dead() -> Endpoint:
    return Endpoint(name="east", bootstrap=(Address("127.0.0.1", free_ports(1)[0]),))


@pytest.fixture
def coordination(dead: Endpoint) -> Iterator[Coordination]:
    """At work on a topic whose source does not answer."""
    cluster, clock = MemoryCluster(), SystemClock()
    cluster.write(STATE_TOPIC, *WISHES)
    state = MemoryStateStore(cluster, STATE_TOPIC, WORKER)
    claims = Claims("w1", state, clock)
    thread = Coordination(
        worker=Worker(id="w1", version="1", host="h", started_at=NOW),
        state=state,
        membership=MemoryMembership(MemoryGroup(4, clock), claims.renew),
        claims=claims,
        threads=FetcherThreads(no_lane, clock),
        resolve=lambda _: dead,
        state_partitions=4,
        clock=clock,
    )
    thread.start()
    yield thread
    thread.stop()
    thread.join(20)
    assert thread.died is None


def test_a_source_that_does_not_answer_is_in_the_log_with_its_reason(
    coordination: Coordination, dead: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """As a warning: what the operator reads there is all that he has while the state topic is away."""
    caplog.set_level(logging.INFO)

    def reported() -> list[logging.LogRecord]:
        return [record for record in caplog.records if hasattr(record, "error") and "orders-0" in str(vars(record))]

    until(reported, 30)
    record = vars(reported()[0])
    assert (record["levelno"], record["error"]) == (logging.WARNING, "UNREACHABLE")
    assert str(dead.bootstrap[0].port) in record["reason"]
