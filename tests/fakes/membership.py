"""The fetchers' group in memory: slices are spread, revoked before they are given on, and lost after a session."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tanist.ports.membership import Ownership

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.ports.clock import Clock, Deadline

SESSION_SECONDS = 8.0
LEASE_SECONDS = 6.0


class MemoryGroup:
    """The coordinator. Members that have not polled for a session are given up."""

    def __init__(self, slices: int, clock: Clock) -> None:
        self.slices, self.clock = slices, clock
        self.seen: dict[MemoryMembership, float] = {}
        self.held: dict[MemoryMembership, frozenset[int]] = {}

    def beat(self, member: MemoryMembership) -> bool:
        """Whether the member was one still; joins it if not."""
        now = self.clock.monotonic()
        for silent in [other for other, at in self.seen.items() if at + SESSION_SECONDS <= now]:
            del self.seen[silent], self.held[silent]
        known = member in self.seen
        self.seen[member] = now
        self.held.setdefault(member, frozenset())
        return known

    def share(self, member: MemoryMembership) -> frozenset[int]:
        """What the member should hold, were everything already given back."""
        members = list(self.seen)
        mine = members.index(member)
        return frozenset(n for n in range(self.slices) if n % len(members) == mine)

    def free(self) -> frozenset[int]:
        return frozenset(range(self.slices)).difference(*self.held.values())


class MemoryMembership:
    """The port `Membership`."""

    def __init__(self, group: MemoryGroup, before_release: Callable[[Ownership], None] = lambda _: None) -> None:
        self._group, self._before_release = group, before_release
        self._confirmed_at = -math.inf

    def poll(self, by: Deadline) -> Ownership:
        if not self._group.beat(self) and self._confirmed_at > -math.inf:  # it was one, and was given up
            self._before_release(self._ownership())
        held, share = self._group.held[self], self._group.share(self)
        self._confirmed_at = self._group.clock.monotonic()
        if surplus := held - share:
            self._before_release(Ownership(held - surplus, self._confirmed_at, LEASE_SECONDS))
        self._group.held[self] = (held & share) | (share & self._group.free())
        return self._ownership()

    def leave(self) -> None:
        self._group.seen.pop(self, None)
        self._group.held.pop(self, None)
        self._confirmed_at = -math.inf

    def _ownership(self) -> Ownership:
        return Ownership(self._group.held.get(self, frozenset()), self._confirmed_at, LEASE_SECONDS)
