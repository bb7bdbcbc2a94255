"""Committed positions of consumer groups, many in one request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import DestinationOffset, SourceOffset, TopicPartition
    from tanist.domain.translation import Proof
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """`kind` is classic, consumer (KIP-848), share or another protocol's name; `members` None where not told."""

    group: str
    kind: str
    state: str
    members: int | None


class CommittedPosition(NamedTuple):
    """A position as a cluster keeps it; `metadata` is what its committer wrote beside it."""

    offset: int
    metadata: str


class CommitChange(NamedTuple):
    """What is to be committed, and what must be committed until then; None: nothing."""

    expected: CommittedPosition | None
    new: CommittedPosition


def unasked() -> None:
    """Confirms everything: for callers that nobody can preempt."""


CommittedOf: TypeAlias = "Mapping[TopicPartition, CommittedPosition | TanistError]"
Outcome: TypeAlias = "Mapping[TopicPartition, TanistError | None]"


class Positions(Protocol):
    """Of one cluster. Every call answers per group: one broken group never hides or delays the others."""

    def groups(self, by: Deadline) -> Mapping[str, GroupFacts]:
        """The groups that we may DESCRIBE; without the right they are missing, which no broker calls an error.

        Raises:
            CouldNotTell, BrokerError: no broker answers.
        """
        ...

    def committed(self, groups: Sequence[str], by: Deadline) -> Mapping[str, CommittedOf | TanistError]:
        """Offsets as committed, only of partitions that have one, of topics that we may DESCRIBE.

        A position that an open transaction is about to change is an UnstableOffsetCommit; one that it is about to make
        is missing.
        """
        ...

    def take_over(self, groups: Sequence[str], by: Deadline) -> None:
        """Fence earlier commands of the mirror that may still commit for `groups`, and undo what they left open.

        Before the positions are read that are going to be expected. Raises nothing but Stopped: what a coordinator
        says against it is the answer of the next `commit`.
        """
        ...

    def commit(
        self,
        changes: Mapping[str, Mapping[TopicPartition, CommitChange]],
        by: Deadline,
        confirm: Callable[[], None] = unasked,
    ) -> Mapping[str, Outcome | TanistError]:
        """Commit for groups without members, where every position of the group still is what was expected.

        A group that has members by now refuses by itself (UnknownMember). PositionMoved: one of its positions is not
        what was expected, and none was changed. GroupCommitFenced: another command of this mirror has taken over, or
        the transaction timed out. Nothing that happens later can complete a commit that was not answered as done.
        The leader epoch is -1: a foreign epoch stops Java consumers for good.

        `confirm` is called directly before anything becomes visible, by one thread at a time.

        Raises:
            what `confirm` raises: what was not yet visible never will be.
        """
        ...


class Pair(NamedTuple):
    """A position at the source, and where it is said to lie in the copy."""

    partition: TopicPartition
    source: SourceOffset
    destination: DestinationOffset


@dataclass(frozen=True, slots=True)
class ProofResult:
    """`why` says what was seen: what differs, or why there was nothing to compare."""

    proof: Proof
    why: str


class Proofs(Protocol):
    """The records at both ends of a translation, read and compared. Between two clusters."""

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> Mapping[Pair, ProofResult]:
        """One answer for each pair, never an exception: what cannot be read until `by` is Proof.NONE, with the why."""
        ...
