"""A group that was set back at the source on purpose, and what becomes of its position at the destination."""

from __future__ import annotations

from enum import StrEnum


class OnRewind(StrEnum):
    """HOLD: the position at the destination stays. ASK: it stays, and a person is asked. FOLLOW: it is set back, too.

    A policy of a mirror (`tanist mirrors create|alter --on-rewind`).
    """

    FOLLOW, HOLD, ASK = "follow", "hold", "ask"
