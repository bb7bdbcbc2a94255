"""Source fences: what blocks producers of a topic at the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tanist.domain.fences import FenceBefore, FenceKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline

__all__ = ["FenceBefore", "FenceKind", "Fencing"]


class Fencing(Protocol):
    """On one cluster. Idempotent; every mapping has one item for each topic."""

    def has_authorizer(self, by: Deadline) -> bool:
        """Whether the cluster enforces ACLs."""
        ...

    def snapshot(
        self, topics: Sequence[str], by: Deadline, *, authorizer: bool | None = None
    ) -> Mapping[str, FenceBefore | TanistError]:
        """The settings that a fence would replace; to be stored before `apply`.

        A DENY only where an ACL matches the topic already: the first one would end `allow.everyone.if.no.acl.found`,
        for readers and for the mirror, too. `authorizer`: the answer of `has_authorizer`; None: the cluster is asked.
        """
        ...

    def apply(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]:
        """Set the fence of each snapshot; None: the cluster has accepted it."""
        ...

    def fence_status(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, bool | TanistError]:
        """Whether each fence is set in the cluster's metadata. Only log ends prove that producers are blocked."""
        ...

    def lift(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]:
        """Restore exactly the settings of each snapshot; None: done."""
        ...
