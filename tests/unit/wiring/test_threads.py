"""The same for many, a few at a time, each in a thread of its own."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from tanist.kafka.wire.clock import SystemClock
from tanist.settings import Settings
from tanist.usecases.command import CommandContext
from tanist.wiring.registry import ClusterRegistry
from tanist.wiring.threads import for_each
from tests.fakes.clock import JumpingClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.ports.clock import Clock

NOWHERE = ClusterRegistry(Settings("nowhere", {}))


def each_of(
    work: Callable[[ClusterRegistry, CommandContext, int], int], clock: Clock, *, most: int = 2, stop: threading.Event
) -> list[int | BaseException]:
    context = CommandContext(clock=clock, by=clock.deadline(30))
    found = for_each(range(3), work, NOWHERE, context, most=most, stop=stop)
    return [each.exception() or each.result() for each in found]


def test_results_and_errors_come_in_the_order_of_the_items() -> None:
    """Each has connections of its own, and one that fails stops no other."""
    registries = []

    def work(registry: ClusterRegistry, _: CommandContext, item: int) -> int:
        registries.append(registry)
        if item == 1:
            raise ValueError
        return item

    first, second, third = each_of(work, JumpingClock(), stop=threading.Event())
    assert (first, type(second), third) == (0, ValueError, 2)
    assert len({id(each) for each in (*registries, NOWHERE)}) == 4


def test_each_has_the_whole_time_from_its_own_beginning() -> None:
    """The last of twenty would have none left."""
    clock = JumpingClock()

    def work(_: ClusterRegistry, context: CommandContext, _item: int) -> int:
        left = context.by.left(context.clock.monotonic())
        context.clock.wait(25)
        return round(left)

    assert each_of(work, clock, most=1, stop=threading.Event()) == [30, 30, 30]


def test_ctrl_c_ends_those_that_wait_and_begins_no_other() -> None:
    """Threads do not hear of it: they end at the first wait of their clock."""
    stop, begun, ended = threading.Event(), [], []

    def work(_: ClusterRegistry, context: CommandContext, item: int) -> int:
        begun.append(item)
        if begun.index(item) == 1:  # one of them alone: a second interrupt would not wait for anybody
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            while True:
                context.clock.wait(60)
        finally:
            ended.append(item)

    with pytest.raises(KeyboardInterrupt):
        each_of(work, SystemClock(stop), stop=stop)
    assert (sorted(begun), sorted(ended)) == ([0, 1], [0, 1])
