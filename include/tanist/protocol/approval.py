"""How an approval is stored: one versioned JSON object. Whoever may write there may write anything at all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.failover.approving import LONGEST_MS, Approval
from tanist.domain.names import MirrorName
from tanist.protocol.values import plain, reader

if TYPE_CHECKING:
    from tanist.domain.failover.approving import Request
    from tanist.domain.names import EpochMs

VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    v: int
    mirror: str
    plan: str
    shown: str
    approver: str
    reason: str
    valid_for_ms: int

    def __post_init__(self) -> None:
        if self.v != VERSION:
            raise ValueError(f"written by another version: {self.v}")
        if not 0 < self.valid_for_ms <= LONGEST_MS:
            raise ValueError(f"it would hold for {self.valid_for_ms} ms")
        for text in (self.mirror, self.plan, self.shown, self.approver, self.reason):
            text.encode()  # JSON can name half a character, which nothing can print or hash


def encode(request: Request, approver: str) -> bytes:
    """The value of the record."""
    stored = _Stored(
        v=VERSION,
        mirror=request.mirror,
        plan=request.plan,
        shown=request.shown,
        approver=approver,
        reason=request.reason,
        valid_for_ms=request.valid_for_ms,
    )
    return json.dumps(plain(stored), ensure_ascii=False).encode()


def decode(value: bytes | None, id: str, at: EpochMs) -> Approval | None:  # noqa: A002  # the approval's own word
    """The approval in a record that brokers have put down at `at`; None: it cannot be read. Never raises."""
    try:
        found: Any = json.loads(value or b"")
        stored: _Stored = reader(_Stored)(found)
    except (ValueError, TypeError, RecursionError):
        return None
    return Approval(
        id=id,
        mirror=MirrorName(stored.mirror),
        plan=stored.plan,
        shown=stored.shown,
        approver=stored.approver,
        reason=stored.reason,
        valid_for_ms=stored.valid_for_ms,
        at=at,
    )
