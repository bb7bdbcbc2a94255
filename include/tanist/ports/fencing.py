"""Keeping producers off a topic: of the source before a failover, of the destination until it is open."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline


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


class Fencing(Protocol):
    """On one cluster; per item, idempotent."""

    def has_authorizer(self, by: Deadline) -> bool: ...

    def snapshot(self, topics: Sequence[str], by: Deadline) -> Mapping[str, FenceBefore | TanistError]: ...

    def apply(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]: ...

    def standing(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, bool | TanistError]:
        """Whether each fence stands now, as the cluster's metadata says. Quiet ends are the proof, not this."""
        ...

    def lift(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]:
        """Back to exactly what there was."""
        ...

    def close(self) -> None: ...
