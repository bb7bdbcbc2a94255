"""Which worker owns which state partitions: the workers are members of one consumer group on `__mirror_state`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True)
class Ownership:
    """The state partitions that this worker owns, and until when that is certain.

    `confirmed_at` is the monotonic time (s) taken before the last call in which the group coordinator accepted our
    member id and generation. No other worker can be assigned our state partitions until `lease_seconds` after it,
    unless this worker has revoked them itself.
    """

    state_partitions: frozenset[int]
    confirmed_at: float
    lease_seconds: float

    def holds_until(self) -> float:
        """Monotonic time (s) until which requests that need an exclusive owner may be sent."""
        return self.confirmed_at + self.lease_seconds


class Membership(Protocol):
    """Used by one thread."""

    def poll(self, by: Deadline) -> Ownership:
        """The current ownership, a new object for each change.

        A state partition leaves it before another worker can get it.
        """
        ...

    def leave(self) -> None:
        """Leave the group, so that others take over at once."""
        ...
