"""Whether a worker is alive and ready, as the probes of its host ask; each answer has its reasons. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.failover.limitations import SILENT_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import EpochMs
    from tanist.ports.membership import Ownership

HUNG_SECONDS: Final = 120.0
"""A round that asks clusters which do not answer takes long; one that takes longer does not end any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """What a worker knows of itself. Monotonic seconds, except for `heartbeat` and `now`: ms since 1970.

    `ended`: threads and state topics that have ended, each with its error. `round_at`: when the last round of the
    coordination thread began. `heartbeat`: its own last one as it was read back from the state topic; None: it was not.
    `ownership`: None: it has not joined its group yet. `claimed`: the state partitions that it has claimed.
    """

    ended: Sequence[str]
    round_at: float
    monotonic: float
    heartbeat: EpochMs | None
    ownership: Ownership | None
    claimed: frozenset[int]
    now: EpochMs


def not_alive(facts: WorkerFacts) -> tuple[str, ...]:
    """Why the process must be restarted; empty: its threads go round."""
    waited = facts.monotonic - facts.round_at
    hangs = f"the coordination thread has completed no round for {waited:.0f} s" if waited > HUNG_SECONDS else ""
    return (*facts.ended, *((hangs,) if hangs else ()))


def not_ready(facts: WorkerFacts) -> tuple[str, ...]:
    """Why it does not copy what it should; empty: it reads the state topic, and has claimed what its group gave it."""
    return (*not_alive(facts), *_unread(facts), *_unclaimed(facts))


def _unread(facts: WorkerFacts) -> tuple[str, ...]:
    """Its own heartbeat comes back from the state topic: so it is written and read."""
    if facts.heartbeat is None:
        return ("it has not read its own heartbeat from the state topic yet",)
    age = facts.now - facts.heartbeat
    if age <= SILENT_MS:
        return ()
    return (f"its last heartbeat in the state topic is {age // 1000} s old: the destination does not take or send it",)


def _unclaimed(facts: WorkerFacts) -> tuple[str, ...]:
    held = facts.ownership
    if held is None:
        return ("it has not joined the group of workers yet",)
    if facts.monotonic >= held.holds_until():
        return ("its membership in the group of workers has expired",)
    if missing := held.state_partitions - facts.claimed:
        return (f"it owns {len(missing)} state partition(s) that it has not claimed yet",)
    return ()
