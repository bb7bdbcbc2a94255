"""Committed positions of consumer groups, many in one request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import DestinationOffset, TopicPartition
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """`kind` is classic, consumer (KIP-848), share or another protocol's name; `members` None where not told."""

    group: str
    kind: str
    state: str
    members: int | None


class Positions(Protocol):
    """Every call answers per group: one broken group never hides or delays the others."""

    def groups(self, by: Deadline) -> Mapping[str, GroupFacts]: ...

    def committed(
        self, groups: Sequence[str], by: Deadline
    ) -> Mapping[str, Mapping[TopicPartition, int] | TanistError]:
        """Offsets as committed (stable: no open transactional commit), only of partitions that have one."""
        ...

    def commit(
        self, group: str, at: Mapping[TopicPartition, DestinationOffset], metadata: str, by: Deadline
    ) -> Mapping[TopicPartition, TanistError | None]:
        """Commit for a group without members, leader epoch -1: a foreign epoch stops Java consumers for good."""
        ...

    def close(self) -> None: ...
