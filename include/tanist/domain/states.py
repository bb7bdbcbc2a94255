"""The states of a mirrored partition (KIP-1279), as one table of numbered rows.

A row matches an observed state and a cause: the desired state of the topic, or a finding about the partition. Causes
are evaluated again in each round, never queued. Code, `tanist fsm`, docs and tests read this table only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MirrorState(StrEnum):
    UNKNOWN, PREPARING, MIRRORING = "UNKNOWN", "PREPARING", "MIRRORING"
    PAUSING, PAUSED, STOPPING, STOPPED = "PAUSING", "PAUSED", "STOPPING", "STOPPED"
    FAILED = "FAILED"


SETTLED: Final = frozenset({MirrorState.MIRRORING, MirrorState.PAUSED, MirrorState.STOPPED, MirrorState.FAILED})
"""States that last until something else is wished, or found."""


class DesiredState(StrEnum):
    """The state that operators want for a topic."""

    MIRRORING, PAUSED, REMOVED = "MIRRORING", "PAUSED", "REMOVED"


class Finding(StrEnum):
    """What the worker that owns a partition has found; FENCED is found by a promotion."""

    ALIGNED, QUIET, FENCED, BROKEN = "aligned", "quiet", "sealed", "broken"
    DELETED = "source topic deleted"
    RESTORED = "state restored"
    """By a person: the state of its mirror was lost, and is known again."""
    ACCEPTED = "failure accepted"
    """The settings of the mirror now allow to continue after what the partition failed for."""
    RESUMED = "resume requested"
    """By a person, after the partition had failed."""


class Trigger(StrEnum):
    ADD, PAUSE, RESUME, REMOVE = "add", "pause", "resume", "remove"
    ALIGNED, QUIET, FENCED, BROKEN = "aligned", "quiet", "sealed", "broken"
    DELETED, ACCEPTED, RESTORED = "deleted", "accepted", "restored"


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """One line of the state machine. The number never changes: incidents, records and tests cite it."""

    number: int
    before: frozenset[MirrorState]
    cause: DesiredState | Finding
    trigger: Trigger
    after: MirrorState
    reason: str

    @property
    def when(self) -> str:
        """The cause, for people."""
        return f"{'desired' if isinstance(self.cause, DesiredState) else 'found'} {self.cause}"


def _row(
    number: int, before: str, cause: DesiredState | Finding, trigger: Trigger, after: str, reason: str
) -> TransitionRow:
    states = MirrorState if before == "*" else [MirrorState(name) for name in before.split()]
    return TransitionRow(number, frozenset(states), cause, trigger, MirrorState(after), reason)


_W, _F, _T = DesiredState, Finding, Trigger
_BEGUN: Final = "PREPARING MIRRORING PAUSING PAUSED FAILED"
_LIVING: Final = "UNKNOWN PREPARING MIRRORING PAUSING PAUSED"
SOURCE_DELETED_ROW: Final = 306
"""STOPPED by this row, a partition stays so until its topic has left the mirror and was added again."""
RESTORED_ROW: Final = 308
"""STOPPED by this row, a partition stays so until a person resumes its topic."""
TAKEN_IN_ROW: Final = 100
TAKEN_IN_PAUSED_ROW: Final = 104
BROKEN_ROW: Final = 900
RESUMED_ROW: Final = 904
"""PREPARING by this row, a partition is not known to be a copy: it keeps the error that it FAILED with until then."""
# fmt: off
MIRROR_STATES: Final = (
    _row(100, "UNKNOWN STOPPED", _W.MIRRORING, _T.ADD, "PREPARING", "compare both logs before the first append"),
    _row(102, "PREPARING", _F.ALIGNED, _T.ALIGNED, "MIRRORING", "log start, sequence and map agree"),
    _row(104, "UNKNOWN", _W.PAUSED, _T.ADD, "PREPARING", "compare both logs before the first append"),
    _row(200, "PREPARING MIRRORING", _W.PAUSED, _T.PAUSE, "PAUSING", "let the batches in flight land"),
    _row(202, "PAUSING", _F.QUIET, _T.QUIET, "PAUSED", "nothing in flight"),
    _row(204, "PAUSING PAUSED", _W.MIRRORING, _T.RESUME, "MIRRORING", "recovery finds the end where we left it"),
    _row(300, _BEGUN, _W.REMOVED, _T.REMOVE, "STOPPING", "the topic leaves the mirror"),
    _row(302, "STOPPING", _F.FENCED, _T.FENCED, "STOPPED", "last mirrored epoch stored, old writer refused"),
    _row(304, "UNKNOWN", _F.FENCED, _T.FENCED, "STOPPED", "promoted before anything was compared"),
    _row(306, _LIVING, _F.DELETED, _T.DELETED, "STOPPED", "the source topic was deleted, its records stay here"),
    _row(308, "UNKNOWN", _F.RESTORED, _T.RESTORED, "STOPPED", "waits for `tanist mirrors resume`"),
    _row(900, "*", _F.BROKEN, _T.BROKEN, "FAILED", "one bad partition fails alone"),
    _row(902, "FAILED", _F.ACCEPTED, _T.ACCEPTED, "PREPARING", "the settings of the mirror now allow to continue"),
    _row(904, "FAILED", _F.RESUMED, _T.RESUME, "PREPARING", "resumed by a person: compare both logs again"),
)
# fmt: on
_NEXT: Final = {
    (state, row.cause): row for row in reversed(MIRROR_STATES) for state in row.before if row.after is not state
}
"""The first row of each pair of state and cause that leads to another state."""


def next_row(desired: DesiredState, observed: MirrorState, finding: Finding | None) -> TransitionRow | None:
    """The row that a partition takes now; None: it stays. Failures first, then the desired state, then progress."""
    if finding is Finding.BROKEN:
        return _NEXT.get((observed, finding))
    return _NEXT.get((observed, desired)) or (_NEXT.get((observed, finding)) if finding else None)
