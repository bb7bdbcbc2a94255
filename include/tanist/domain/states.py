"""The life of a mirrored partition (KIP-1279), as one table of numbered rows.

A row matches (observed state, trigger). A trigger is derived each round from the wish and from what the worker found;
it is never queued. Code, `tanist fsm`, docs and tests read this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tanist.domain.errors import NoSuchTransition


class MirrorState(StrEnum):
    UNKNOWN, PREPARING, MIRRORING = "UNKNOWN", "PREPARING", "MIRRORING"
    PAUSING, PAUSED, STOPPING, STOPPED = "PAUSING", "PAUSED", "STOPPING", "STOPPED"
    FAILED = "FAILED"


class Wish(StrEnum):
    """What people want of a topic."""

    MIRRORING, PAUSED, REMOVED = "MIRRORING", "PAUSED", "REMOVED"


class Finding(StrEnum):
    """What the worker that owns a partition has found out."""

    ALIGNED, QUIET, SEALED, BROKEN = "aligned", "quiet", "sealed", "broken"


class Trigger(StrEnum):
    ADD, PAUSE, RESUME, REMOVE = "add", "pause", "resume", "remove"
    ALIGNED, QUIET, SEALED, BROKEN = "aligned", "quiet", "sealed", "broken"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the state machine. The number is for ever: incidents, records and tests cite it."""

    number: int
    before: frozenset[MirrorState]
    trigger: Trigger
    after: MirrorState
    reason: str


def _row(number: int, before: str, trigger: Trigger, after: str, reason: str) -> Row:
    states = MirrorState if before == "*" else [MirrorState(name) for name in before.split()]
    return Row(number, frozenset(states), trigger, MirrorState(after), reason)


_NOT_LEAVING: Final = "UNKNOWN PREPARING MIRRORING PAUSING PAUSED FAILED"
MIRROR_STATES: Final = (
    _row(100, "UNKNOWN STOPPED", Trigger.ADD, "PREPARING", "compare both logs before the first append"),
    _row(102, "PREPARING", Trigger.ALIGNED, "MIRRORING", "log start, sequence and map agree"),
    _row(200, "PREPARING MIRRORING", Trigger.PAUSE, "PAUSING", "let the batches in flight land"),
    _row(202, "PAUSING", Trigger.QUIET, "PAUSED", "nothing in flight"),
    _row(204, "PAUSING PAUSED", Trigger.RESUME, "MIRRORING", "recovery finds the end where we left it"),
    _row(300, _NOT_LEAVING, Trigger.REMOVE, "STOPPING", "the topic leaves the mirror"),
    _row(302, "STOPPING", Trigger.SEALED, "STOPPED", "last mirrored epoch stored, old writer refused"),
    _row(900, "*", Trigger.BROKEN, "FAILED", "one bad partition fails alone"),
)


def transition(state: MirrorState, trigger: Trigger) -> Row:
    """The first row that matches.

    Raises:
        NoSuchTransition: naming both, where the table has no such row.
    """
    for row in MIRROR_STATES:
        if state in row.before and trigger is row.trigger:
            return row
    raise NoSuchTransition(f"a partition that is {state} cannot {trigger}")


_BY_WISH: Final = {
    Wish.MIRRORING: {
        MirrorState.UNKNOWN: Trigger.ADD,
        MirrorState.STOPPED: Trigger.ADD,
        MirrorState.PAUSING: Trigger.RESUME,
        MirrorState.PAUSED: Trigger.RESUME,
    },
    Wish.PAUSED: {
        MirrorState.UNKNOWN: Trigger.ADD,
        MirrorState.PREPARING: Trigger.PAUSE,
        MirrorState.MIRRORING: Trigger.PAUSE,
    },
    Wish.REMOVED: {
        MirrorState.PREPARING: Trigger.REMOVE,
        MirrorState.MIRRORING: Trigger.REMOVE,
        MirrorState.PAUSING: Trigger.REMOVE,
        MirrorState.PAUSED: Trigger.REMOVE,
        MirrorState.FAILED: Trigger.REMOVE,
    },
}

_HEEDED: Final = {
    MirrorState.PREPARING: {Finding.ALIGNED},
    MirrorState.PAUSING: {Finding.QUIET},
    MirrorState.STOPPING: {Finding.SEALED},
}


def trigger_for(wish: Wish, observed: MirrorState, finding: Finding | None) -> Trigger | None:
    """What should happen to a partition now; None: nothing. Bad news first, then people's wishes, then progress."""
    if finding is Finding.BROKEN:
        return Trigger.BROKEN if observed is not MirrorState.FAILED else None
    if wanted := _BY_WISH[wish].get(observed):
        return wanted
    if finding is not None and finding in _HEEDED.get(observed, ()):
        return Trigger(finding)
    return None
