"""Who owns which slices: members of one consumer group on the state topic, by Kafka's own protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True)
class Ownership:
    """Slices held, and the proof of it.

    `confirmed_at` is the monotonic time (s) taken before the last call in which the group coordinator accepted our
    member id and generation. Nobody else can be given our slices earlier than `lease_seconds` after it, unless we
    gave them back ourselves.
    """

    state_partitions: frozenset[int]
    confirmed_at: float
    lease_seconds: float

    def holds_until(self) -> float:
        """Monotonic time (s) until which what needs an exclusive owner may be sent."""
        return self.confirmed_at + self.lease_seconds


class Membership(Protocol):
    """Owned by one thread."""

    def poll(self, by: Deadline) -> Ownership:
        """What is held now; replaced, never mutated. Slices are gone from it before they can be given to another."""
        ...

    def leave(self) -> None: ...
