"""What a cluster does not tell for the moment is waited for: the one place where plans and approvals do so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.failover.facts import Facts
    from tanist.ports.clock import Clock, Deadline

_AGAIN_SECONDS: Final = 0.5


class NotToldNow(CouldNotTell):
    """Not known for the moment, such as a partition without a leader; that voids nothing."""

    name = "NOT_TOLD_NOW"
    operator_action = "none: it is asked again until the deadline; nothing was changed meanwhile"


def once_told(look: Callable[[], Facts], is_awaited: Callable[[Facts], bool], clock: Clock, by: Deadline) -> Facts:
    """The first facts of which nothing is awaited, else those at the deadline."""
    while True:
        facts = look()
        if not is_awaited(facts) or not by.left(clock.monotonic()):
            return facts
        clock.wait(_AGAIN_SECONDS)
