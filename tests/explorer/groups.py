"""Consumer groups in memory, watched: whoever takes a position back is found out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.explorer.product import CommittedPosition, MemoryGroup, MemoryGroups, Proof, ProofResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.ports.positions import Pair
    from tests.explorer.product import Deadline, TopicPartition


@dataclass
class WatchedGroup(MemoryGroup):
    name: str = ""
    backwards: list[str] = field(default_factory=list)

    def put(self, at: TopicPartition, place: int, new: CommittedPosition) -> None:
        before = self.now(at)
        super().put(at, place, new)
        after = self.now(at)
        if before is not None and after is not None and after.offset < before.offset:
            self.backwards.append(f"group {self.name} on {at} moves from {before.offset} back to {after.offset}")


@dataclass
class WatchedGroups(MemoryGroups):
    """The groups of one cluster. `backwards`: positions that were taken back."""

    backwards: list[str] = field(default_factory=list)

    def group(self, name: str, kind: str = "classic") -> MemoryGroup:
        if name not in self.groups:
            self.groups[name] = WatchedGroup(kind, name=name, backwards=self.backwards)
        return self.groups[name]


class NothingToCompare:
    """The port `Proofs`: records are not kept in memory."""

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> Mapping[Pair, ProofResult]:
        return dict.fromkeys(pairs, ProofResult(Proof.NONE, "no records in memory"))

    def close(self) -> None:
        pass
