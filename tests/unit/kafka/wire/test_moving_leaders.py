"""While a leader moves, the old one refuses before all brokers name the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.broker_errors import NotLeader
from tanist.domain.errors import Unreachable
from tanist.domain.names import BrokerId, TopicPartition
from tanist.kafka.wire.leaders import ask_leaders
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.errors import TanistError

MOVED = TopicPartition("moved", 0)


class Moving:
    """A router whose leader refuses so many times. `paused`: seconds."""

    def __init__(self, refusals: int, error: type[TanistError] = NotLeader) -> None:
        self.refusals, self.error = refusals, error
        self.paused, self.asked = 0.0, 0

    def leaders(self, of: Iterable[TopicPartition]) -> dict[TopicPartition, BrokerId]:
        return dict.fromkeys(of, BrokerId(1))

    def refresh(self, *_: Any) -> None: ...

    def pause(self, seconds: float, _: Deadline) -> None:
        self.paused += seconds

    def ask(self, _: BrokerId, group: Mapping[TopicPartition, int], *__: Any) -> dict[TopicPartition, object]:
        self.asked += 1
        return {at: self.error("moved") if self.asked <= self.refusals else 7 for at in group}


def answer(router: Moving, *, again: bool = True) -> object:
    return ask_leaders(cast("Any", router), {MOVED: 0}, Deadline(1e9), cast("Any", None), again=again)[MOVED]


@pytest.mark.parametrize("refusals", [0, 1, 2, 4])
def test_it_is_asked_for_a_moment_longer(refusals: int) -> None:
    """A reversal was refused because leaders of its topics were moving as it was typed."""
    router = Moving(refusals)
    assert answer(router) == 7
    assert (router.asked, router.paused < 1) == (refusals + 1, True)


def test_one_that_goes_on_refusing_is_an_error_within_a_second() -> None:
    router = Moving(99)
    assert isinstance(answer(router), NotLeader)
    assert router.paused < 1


def test_who_changes_something_asks_once() -> None:
    router = Moving(1)
    assert isinstance(answer(router, again=False), NotLeader)
    assert router.asked == 1


def test_a_broker_that_is_down_is_asked_twice_without_a_pause() -> None:
    router = Moving(99, Unreachable)
    assert isinstance(answer(router), Unreachable)
    assert (router.asked, router.paused) == (2, 0)
