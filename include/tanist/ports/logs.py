"""Partition logs: offsets, batch headers, prefixes, replicas, open transactions. librdkafka has no API for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.adoption import AdoptableLog, CandidateLog
    from tanist.domain.anchors import Walked
    from tanist.domain.errors import TanistError
    from tanist.domain.failback.open_transactions import ReturnedTransaction
    from tanist.domain.failover.facts import OpenTransaction, TransactionalProducers
    from tanist.domain.log_ends import LogEnds
    from tanist.domain.log_writers import LogWriters
    from tanist.domain.names import (
        DestinationOffset,
        MirrorPartition,
        ProducerId,
        SourcePartition,
        TopicPartition,
    )
    from tanist.domain.offset_map import AnchoredSpan
    from tanist.domain.restored_ranges import RestoredRanges
    from tanist.domain.writer_identity import MarkingWriter
    from tanist.ports.clock import Deadline

_P = TypeVar("_P", bound="TopicPartition")


class Logs(Protocol):
    """Every mapping has one item for each partition given."""

    def ends(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, LogEnds | TanistError]:
        """The log ends that consumers see."""
        ...

    def true_ends(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, int | TanistError]:
        """The log end offset of each leader; records above the high watermark may be acknowledged (acks=1)."""
        ...

    def only_control(self, spans: Mapping[_P, tuple[int, int]], by: Deadline) -> Mapping[_P, bool | TanistError]:
        """Whether each span (first offset, end exclusive) has only control batches; False: not proved.

        Needs a fetch; an error if the span is above the high watermark.
        """
        ...

    def producers(self, offsets: Mapping[_P, int], by: Deadline) -> Mapping[_P, ProducerId | TanistError]:
        """The producer id in the header of the batch with each offset; -1: its producer was not idempotent.

        Needs a fetch; an error if no batch has the offset, or it is above the high watermark.
        """
        ...

    def leader_epochs(self, offsets: Mapping[_P, int], by: Deadline) -> Mapping[_P, int | TanistError]:
        """The leader epoch in the header of the batch with each offset; as `producers`."""
        ...

    def walk(self, at: TopicPartition, span: tuple[int, int], by: Deadline) -> Walked:
        """Where in a span (first offset, end exclusive) the records lie that a reader of committed records sees.

        Needs a fetch of all its records.

        Raises:
            CouldNotTell: the log cannot be read up to the end of the span. TimedOut. Any error of a broker.
        """
        ...

    def versions(self, by: Deadline) -> Mapping[str, int]:
        """The protocol versions with which records are copied from and to this cluster, by request."""
        ...

    def new_producer_id(self, by: Deadline) -> ProducerId:
        """A new producer id of this cluster (InitProducerId), used by no other producer; never -1."""
        ...


class LogInspection(Protocol):
    """On one cluster. Changes nothing."""

    def writers(self, partitions: Collection[_P], by: Deadline) -> Mapping[_P, LogWriters | TanistError]:
        """The writers of each log; one item for each partition. Needs a fetch."""
        ...

    def reserve_ends(
        self, old_ends: Mapping[_P, DestinationOffset], writer: MarkingWriter, by: Deadline
    ) -> Mapping[_P, DestinationOffset | TanistError]:
        """The offset of the last producer fence of a mirror behind `old_ends`, or of the first batch of another writer.

        The committed end if there is neither. Needs a fetch.
        """
        ...


class LogPairs(Protocol):
    """Of a source and a destination with mapped offsets."""

    def ranges(
        self, at: MirrorPartition, there: SourcePartition, span: AnchoredSpan, by: Deadline
    ) -> RestoredRanges | str:
        """Where the records of a span are in both logs, at whose end both are known to be at the same record.

        Its start is, too, unless it is BEFORE_ALL. Where one of the logs begins later, records are counted from the
        end. The text says why it cannot be told: a cleaner or retention has removed records, or they differ.

        Raises:
            TimedOut, CouldNotTell, BrokerError: a log cannot be read.
        """
        ...


class LogPrefixes(Protocol):
    """Of a source and a destination."""

    def adoptable(self, partitions: Mapping[_P, CandidateLog], by: Deadline) -> Mapping[_P, AdoptableLog | TanistError]:
        """Compare the last batches of each destination log with the source, record by record, and both at the start.

        Reserved offsets are not compared. NotAPrefix names the first differing offset, TailAtDestination also that the
        log has records in reserved offsets, MirrorTopicPromoted the producer fence; any other error means that it is
        not known.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """`partitions`: their number for each topic given. `topic_ids`: of the topics whose id the cluster reports."""

    cluster_id: str
    partitions: Mapping[str, int | TanistError]
    topic_ids: Mapping[str, str] = field(default_factory=dict)


class Replicas(Protocol):
    """Of one cluster."""

    def cluster(self, topics: Sequence[str], by: Deadline) -> ClusterSeen:
        """Metadata from any broker that answers, so that one frozen broker does not make the cluster look down."""
        ...

    def open_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        """Transactions that the leaders report as open; partitions whose leader does not report are left out."""
        ...

    def named_in_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        """Transactions that coordinators list with these partitions, also before their first record.

        Raises:
            TransactionalIdAuthorizationFailed, UnsupportedVersion: some transactions are not reported to this login.
            CouldNotTell, BrokerError: a coordinator does not answer.
        """
        ...

    def transactional(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, TransactionalProducers]:
        """Which partitions transactional producers write to, as coordinators and leaders remember them.

        Those of mirrors do not count. Raises as `named_in_transactions`.
        """
        ...


class OpenTransactions(Protocol):
    """Transactions that name a partition, or hold its last stable offset."""

    def on(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[ReturnedTransaction, ...]:
        """All of them, by transactional id; those that no coordinator knows last.

        Raises:
            TransactionalIdAuthorizationFailed, UnsupportedVersion: not all are reported to this login.
            CouldNotTell, BrokerError: a leader or coordinator does not answer.
        """
        ...

    def abort(self, transaction: ReturnedTransaction, by: Deadline) -> None:
        """Abort it in all partitions that it names, and fence its producer; returns once the markers are written.

        `by`: until when the request may be sent.

        Raises:
            TransactionalIdAuthorizationFailed: WRITE on the transactional id is missing.
            ClusterAuthorizationFailed: ALTER on the cluster is missing, to abort one that no coordinator knows.
            CouldNotTell, BrokerError: a leader or coordinator does not answer; it may be aborted nevertheless.
        """
        ...
