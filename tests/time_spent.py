"""Where the time of a test run goes: seconds and tests by what runs in one process, the longest first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest


class Spent(NamedTuple):
    """`seconds`: of set-up, tests and tear-down; the processes that ran side by side add up."""

    where: str
    seconds: float
    tests: int


def profile(reports: Iterable[pytest.TestReport], share: Callable[[str], str]) -> list[Spent]:
    """`share`: what a test belongs to, by its id. The longest first."""
    seconds, tests = defaultdict[str, float](float), defaultdict[str, set[str]](set)
    for each in reports:
        where = share(each.nodeid)
        seconds[where] += each.duration
        tests[where].add(each.nodeid)
    found = (Spent(where, seconds[where], len(tests[where])) for where in seconds)
    return sorted(found, key=lambda each: (-each.seconds, each.where))


def lines(found: Iterable[Spent]) -> list[str]:
    """A table for people."""
    return [f"{each.seconds:8.1f} s {each.tests:6} tests  {each.where}" for each in found]
