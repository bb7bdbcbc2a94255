"""When an error that halted copying has passed: not because both logs could be read again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tanist.domain.appending import Halt
from tanist.domain.broker_errors import TopicAuthorizationFailed
from tanist.domain.errors import SourceTruncated, Unreachable
from tanist.domain.recovery import SourceBehind
from tanist.fetcher.engines.engine import Phase
from tanist.fetcher.fetcher_thread import (
    FIRST_BACK_OFF,
    SETTLED_AFTER_SECONDS,
    TRUNCATED_AFTER_SECONDS,
    PartitionFetchState,
)

DENIED = TopicAuthorizationFailed("append to orders-0")


def state() -> PartitionFetchState[Any]:
    return PartitionFetchState(cast("Any", SimpleNamespace(halted=None, in_flight=False)))


def halted(of: PartitionFetchState[Any], now: float) -> None:
    of.halted(Halt(DENIED, now))


def test_an_append_that_is_refused_after_each_recovery_is_one_error_that_lasts() -> None:
    """Without WRITE a partition was MIRRORING without a word. Pauses stay short: of two owners, one always appends."""
    seen, now = state(), 100.0
    for _ in range(12):
        halted(seen, now)
        assert seen.retry_at == now + FIRST_BACK_OFF
        now = seen.retry_at
        seen.recovered(Phase.COPY, now)
        assert not seen.noticed(0, now + 0.1)
        assert (seen.error, seen.failing_since) == (DENIED, 100.0)


def known(of: PartitionFetchState[Any]) -> tuple[object, object]:
    return of.error, of.failing_since


@pytest.mark.parametrize(("position", "later"), [(1, 0.1), (0, SETTLED_AFTER_SECONDS), (None, SETTLED_AFTER_SECONDS)])
def test_what_halted_copying_has_passed_once_something_was_copied_or_nothing_went_wrong_for_a_while(
    position: int | None, later: float
) -> None:
    seen = state()
    halted(seen, 100.0)
    seen.recovered(Phase.COPY, 101.0)
    assert not seen.noticed(0, 101.0)
    assert known(seen) == (DENIED, 100.0)
    assert seen.noticed(position, 101.0 + later)
    assert known(seen) == (None, None)


def test_an_error_of_a_recovery_has_passed_with_the_next_one() -> None:
    seen = state()
    halted(seen, 100.0)
    seen.recovered(Unreachable("away"), 101.0)
    seen.recovered(Phase.COPY, 102.0)
    assert seen.error is None


def test_a_source_is_truncated_only_if_it_was_shorter_for_long_and_not_because_something_else_was() -> None:
    seen = state()
    for now in range(100, 200, 5):
        halted(seen, now)
        seen.recovered(Phase.COPY, now + 1)
    behind = SourceBehind("shorter")
    seen.recovered(behind, 200.0)
    assert seen.error is behind
    seen.recovered(Unreachable("away"), 210.0)
    seen.recovered(behind, 201.0 + TRUNCATED_AFTER_SECONDS)
    assert isinstance(seen.error, SourceTruncated)
    assert seen.phase is Phase.BROKEN
