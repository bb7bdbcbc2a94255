"""Keeping producers off a topic: of the source before a failover, of the destination until it is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tanist.domain.fences import FenceBefore, FenceKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline

__all__ = ["FenceBefore", "FenceKind", "Fencing"]


class Fencing(Protocol):
    """On one cluster; per item, idempotent."""

    def has_authorizer(self, by: Deadline) -> bool: ...

    def snapshot(self, topics: Sequence[str], by: Deadline) -> Mapping[str, FenceBefore | TanistError]: ...

    def apply(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]: ...

    def fence_status(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, bool | TanistError]:
        """Whether each fence stands now, as the cluster's metadata says. Quiet ends are the proof, not this."""
        ...

    def lift(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]:
        """Back to exactly what there was."""
        ...
