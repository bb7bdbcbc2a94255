"""What comes of one piece of work that waits for answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tanist.kafka.wire.waits import Waits

_T = TypeVar("_T")


def outcome(work: Waits[_T]) -> _T:
    """Its result, once every answer was waited for."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: _T = done.value
            return result
