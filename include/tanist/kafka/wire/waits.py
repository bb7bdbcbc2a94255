"""Work that waits for answers, several at a time in one thread: while one waits, the others post their requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

_T = TypeVar("_T")
Waits: TypeAlias = Generator[None, None, _T]
"""Some work: it yields before it waits for an answer, and returns what came of it."""


def in_turn(works: Iterable[Waits[None]]) -> Waits[None]:
    """One after another."""
    for each in works:
        yield from each


def together(works: Iterable[Waits[None]]) -> None:
    """Each goes on until it has to wait, then the next one, until all are done. An error of one leaves the others."""
    going = deque(works)
    while going:
        work = going.popleft()
        try:
            next(work)
        except StopIteration:
            continue
        going.append(work)
