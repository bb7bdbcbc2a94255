"""What every Clock does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.kafka.wire.clock import SystemClock
from tests.fakes.clock import JumpingClock

if TYPE_CHECKING:
    from tanist.ports.clock import Clock


@pytest.fixture(params=[JumpingClock, SystemClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


def test_waiting_moves_both_clocks_and_ends_a_deadline(clock: Clock) -> None:
    by, wall = clock.deadline(0.02), clock.now()
    assert 0 < by.left(clock.monotonic()) <= 0.02
    clock.wait(0.03)
    assert by.left(clock.monotonic()) == 0
    assert clock.now() >= wall + 20, "milliseconds"


def test_waiting_for_no_time_at_all_is_no_mistake(clock: Clock) -> None:
    before = clock.monotonic()
    clock.wait(0)
    assert clock.monotonic() >= before
