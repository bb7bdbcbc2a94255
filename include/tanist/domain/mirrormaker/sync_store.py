"""MirrorMaker 2's own store of offset-syncs: what MM2 would answer (OffsetSyncStore of connect/mirror 4.3.1).

64 slots of each partition. For slots i < j that hold different syncs, by their upstream offsets:

- A: slot 0 is the newest sync.
- B: slot[i] <= slot[j] + 2^j - 2^i.
- C: slot[i] >= slot[j] + 2^max(i - 2, 0).
- D: slot 63 is the earliest sync that can be used.

So syncs are dense near the newest one and ever sparser behind it. This is what MM2 answers, not what Tanist does: it
forgets most of what its topic has, and keeps syncs that a downstream reset has made wrong.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.names import DestinationOffset, SourceOffset, SourcePartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.mirrormaker.records import OffsetSync

SLOTS: Final = 64
_OVERFLOW: Final = 1 << 63
"""Java's long: what reaches it is negative there."""


class NoAnswer(StrEnum):
    """What MM2 has instead of an offset. UNTRANSLATED: it skips the group. TOO_OLD: it answers -1, and skips it."""

    UNTRANSLATED = "no answer"
    TOO_OLD = "-1"


Slots: TypeAlias = "tuple[OffsetSync, ...]"


class OffsetSyncStore:
    """The store of one checkpoint task. `must_read_to_end`: its checkpoints could not be loaded.

    Then, while it starts, only the last sync of each partition survives (KAFKA-15905). Not thread-safe.
    """

    def __init__(self, *, must_read_to_end: bool = False) -> None:
        self._must_read_to_end = must_read_to_end
        self._started = False
        self._slots: dict[SourcePartition, list[OffsetSync]] = {}

    @classmethod
    def replayed(cls, syncs: Iterable[OffsetSync]) -> OffsetSyncStore:
        """As MM2 would have it if it started over `syncs` now, with its checkpoints loaded."""
        store = cls()
        for sync in syncs:
            store.add(sync)
        store.start()
        return store

    def start(self) -> None:
        """The topic was read to its end: from now on there are answers."""
        self._started = True

    def add(self, sync: OffsetSync) -> None:
        """The next record of the topic. O(SLOTS) at worst; mostly some 5 to 10 steps."""
        slots = self._slots.get(sync.partition)
        replaces_all = slots is None or sync.upstream < slots[0].upstream
        if slots is None or replaces_all or (self._must_read_to_end and not self._started):
            self._slots[sync.partition] = [sync] * SLOTS
        else:
            _update(slots, sync)

    def slots(self, partition: SourcePartition) -> Slots:
        """All slots of a partition, the newest first; empty: it has no sync."""
        return tuple(self._slots.get(partition, ()))

    def translate(self, partition: SourcePartition, position: SourceOffset) -> DestinationOffset | NoAnswer:
        """What MM2 answers for a committed offset, or why it answers nothing.

        One offset behind the sync at most: of the records behind it, an unknown number is not at the destination.
        """
        slots = self._slots.get(partition)
        if not self._started or slots is None:
            return NoAnswer.UNTRANSLATED
        found = next((sync for sync in slots if sync.upstream <= position), None)
        if found is None:
            return NoAnswer.TOO_OLD
        return found.downstream if found.upstream == position else DestinationOffset(found.downstream + 1)


def _update(slots: list[OffsetSync], sync: OffsetSync) -> None:
    """Put `sync` in slot 0 and repair the invariants in the slots behind it, as far as they are broken.

    What was in the slots moves down as long as it is useful there; the tail that satisfies B stays as it is. Syncs are
    compared by identity, as MM2 does: the same pair may be written twice.
    """
    original, replacement, candidate = slots.copy(), sync, 0
    slots[0] = sync
    for current in range(1, SLOTS):
        previous = current - 1
        while True:
            old = original[candidate]
            separated = _c(slots[previous], old, previous)
            follows = current + 1 >= SLOTS or _c(old, slots[current + 1], current)
            duplicate = candidate + 1 < SLOTS and old is original[candidate + 1]
            used = _b(slots[previous], old, previous, current) and separated and follows
            if used:
                replacement = old
            skipped = duplicate or not separated
            candidate += used or skipped
            if candidate >= current or not skipped:
                break
        if _b(slots[previous], slots[current], previous, current):
            return
        slots[current] = replacement


def _b(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    bound = older.upstream + (1 << j) - (1 << i)
    return newer is older or bound >= _OVERFLOW or newer.upstream <= bound


def _c(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    bound = older.upstream + (1 << max(i - 2, 0))
    return newer is older or (bound < _OVERFLOW and newer.upstream >= bound)
