"""What a failover needs of one cluster, in memory. It refuses what a broker would refuse."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from tanist.domain.acl_entries import ANY_HOST, ANYBODY, AclEntry
from tanist.domain.acls import (
    NO_AUTHORIZER,
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Acls,
    write_binding,
)
from tanist.domain.approval.entries import (
    APPROVALS_TOPIC,
    Approval,
    ApprovalRequest,
    Entry,
    NoApproverTopic,
    Withdrawal,
    signature,
)
from tanist.domain.broker_errors import (
    ClusterAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import AuthorizationFailed, TanistError
from tanist.domain.failover.facts import TransactionalProducers
from tanist.domain.fences import FenceBefore, FenceKind
from tanist.domain.names import DestinationOffset, MirrorPartition, TopicPartition
from tanist.domain.records import STATE_TOPIC
from tanist.domain.writer_identity import ProducerEpoch, TransactionalWriter
from tanist.ports.access import NOBODY
from tanist.ports.fencing import NO_HISTORY, Kept, ProducerFence, TransactionFence
from tanist.ports.logs import ClusterSeen
from tests.fakes.cluster import MemoryCluster
from tests.fakes.topics import MemoryTopics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tanist.domain.failover.facts import OpenTransaction
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.writer_identity import ProducerIds, WriterIdentity
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster

_P = TypeVar("_P", bound="TopicPartition")

LAST_EPOCH = 32_767
RESERVED_AT_ONCE = 10
MAX_BYTES = "max.message.bytes"


@dataclass
class GuardedCluster(MemoryCluster):
    """With producers and access rules. `deny`: (topic, principal) that may not WRITE; `epochs`: what leaders remember.

    `supers`: users whom no rule binds.
    """

    authorizer: bool = True
    user: str = "mirror"
    supers: set[str] = field(default_factory=set)
    operating: set[str] = field(default_factory=set)
    """Principals that ACLs allow ALTER on the cluster."""
    bare: set[str] = field(default_factory=set)
    """Topics that no ACL matches, so everybody may do everything there."""
    deny: set[tuple[str, str]] = field(default_factory=set)
    given: set[tuple[str, AclEntry]] = field(default_factory=set)
    epochs: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    repeated: set[TopicPartition] = field(default_factory=set)
    """Where the last record stands again, in the epoch of the barrier."""
    repeats: set[tuple[TopicPartition, int]] = field(default_factory=set)
    """At which offsets."""
    approvals: list[Entry] = field(default_factory=list)
    canaries: list[str] = field(default_factory=list)
    transactions: tuple[OpenTransaction, ...] = ()
    transactional: dict[TopicPartition, TransactionalProducers] = field(default_factory=dict)
    owners: dict[str, ProducerEpoch] = field(default_factory=dict)
    """The epoch in which coordinators know each transactional id."""
    owned: dict[str, set[TopicPartition]] = field(default_factory=dict)
    """What is in the open transaction of each."""
    named: tuple[OpenTransaction, ...] = ()
    """What coordinators know of: transactions that may have written nothing yet."""
    coordinators: TanistError | None = None
    """Why they do not tell."""
    verifies: bool = True
    """Whether leaders ask coordinators about a transaction that is new to them."""

    def side(self) -> Cluster:
        return replace(
            super().side(),
            replicas=MemoryReplicas(self),
            fencing=MemoryFencing(self),
            producer_fencing=MemoryProducerFencing(self),
            opening=MemoryOpening(self),
            approvals=MemoryApprovals(self),
        )

    def acls(self) -> Acls:
        if not self.authorizer:
            return NO_AUTHORIZER
        denied = {write_binding(topic, AclEntry(who, ANY_HOST, allowed=False)) for topic, who in self.deny}
        given = {write_binding(topic, entry) for topic, entry in self.given}
        return Acls(bindings=super().acls().bindings | denied | given | {may_alter(who) for who in self.operating})

    def may_write(self, topic: str, user: str) -> bool:
        """An ordinary client's record, as large as most."""
        near = topic in self.topics and self.topics[topic].configs.get(MAX_BYTES) == "78"
        return not near and self.permits(topic, user)

    def permits(self, topic: str, user: str) -> bool:
        """Whether ACLs let a client write, however small its records must be."""
        if not self.authorizer or user in self.supers:
            return True
        return not {(topic, ANYBODY), (topic, f"User:{user}")} & self.deny

    def is_bare(self, topic: str) -> bool:
        """Whether no ACL matches `topic`."""
        acls = {*self.deny, *((at, each.principal) for at, each in self.given)}
        return topic in self.bare and topic not in {at for at, _ in acls}

    def drop(self, topic: str) -> None:
        """The topic is deleted, with its log and what leaders remember of its writers. Rules name it still."""
        del self.topics[topic]
        self.ends = {at: end for at, end in self.ends.items() if at.topic != topic}
        self.epochs = {key: epoch for key, epoch in self.epochs.items() if key[0].topic != topic}

    def begin(self, transactional_id: str) -> ProducerEpoch:
        """InitProducerId of whoever asks: every earlier owner is fenced, and what it left open is aborted."""
        old = self.owners.get(transactional_id, ProducerEpoch(500 + len(self.owners), -1))
        self.end(transactional_id, old._replace(epoch=old.epoch + 1))
        self.owners[transactional_id] = old._replace(epoch=old.epoch + 2)
        return self.owners[transactional_id]

    def end(self, transactional_id: str, marker: ProducerEpoch) -> None:
        """A marker of that epoch ends the open transaction in each of its partitions."""
        for at in sorted(self.owned.pop(transactional_id, ())):
            self.epochs[at, marker.producer_id] = max(self.epochs.get((at, marker.producer_id), -1), marker.epoch)
            self.mark(at, marker.producer_id)
            start, _, high = self.ends[at]
            self.ends[at] = (start, high, high)

    def append(self, at: TopicPartition, producer: int, epoch: int, count: int = 1) -> bool:
        """Whether a writer of that epoch gets so many records in."""
        if self.epochs.get((at, producer), -1) > epoch:
            return False
        self.epochs[at, producer] = epoch
        self.grow(at, count, producer)
        return True


def may_alter(who: str) -> AclBinding:
    """An ACL that allows ALTER on the cluster."""
    where = (AclResource.CLUSTER, "kafka-cluster", AclPattern.LITERAL)
    return AclBinding(*where, who, ANY_HOST, AclOperation.ALTER, AclPermission.ALLOW)


class MemoryProducerFencing:
    """The port `ProducerFencing`."""

    def __init__(self, cluster: GuardedCluster) -> None:
        self._cluster = cluster
        self._seen: dict[MirrorPartition, tuple[int, float]] = {}

    def fence_data_producers(
        self, producer_ids: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        self._cluster.answer()
        return {at: self._fence_producer(at, {each.data: 1, each.start: 1}) for at, each in producer_ids.items()}

    def copied_ends(
        self,
        producer_ids: Mapping[MirrorPartition, ProducerIds],
        by: Deadline,
        begun: Mapping[MirrorPartition, DestinationOffset] = NO_HISTORY,
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        self._cluster.answer()
        found = {at: self._copied_end(at, each) for at, each in producer_ids.items()}
        return {
            at: end if isinstance(end, TanistError) else max(end, begun.get(at, DestinationOffset(0)))
            for at, end in found.items()
        }

    def reserve(
        self,
        ends: Mapping[MirrorPartition, int],
        producer_ids: Mapping[MirrorPartition, ProducerIds],
        by: Deadline,
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        self._cluster.answer()
        return {at: self._reserve(at, end, producer_ids[at]) for at, end in ends.items()}

    def fence_producers(
        self, producer_ids: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        self._cluster.answer()
        return {at: self._fence_producer(at, self._last(each)) for at, each in producer_ids.items()}

    def fence_transactional_ids(
        self, writers: Mapping[MirrorPartition, TransactionalWriter], by: Deadline
    ) -> Mapping[MirrorPartition, TransactionFence | TanistError]:
        self._cluster.answer()
        return {at: self._fence_transactions(at, each) for at, each in writers.items()}

    def _fence_transactions(self, at: MirrorPartition, writer: TransactionalWriter) -> TransactionFence | TanistError:
        if at not in self._cluster.ends:
            return UnknownTopicOrPartition(str(at))
        if not self._cluster.may("WRITE", writer.transactional_id):
            return TransactionalIdAuthorizationFailed(writer.transactional_id)
        epoch = self._cluster.begin(writer.transactional_id)
        self._cluster.owned[writer.transactional_id] = {at}
        self._cluster.end(writer.transactional_id, epoch)
        return TransactionFence(epoch, DestinationOffset(self._cluster.ends[at][2]))

    def proof(
        self, writers: Mapping[MirrorPartition, WriterIdentity], by: Deadline
    ) -> Mapping[MirrorPartition, ProducerFence | TanistError]:
        self._cluster.answer()
        return {at: self._proof(at, each) for at, each in writers.items()}

    def compacted(self, topics: Collection[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        self._cluster.answer()
        return {name: self._compacted(name) for name in topics}

    def kept(
        self, producer_ids: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, Kept | TanistError]:
        self._cluster.answer()
        return {at: self._kept(at) for at in producer_ids}

    def keep(
        self, producer_ids: Mapping[MirrorPartition, ProducerIds], by: Deadline, *, rest: float = 0
    ) -> Mapping[MirrorPartition, Kept | TanistError]:
        self._cluster.answer()
        return {at: self._keep(at, each, rest) for at, each in producer_ids.items()}

    def _compacted(self, name: str) -> bool | TanistError:
        if name not in self._cluster.topics:
            return UnknownTopicOrPartition(name)
        return "compact" in self._cluster.topics[name].configs.get("cleanup.policy", "delete")

    def _kept(self, at: MirrorPartition) -> Kept | TanistError:
        if at not in self._cluster.ends:
            return UnknownTopicOrPartition(str(at))
        if at in self._cluster.repeated:
            return Kept.KEPT
        start, _, end = self._cluster.ends[at]
        records = any((at, offset) not in self._cluster.control for offset in range(start, end))
        return Kept.BARE if records else Kept.EMPTY

    def _keep(self, at: MirrorPartition, producer_ids: ProducerIds, rest: float) -> Kept | TanistError:
        found = self._kept(at)
        if found is not Kept.BARE or (rest and not self._rests(at, rest)):
            return found
        if not self._cluster.may_write(at.topic, self._cluster.user):
            return TopicAuthorizationFailed(str(at))
        self._repeat(at, producer_ids)
        return Kept.KEPT

    def _repeat(self, at: MirrorPartition, producer_ids: ProducerIds) -> None:
        self._cluster.repeats.add((at, self._cluster.ends[at][2]))
        assert self._cluster.append(at, producer_ids.data, 1)
        self._cluster.repeated.add(at)

    def _rests(self, at: MirrorPartition, rest: float) -> bool:
        now, end = self._cluster.clock.monotonic(), self._cluster.ends[at][2]
        if self._seen.get(at, (-1, 0.0))[0] != end:
            self._seen[at] = (end, now)
        return now - self._seen[at][1] >= rest

    def _last(self, producer_ids: ProducerIds) -> dict[int, int]:
        return {producer_ids.data: 1, producer_ids.start: 1, producer_ids.marker: LAST_EPOCH}

    def _copied_end(self, at: MirrorPartition, producer_ids: ProducerIds) -> DestinationOffset | TanistError:
        if at not in self._cluster.ends:
            return UnknownTopicOrPartition(str(at))
        if not self._cluster.may("READ", at.topic):
            return TopicAuthorizationFailed(str(at))
        start, _, end = self._cluster.ends[at]
        kept = self._cluster
        ours = (
            offset
            for offset in range(end - 1, start - 1, -1)
            if kept.producers.get((at, offset)) == producer_ids.data
            and (at, offset) not in kept.control
            and (at, offset) not in kept.repeats
        )
        return DestinationOffset(next(ours, start - 1) + 1)

    def _reserve(self, at: MirrorPartition, end: int, producer_ids: ProducerIds) -> DestinationOffset | TanistError:
        if at not in self._cluster.ends:
            return UnknownTopicOrPartition(str(at))
        self._cluster.epochs[at, producer_ids.marker] = self._cluster.epochs.get((at, producer_ids.marker), 0) + 1
        for _ in range(min(RESERVED_AT_ONCE, end - self._cluster.ends[at][2])):
            self._cluster.mark(at, producer_ids.marker)
        return DestinationOffset(self._cluster.ends[at][2])

    def _fence_producer(self, at: MirrorPartition, last: Mapping[int, int]) -> DestinationOffset | TanistError:
        if at not in self._cluster.ends:
            return UnknownTopicOrPartition(str(at))
        if not (self._cluster.may("ALTER", "kafka-cluster") or self._cluster.may("CLUSTER_ACTION", "kafka-cluster")):
            return ClusterAuthorizationFailed("WriteTxnMarkers")
        for producer, epoch in last.items():
            if self._cluster.epochs.get((at, producer), -1) < epoch:
                self._cluster.epochs[at, producer] = epoch
                self._cluster.mark(at, producer)
        return DestinationOffset(self._cluster.ends[at][2])

    def _proof(self, at: MirrorPartition, writer: WriterIdentity) -> ProducerFence | TanistError:
        if at not in self._cluster.ends:
            return UnknownTopicOrPartition(str(at))
        if isinstance(writer, TransactionalWriter):
            fence = writer.fence
            if fence is not None and (at, fence.producer_id) not in self._cluster.epochs:
                asks = self._cluster.verifies and writer.in_transactions
                return ProducerFence.FENCED if asks else ProducerFence.FORGOTTEN
            last = {} if fence is None else {fence.producer_id: fence.epoch}
        else:
            last = self._last(writer)
        shut = bool(last) and all(self._cluster.epochs.get((at, who), -1) >= epoch for who, epoch in last.items())
        return ProducerFence.FENCED if shut else ProducerFence.OPEN


class MemoryFencing:
    """The port `Fencing`."""

    def __init__(self, cluster: GuardedCluster) -> None:
        self._cluster = cluster

    def has_authorizer(self, by: Deadline) -> bool:
        self._cluster.answer()
        return self._cluster.authorizer

    def snapshot(
        self, topics: Sequence[str], by: Deadline, *, authorizer: bool | None = None
    ) -> Mapping[str, FenceBefore | TanistError]:
        self._cluster.answer()
        return {topic: self._snapshot(topic) for topic in topics}

    def apply(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        return {each.topic: self._apply(each) for each in before}

    def fence_status(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, bool | TanistError]:
        self._cluster.answer()
        return {each.topic: self._stands(each) for each in before}

    def lift(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        return {each.topic: self._lift(each) for each in before}

    def _snapshot(self, topic: str) -> FenceBefore | TanistError:
        if self._cluster.authorizer and not self._cluster.may("DESCRIBE", "kafka-cluster"):
            return ClusterAuthorizationFailed("DescribeAcls")
        if topic not in self._cluster.topics:
            return UnknownTopicOrPartition(topic)
        if self._cluster.authorizer and not self._cluster.is_bare(topic):
            return FenceBefore(topic=topic, kind=FenceKind.DENY_WRITE, had_deny=(topic, ANYBODY) in self._cluster.deny)
        own = self._cluster.topics[topic].configs.get(MAX_BYTES)
        return FenceBefore(topic=topic, kind=FenceKind.TINY_MESSAGES, max_message_bytes=own)

    def _apply(self, before: FenceBefore) -> TanistError | None:
        if before.kind is FenceKind.DENY_WRITE:
            if not self._cluster.may("ALTER", "kafka-cluster"):
                return ClusterAuthorizationFailed("CreateAcls")
            self._cluster.deny.add((before.topic, ANYBODY))
            return None
        return self._limit(before.topic, "78")

    def _stands(self, before: FenceBefore) -> bool | TanistError:
        if before.kind is FenceKind.DENY_WRITE:
            return (before.topic, ANYBODY) in self._cluster.deny
        if before.topic not in self._cluster.topics:
            return UnknownTopicOrPartition(before.topic)
        return self._cluster.topics[before.topic].configs.get(MAX_BYTES) == "78"

    def _lift(self, before: FenceBefore) -> TanistError | None:
        if before.kind is FenceKind.DENY_WRITE:
            if not self._cluster.may("ALTER", "kafka-cluster"):
                return ClusterAuthorizationFailed("DeleteAcls")
            if not before.had_deny:
                self._cluster.deny.discard((before.topic, ANYBODY))
            return None
        return self._limit(before.topic, before.max_message_bytes)

    def _limit(self, topic: str, value: str | None) -> TanistError | None:
        if topic not in self._cluster.topics:
            return UnknownTopicOrPartition(topic)
        facts = self._cluster.topics[topic]
        configs = {**facts.configs, MAX_BYTES: value}
        kept = {name: each for name, each in configs.items() if each is not None}
        self._cluster.topics[topic] = replace(facts, configs=kept)
        return None


class MemoryOpening:
    """The port `Opening`. `before_open` hears which topics are about to be opened."""

    def __init__(self, cluster: GuardedCluster, before_open: Callable[[Sequence[str]], None] = lambda _: None) -> None:
        self._cluster, self._before_open = cluster, before_open

    def has_authorizer(self, by: Deadline) -> bool:
        self._cluster.answer()
        return self._cluster.authorizer

    def open(
        self,
        topics: Mapping[str, Sequence[AclEntry]],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        denied: Mapping[str, Collection[str]] = NOBODY,
    ) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        if self._cluster.authorizer and not self._cluster.may("DESCRIBE", "kafka-cluster"):
            raise ClusterAuthorizationFailed("DescribeAcls")
        if self._cluster.authorizer and not self._cluster.may("ALTER", "kafka-cluster"):
            return dict.fromkeys(topics, ClusterAuthorizationFailed("CreateAcls"))
        self._before_open(tuple(topics))
        if self._cluster.authorizer:
            logins = self._logins(mirrors)
            self._cluster.given |= self._wanted(topics, logins)
            self._cluster.deny |= {(topic, login) for topic in topics for login in logins}
            self._cluster.deny -= {(topic, ANYBODY) for topic in topics}
            self._cluster.deny -= self._denied_by_name(topics, denied)
            self._cluster.deny |= self._denied_at_the_source(topics)
        return dict.fromkeys(topics)

    def deny(self, topics: Mapping[str, Collection[str]], by: Deadline) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        if self._cluster.authorizer:
            self._cluster.deny |= {(topic, who) for topic, named in topics.items() for who in named}
        return dict.fromkeys(topics)

    def undeny(self, topics: Mapping[str, Collection[str]], by: Deadline) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        self._cluster.deny -= {(topic, who) for topic, named in topics.items() for who in named}
        self._cluster.given -= {
            (topic, AclEntry(who, ANY_HOST, allowed=False)) for topic, named in topics.items() for who in named
        }
        return dict.fromkeys(topics)

    def give(self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        if self._cluster.authorizer:
            self._cluster.given |= {(topic, rule) for topic, held in topics.items() for rule in held}
            self._cluster.deny |= self._denied_at_the_source(topics)
        return dict.fromkeys(topics)

    def take_back(self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        self._cluster.given -= {(topic, rule) for topic, held in topics.items() for rule in held}
        self._cluster.deny -= self._denied_at_the_source(topics)
        return dict.fromkeys(topics)

    def close(
        self, topics: Mapping[str, Collection[str]], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        if self._cluster.authorizer:
            self._cluster.deny |= {(topic, who) for topic, named in topics.items() for who in named}
            self._cluster.deny -= {(topic, login) for topic in topics for login in self._logins(mirrors)}
        return dict.fromkeys(topics)

    def is_open(
        self,
        topics: Mapping[str, Sequence[AclEntry]],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        authorizer: bool | None = None,
        denied: Mapping[str, Collection[str]] = NOBODY,
    ) -> Mapping[str, bool | TanistError]:
        self._cluster.answer()
        if not self._cluster.authorizer:
            return dict.fromkeys(topics, True)
        lacking = {topic for topic, _ in self._wanted(topics, self._logins(mirrors)) - self._cluster.given}
        unwanted = {(topic, ANYBODY) for topic in topics} | self._denied_by_name(topics, denied)
        shut = {topic for topic, _ in unwanted & self._cluster.deny}
        return {topic: topic not in shut | lacking for topic in topics}

    def shut_out(
        self,
        topics: Sequence[str],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        authorizer: bool | None = None,
    ) -> Mapping[str, bool | TanistError]:
        self._cluster.answer()
        own, others = f"User:{self._cluster.user}", self._logins(mirrors)
        denied = {topic: all((topic, other) in self._cluster.deny for other in others - {own}) for topic in topics}
        if not self._cluster.authorizer or own not in others:
            return {topic: denied[topic] and self._cluster.authorizer for topic in topics}
        return {topic: denied[topic] and not self._may_write(topic) for topic in topics}

    def principal(self) -> str | None:
        return f"User:{self._cluster.user}"

    def _denied_by_name(
        self, topics: Mapping[str, Sequence[AclEntry]], denied: Mapping[str, Collection[str]]
    ) -> set[tuple[str, str]]:
        return {(topic, who) for topic, named in denied.items() for who in named} - self._denied_at_the_source(topics)

    def _denied_at_the_source(self, topics: Mapping[str, Sequence[AclEntry]]) -> set[tuple[str, str]]:
        return {
            (topic, rule.principal)
            for topic, rules in topics.items()
            for rule in rules
            if not rule.allowed and rule.host == ANY_HOST
        }

    def _may_write(self, topic: str) -> bool:
        return self._cluster.may_write(topic, self._cluster.user)

    def _logins(self, mirrors: Collection[str]) -> frozenset[str]:
        return frozenset(mirrors) or frozenset({f"User:{self._cluster.user}"})

    def _wanted(self, topics: Mapping[str, Sequence[AclEntry]], ours: Collection[str]) -> set[tuple[str, AclEntry]]:
        return {(topic, rule) for topic, rules in topics.items() for rule in rules if rule.principal not in ours}

    def canary(self, mirror: MirrorName, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        return {topic: self._canary(topic) for topic in topics}

    def _canary(self, topic: str) -> TanistError | None:
        may = self._cluster.permits(topic, self._cluster.user) and self._cluster.may("WRITE", topic)
        if self._cluster.authorizer and not may:
            return TopicAuthorizationFailed(topic)
        for _ in range(2):
            self._cluster.mark(TopicPartition(topic, 0))
        self._cluster.canaries.append(topic)
        return None


class MemoryReplicas:
    """The port `Replicas`."""

    def __init__(self, cluster: GuardedCluster) -> None:
        self._cluster = cluster

    def cluster(self, topics: Sequence[str], by: Deadline) -> ClusterSeen:
        partitions = MemoryTopics(self._cluster).partitions(topics, by)
        ids = {name: self._cluster.topics[name].topic_id for name in topics if isinstance(partitions[name], int)}
        return ClusterSeen(cluster_id=self._cluster.id, partitions=partitions, topic_ids=ids)

    def open_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        self._cluster.answer()
        return tuple(each for each in self._cluster.transactions if each.partition in partitions)

    def named_in_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        self._cluster.answer()
        if self._cluster.coordinators is not None:
            raise self._cluster.coordinators
        return tuple(each for each in self._cluster.named if each.partition in partitions)

    def transactional(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, TransactionalProducers]:
        self._cluster.answer()
        others = TransactionalProducers.ELSEWHERE if self._cluster.transactional else TransactionalProducers.NONE
        return {at: self._cluster.transactional.get(at, others) for at in partitions}


class MemoryApprovals:
    """The port `Approvals`. `approver`: may write."""

    def __init__(self, cluster: GuardedCluster, user: str = "approver", *, approver: bool = True) -> None:
        self._cluster, self._user, self._approver = cluster, user, approver

    def principal(self, by: Deadline) -> str:
        return self._user if self._cluster.authorizer else f"UNPROTECTED:{self._user}"

    def exists(self, by: Deadline) -> bool:
        self._cluster.answer()
        return APPROVALS_TOPIC in self._cluster.topics

    def create(self, by: Deadline) -> None:
        self._cluster.answer()
        self._cluster.with_topic(APPROVALS_TOPIC)

    def all(self, by: Deadline) -> tuple[Entry, ...]:
        self._must_be_allowed("DESCRIBE_CONFIGS", by)
        self._must_be_allowed("READ", by)
        return tuple(self._cluster.approvals)

    def brokers_time(self, by: Deadline) -> EpochMs | None:
        self._cluster.answer()
        return self._cluster.committed.get(STATE_TOPIC)

    def append(self, request: ApprovalRequest, by: Deadline) -> Approval:
        self._must_be_approver(by)
        approval = Approval(
            id=f"0-{len(self._cluster.approvals)}",
            mirror=request.mirror,
            plan=request.plan,
            plan_json=request.plan_json,
            request=request.request,
            approver=signature(self.principal(by), request.on_behalf_of),
            reason=request.reason,
            valid_for_ms=request.valid_for_ms,
            at=self._cluster.clock.now(),
        )
        self._cluster.approvals.append(approval)
        try:
            self._must_be_allowed("READ", by)
        except AuthorizationFailed as unread:
            return replace(approval, unread=str(unread))
        return approval

    def withdraw(self, no: Withdrawal, by: Deadline) -> None:
        self._must_be_approver(by)
        self._cluster.approvals.append(replace(no, reason=f"{no.reason} ({self.principal(by)})"))

    def _must_be_approver(self, by: Deadline) -> None:
        self._must_be_allowed("DESCRIBE_CONFIGS", by)
        self._must_be_allowed("WRITE", by)
        if not self._approver and self._cluster.authorizer:
            raise AuthorizationFailed(f"{self._user} may not WRITE {APPROVALS_TOPIC}")

    def _must_be_allowed(self, operation: str, by: Deadline) -> None:
        self._must_exist(by)
        if not self._cluster.may(operation, APPROVALS_TOPIC):
            raise AuthorizationFailed(f"{self._cluster.id} needs {operation} on topic {APPROVALS_TOPIC}")

    def _must_exist(self, by: Deadline) -> None:
        if not self.exists(by):
            raise NoApproverTopic(self._cluster.name, self._cluster.side().bootstrap)
