"""Fences: of the source, against producers of a topic, and of producer ids at the destination."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tanist.domain.fences import FenceBefore, FenceKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import DestinationOffset, MirrorPartition
    from tanist.domain.writer_identity import MarkingWriter, ProducerEpoch, TransactionalWriter, WriterIdentity
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


NO_HISTORY: Final[Mapping[MirrorPartition, DestinationOffset]] = MappingProxyType({})
"""All logs were empty when copying began."""


class ProducerFence(StrEnum):
    """The proof: a marker of the old epoch that can never be appended is rejected by code 47 (FENCED) or 52 (OPEN).

    FORGOTTEN: of a transactional id, the leader remembers no epoch, and would not ask the coordinator for it either.
    """

    FENCED, OPEN, FORGOTTEN = "sealed", "open", "forgotten"


class TransactionFence(NamedTuple):
    """In which epoch an empty transaction was ended in a partition, and the committed end of its log behind that."""

    epoch: ProducerEpoch
    end: DestinationOffset


class Kept(StrEnum):
    """Whether the producer fence of a compacted partition survives compaction and a loss of producer state.

    The log cleaner reduces a marker to an empty control batch, from which a broker that rebuilds its producer state
    does not learn the epoch. Of a record it keeps an empty data batch, which has the epoch.
    """

    KEPT = "kept"
    """The log has a record of the new epoch."""
    BARE = "bare"
    """Only the marker, although there are records that could be repeated."""
    EMPTY = "empty"
    """Only the marker, and no record with a key that could be repeated."""


class ProducerFencing(Protocol):
    """On the destination. Idempotent; one item for each partition or topic. Workers may be dead or alive.

    Where one method does not say otherwise, of the producer ids of a mirror with identical offsets.
    """

    def fence_data_producers(
        self, writers: Mapping[MirrorPartition, MarkingWriter], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        """As `fence_producers`, for all producer ids but the gap markers': records can no longer be appended."""
        ...

    def copied_ends(
        self,
        writers: Mapping[MirrorPartition, MarkingWriter],
        by: Deadline,
        begun: Mapping[MirrorPartition, DestinationOffset] = NO_HISTORY,
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        """The offset behind the last batch of records that the mirror has copied; the log start if there is none.

        `begun`: where copying began in logs that had records before; nothing below it is read.
        Needs a fetch. What `keep` appends is no such batch.
        """
        ...

    def reserve(
        self,
        ends: Mapping[MirrorPartition, int],
        writers: Mapping[MirrorPartition, MarkingWriter],
        by: Deadline,
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        """Write gap markers up to `ends`, in a producer epoch that no worker has used; returns the committed ends.

        Each call writes as many as a leader takes in a moment: call it again until every end is reached. For partitions
        whose records are fenced, and not the gap markers.
        """
        ...

    def fence_producers(
        self, writers: Mapping[MirrorPartition, MarkingWriter], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        """Write a marker of a higher epoch for the data producer id, and one of the last epoch for the gap markers' id.

        A partition that is fenced already gets no marker. Returns the committed end after the fence.
        """
        ...

    def fence_transactional_ids(
        self, writers: Mapping[MirrorPartition, TransactionalWriter], by: Deadline
    ) -> Mapping[MirrorPartition, TransactionFence | TanistError]:
        """Abort what the owners of the ids have left open, and end one empty transaction of each id in its partitions.

        What was sent in an earlier epoch, and is still on its way, is refused from then on, and no transaction of the
        ids is open. Where only the marker is missing of what a writer has committed last, it is written first, or the
        fence would abort that. Whoever asks a coordinator for a new epoch gets one: that the partitions are not
        mirrored any more must be on record before. Each call leaves one marker more.
        """
        ...

    def proof(
        self, writers: Mapping[MirrorPartition, WriterIdentity], by: Deadline
    ) -> Mapping[MirrorPartition, ProducerFence | TanistError]:
        """Whether brokers would reject the old producer now. Writes nothing.

        Of a transactional id: whether the fence on record stands, so whether the leader refuses what was sent before.
        """
        ...

    def compacted(self, topics: Collection[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        """Whether the cleanup policy of each topic contains compact."""
        ...

    def kept(
        self, writers: Mapping[MirrorPartition, MarkingWriter], by: Deadline
    ) -> Mapping[MirrorPartition, Kept | TanistError]:
        """Whether the fence survives compaction, for fenced partitions of compacted topics. Writes nothing."""
        ...

    def keep(
        self, writers: Mapping[MirrorPartition, MarkingWriter], by: Deadline, *, rest: float = 0
    ) -> Mapping[MirrorPartition, Kept | TanistError]:
        """Append the last record with a key again, in the new epoch of the data producer id, to BARE partitions.

        For fenced partitions; a second call appends nothing. `rest`: seconds for which a log must not have grown
        between two calls, 0 if nobody else can write; a log that has grown stays BARE. An error that is not retriable:
        the record cannot be appended (no WRITE, or it is too large).
        """
        ...
