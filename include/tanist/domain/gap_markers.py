"""When gap markers may be written, under which epoch, and whether they have landed. No I/O, no clock.

Markers are not compare-and-append. A lease makes a surplus rare. It is harmless, because an epoch is used once, markers
are counted by committed offsets and never by answers, and a shift is in the offset map before the next record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell

if TYPE_CHECKING:
    from tanist.domain.names import DestinationOffset

LAST_EPOCH: Final = 32_767
"""An epoch is sent as a producer epoch, an int16; no transaction coordinator hands out the last one."""
_MOST_COORDINATOR_EPOCH: Final = 0x7FFFFFFF


class NotAsExpected(CouldNotTell):
    """The destination does not end where our own appends should have ended."""

    name = "END_MOVED"
    operator_action = "none: both logs are read again"


@dataclass(slots=True)
class MarkerEpoch:
    """The producer epoch of the next gap markers of a partition.

    `spent`: markers were sent with it that were not confirmed exactly. Requests still under way carry this epoch, so a
    higher one fences them, and this one must not be used again.
    """

    value: int
    spent: bool = False

    def sent(self) -> None:
        """Markers were sent: the epoch is spent until they have been counted."""
        self.spent = True

    def counted(self) -> None:
        """Exactly the markers that were sent are committed."""
        self.spent = False

    def renewed(self, value: int) -> None:
        """`value` is higher than any epoch that the leader has seen, and no other worker uses it."""
        self.value, self.spent = value, False

    def claimed(self, epoch: int) -> None:
        """The partition's state partition was claimed again, with `epoch`."""
        self.value = max(self.value, epoch)


class Count(Enum):
    """The result of comparing the committed end with the markers that were sent."""

    LANDED = auto()
    NOT_YET = auto()
    SURPLUS = auto()


def ends_at(committed: int, end: int, expected: DestinationOffset) -> bool:
    """Whether the destination ends where it should, all of it committed: only then its gap may be filled.

    `committed` must have been read before `end`: equal numbers then mean that nothing was uncommitted in between.
    """
    return committed == end == expected


def count(committed: int, expected: int) -> Count:
    """Whether the markers that were to bring the end to `expected` have landed."""
    if committed == expected:
        return Count.LANDED
    return Count.SURPLUS if committed > expected else Count.NOT_YET


def coordinator_epochs(end: DestinationOffset, markers: int) -> tuple[int, ...]:
    """One for each marker: the offset it is meant for. One for an offset that is taken is refused (52)."""
    return tuple(target & _MOST_COORDINATOR_EPOCH for target in range(end, end + markers))


def next_epoch(claimed: int, seen: int = 0) -> int | None:
    """The epoch after the last one that was `claimed`, above what the leader has `seen`; None: there is none left."""
    epoch = max(claimed, seen) + 1
    return epoch if epoch <= LAST_EPOCH else None
