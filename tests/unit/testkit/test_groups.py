"""A group whose coordinator has just become one is no group that cannot commit."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tanist.domain.errors import TimedOut
from tanist_testkit.verify.groups import commit
from tanist_testkit.verify.traces import Place
from tests.fakes.clock import JumpingClock

HERE = {Place("orders", 0): 5}


class Committing:
    """Refuses with these codes first."""

    def __init__(self, *refusals: int) -> None:
        self.refusals = list(refusals)

    def commit(self, **_: Any) -> None:
        if self.refusals:
            raise KafkaException(KafkaError(self.refusals.pop(0)))


def committed(*refusals: int) -> None:
    clock, client = JumpingClock(), Committing(*refusals)
    commit(client, HERE, clock.deadline(10), clock)  # type: ignore[arg-type]  # as much of it as is asked for
    assert not client.refusals


def test_a_coordinator_that_still_loads_is_asked_again() -> None:
    """The demo failed on a busy machine with COORDINATOR_LOAD_IN_PROGRESS."""
    committed(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR)


def test_a_refusal_is_raised_and_one_that_never_ends_is_late() -> None:
    with pytest.raises(KafkaException):
        committed(KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(TimedOut, match="coordinator"):
        committed(*[KafkaError.COORDINATOR_NOT_AVAILABLE] * 1000)
