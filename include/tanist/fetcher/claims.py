"""The lease of a state partition and its epoch: exclusive actions of one worker at a time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell, PartitionBroken
from tanist.domain.gap_markers import LAST_EPOCH, next_epoch
from tanist.domain.records import Claim

if TYPE_CHECKING:
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import Assigned, PartitionKey
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.membership import Ownership
    from tanist.ports.state import StateStore

MARGIN_SECONDS: Final = 0.2
"""Safety margin: a request sent now reaches the broker before the lease ends."""


class FillerEpochsExhausted(PartitionBroken):
    name = "FILLER_EPOCHS_EXHAUSTED"
    operator_action = "copy the topic by a mirror of another name, whose partitions have other epochs for gap markers"


class NotOurs(CouldNotTell):
    name = "NOT_OUR_SLICE"
    operator_action = "none: the worker that owns it continues"


def held_epoch(view: StateView, number: int) -> int:
    """The epoch of the last claim of a state partition; 0 if there was none."""
    claim = view.claim(number)
    return claim.epoch if claim else 0


class Claims:
    """Thread-safe: the coordination thread renews, fetcher threads query.

    For data a claim only avoids conflicts; the broker's idempotence check makes appends safe. For gap markers, and for
    records so old that the broker may forget our producer id, it is an exclusive lease.
    """

    def __init__(self, worker: str, store: StateStore, clock: Clock) -> None:
        self._worker = worker
        self._store = store
        self._clock = clock
        self._ownership: Ownership | None = None
        self._claiming = threading.Lock()
        self._used: dict[PartitionKey, int] = {}

    def renew(self, ownership: Ownership) -> None:
        """Renew the leases; called by the coordination thread after each poll."""
        self._ownership = ownership

    @property
    def ownership(self) -> Ownership | None:
        """As the group coordinator confirmed it last; None: this worker has not joined yet."""
        return self._ownership

    def holds(self, number: int) -> bool:
        """Whether an exclusive request may be sent for this state partition; call immediately before sending."""
        held = self._ownership
        if held is None or number not in held.state_partitions:
            return False
        return self._clock.monotonic() < held.holds_until() - MARGIN_SECONDS

    def objection(self, of: Assigned) -> NotOurs | None:
        """Why no exclusive request may be sent for this partition; None: it may. Call immediately before sending."""
        return (
            None
            if self.holds(of.state_partition)
            else NotOurs(f"{of.partition}: the lease of state partition {of.state_partition} has expired")
        )

    def must_hold(self, of: Assigned) -> None:
        """Raise the `objection`, if there is one."""
        if why := self.objection(of):
            raise why

    def first_use(self, of: Assigned) -> bool:
        """Whether this process has not filled this partition with this epoch before; called once per assignment.

        An earlier fetcher thread may have left a fill with an unknown result.
        """
        first = self._used.get(of.key, -1) < of.claim_epoch
        self._used[of.key] = of.claim_epoch
        return first

    def claim(self, numbers: frozenset[int], by: Deadline) -> StateView:
        """Claim newly assigned state partitions: write the next epoch of each and read it back."""
        with self._claiming:
            view = self._store.catch_up(by)
            return self._store.append([self._next(view, number) for number in sorted(numbers)], by)

    def raise_epoch(self, number: int, above: int, by: Deadline) -> int:
        """A new epoch of an owned state partition, greater than `above`, which must never be used again.

        Raises:
            NotOurs: the lease has ended, or another worker has claimed it first.
            FillerEpochsExhausted: no epoch is left.
        """
        with self._claiming:
            if not self.holds(number):
                raise NotOurs(f"state partition {number} is no longer assigned to this worker")
            mine = self._next(self._store.catch_up(by), number, above)
            held = self._store.append([mine], by).get(mine.key)
        if held != mine:
            raise NotOurs(f"state partition {number} was claimed by another worker")
        return mine.epoch

    def _next(self, view: StateView, number: int, above: int = 0) -> Claim:
        epoch = next_epoch(held_epoch(view, number), above)
        if epoch is None:
            raise FillerEpochsExhausted(f"state partition {number} was claimed {LAST_EPOCH} times")
        return Claim(state_partition=number, epoch=epoch, worker=self._worker)
