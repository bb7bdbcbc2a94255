"""A fence keeps producers off a topic of the source; what was there before is stored first, so lifting it is exact."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SMALLEST_MESSAGE_BYTES: Final = 78
"""The smallest max.message.bytes that lets transaction markers through. 0 strands transactions for good."""


class FenceKind(StrEnum):
    DENY_WRITE = "deny-write"
    """An ACL: DENY WRITE for User:* (refused within 50 ms, readers and open transactions untouched)."""
    TINY_MESSAGES = "max.message.bytes=78"
    """Without an authorizer: markers still pass, and records of a few bytes. Never 0: it strands transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBefore:
    """What there was before the fence, so that lifting it is its exact inverse.

    `had_deny`: the very rule existed already, so it stays. `max_message_bytes`: the topic's own setting, None if unset.
    """

    topic: str
    kind: FenceKind
    had_deny: bool = False
    max_message_bytes: str | None = None


class FenceStatus(StrEnum):
    SNAPSHOT, STANDING, PROVED, UNPROVED = "snapshot", "standing", "proved", "not proved"
    OWED, LIFT_OWED, LIFTED = "owed", "lift owed", "lifted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedTopic:
    """One topic of the source. `before` is None where the source never answered: the fence is owed, nothing is known.

    `owed_by`: the plan that wants it. UNPROVED: it was said that nobody needs to look whether it holds.
    """

    topic: str
    status: FenceStatus
    owed_by: str
    before: FenceBefore | None = None
    reason: str = ""


HOLDS_PRODUCERS_OFF = frozenset({FenceStatus.STANDING, FenceStatus.PROVED, FenceStatus.UNPROVED})
TO_BE_LIFTED = HOLDS_PRODUCERS_OFF | {FenceStatus.SNAPSHOT, FenceStatus.LIFT_OWED}
