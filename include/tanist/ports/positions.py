"""Committed offsets of consumer groups (here: positions), and proofs of translated ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset, SourcePartition, TopicPartition
    from tanist.domain.translation import Proof
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """`kind`: classic, consumer (KIP-848), share or another group type. `members`: their number, None if unknown.

    `client_ids`: of its members, as far as they are known.
    """

    group: str
    kind: str
    state: str
    members: int | None
    client_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """The groups of a cluster by name. `silent`: why the groups of some brokers may be missing; empty: none are."""

    groups: Mapping[str, GroupFacts]
    silent: tuple[TanistError, ...] = ()


class CommittedPosition(NamedTuple):
    """A committed offset with the metadata string of its commit."""

    offset: int
    metadata: str


class CommitChange(NamedTuple):
    """Compare and set: commit `new` if `expected` is still committed. None: no offset is committed."""

    expected: CommittedPosition | None
    new: CommittedPosition


def unasked() -> None:
    """The `confirm` of callers that hold no lock: it always agrees."""


CommittedOf: TypeAlias = "Mapping[TopicPartition, CommittedPosition | TanistError]"
Outcome: TypeAlias = "Mapping[TopicPartition, TanistError | None]"


class Positions(Protocol):
    """Of one cluster. Mappings have one item for each group; a group that fails does not delay the others."""

    def groups(self, by: Deadline) -> Mapping[str, GroupFacts]:
        """All groups that this login may DESCRIBE, by name; brokers leave out the others without an error.

        Raises:
            CouldNotTell, BrokerError: no broker answers.
        """
        ...

    def listing(self, by: Deadline) -> GroupListing:
        """As `groups`, for those who have to know whether brokers are silent, so that groups may be missing."""
        ...

    def committed(
        self, groups: Sequence[str], by: Deadline, *, stable: bool = True
    ) -> Mapping[str, CommittedOf | TanistError]:
        """The committed offsets of each group. Only partitions that have one, and topics that this login may DESCRIBE.

        An offset that an open transaction is about to change is UnstableOffsetCommit, and with `stable` False as it was
        before that transaction; one that it creates is missing.
        """
        ...

    def take_over(self, groups: Sequence[str], by: Deadline) -> None:
        """Fence earlier commands of the mirror that may still commit for `groups`, and abort their open transactions.

        Call it before reading the offsets that `commit` expects. An error of a coordinator is reported by the next
        `commit`.

        Raises:
            Stopped: this process is stopping.
        """
        ...

    def commit(
        self,
        changes: Mapping[str, Mapping[MirrorPartition, CommitChange]],
        by: Deadline,
        confirm: Callable[[], None] = unasked,
    ) -> Mapping[str, Outcome | TanistError]:
        """Commit for groups without members, if every committed offset of the group is still the expected one.

        Errors of a group: UnknownMember, it has members now; PositionMoved, one of its offsets is not the expected one
        and none was changed; GroupCommitFenced, another command of this mirror has taken over or the transaction timed
        out. A commit that was not reported as done cannot complete later. Offsets are committed with leader epoch -1: a
        leader epoch of the other cluster stops Java consumers permanently.

        `confirm` is called directly before a commit becomes visible, by one thread at a time. What it raises is raised
        here, and commits that are not visible by then never will be.
        """
        ...


class Pair(NamedTuple):
    """A source offset and its translation at the destination, each with the partition by its name there."""

    at_source: SourcePartition
    source: SourceOffset
    at: MirrorPartition
    destination: DestinationOffset


@dataclass(frozen=True, slots=True)
class ProofResult:
    """`why`: what differs, or why nothing could be compared.

    `exact_place`: both logs hold a record at the very offset. False: a cleaner has removed it at one of both at least,
    and the next records were compared. Then a MISMATCH does not say that the offsets never were of the same record:
    the next ones may be gone at one side only.
    """

    proof: Proof
    why: str
    exact_place: bool = True


class Proofs(Protocol):
    """Proves translations between two clusters: reads the records at both offsets and compares them."""

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> Mapping[Pair, ProofResult]:
        """A result for each pair, no exception: Proof.NONE with the reason if a record cannot be read until `by`."""
        ...
