"""The stored form of approvals and rejections: one versioned JSON object.

The topic may contain arbitrary bytes, so `decode` never raises.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.failover.approving import LONGEST_MS, Approval, Withdrawal
from tanist.domain.names import MirrorName
from tanist.domain.stored_names import stored_under
from tanist.kafka.protocol.values import plain, reader

if TYPE_CHECKING:
    from tanist.domain.failover.approving import ApprovalRequest, Entry
    from tanist.domain.names import EpochMs

VERSION: Final = 2
"""Version 1 named no request. A reader of version 1 must not take an approval of one request as one of any."""
_READ: Final = frozenset({1, VERSION})
_NO_LONGER_WRITTEN: Final = "reserve_to"
"""Where the reserve ends is decided in the run. It is still read, and binds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    v: int
    mirror: str
    plan: str
    plan_json: str = field(metadata=stored_under("shown"))
    approver: str
    reason: str
    valid_for_ms: int
    request: str = ""
    reserve_to: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        topics = (topic for topic, _ in self.reserve_to)
        _check(self.v, self.mirror, self.plan, self.plan_json, self.approver, self.reason, self.request, *topics)
        if not 0 < self.valid_for_ms <= LONGEST_MS:
            raise ValueError(f"its validity of {self.valid_for_ms} ms is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Withdrawn:
    v: int
    mirror: str
    plan: str
    withdrawn: str
    """The request; empty: the plan, whoever was asked."""
    by: str
    reason: str

    def __post_init__(self) -> None:
        _check(self.v, self.mirror, self.plan, self.withdrawn, self.by, self.reason)


def _check(version: int, *texts: str) -> None:
    if version not in _READ:
        raise ValueError(f"written by another version: {version}")
    for text in texts:
        text.encode()  # JSON can name half a character, which nothing can print or hash


def encode(request: ApprovalRequest, approver: str) -> bytes:
    """The value of the record."""
    stored = _Stored(
        v=VERSION,
        mirror=request.mirror,
        plan=request.plan,
        plan_json=request.plan_json,
        approver=approver,
        reason=request.reason,
        valid_for_ms=request.valid_for_ms,
        request=request.request,
    )
    words = {name: value for name, value in plain(stored).items() if name != _NO_LONGER_WRITTEN}
    return json.dumps(words, ensure_ascii=False).encode()


def encode_withdrawal(no: Withdrawal, by: str) -> bytes:
    """The value of the record."""
    stored = _Withdrawn(v=VERSION, mirror=no.mirror, plan=no.plan, withdrawn=no.request, by=by, reason=no.reason)
    return json.dumps(plain(stored), ensure_ascii=False).encode()


def decode(value: bytes | None, id: str, at: EpochMs) -> Entry | None:  # noqa: A002  # the approval's own word
    """The entry in a record that brokers appended at `at` (ms); None: it cannot be decoded. Never raises."""
    try:
        found: Any = json.loads(value or b"")
        if isinstance(found, dict) and "withdrawn" in found:
            no: _Withdrawn = reader(_Withdrawn)(found)
            reason = f"{no.reason} ({no.by})"
            return Withdrawal(mirror=MirrorName(no.mirror), plan=no.plan, request=no.withdrawn, reason=reason)
        stored: _Stored = reader(_Stored)(found)
    except (ValueError, TypeError, RecursionError):
        return None
    return Approval(
        id=id,
        mirror=MirrorName(stored.mirror),
        plan=stored.plan,
        plan_json=stored.plan_json,
        request=stored.request,
        approver=stored.approver,
        reason=stored.reason,
        valid_for_ms=stored.valid_for_ms,
        at=at,
        reserve_to=stored.reserve_to,
    )
