"""What a command sees of a mirror's clusters: named parts, each read when it is first needed, and only once.

Whoever needs newer answers takes another snapshot: a run before each action, a wait each time that it looks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, TypeVar

from tanist.domain import records
from tanist.domain.acl_entries import learnt, writers
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import TanistError, UnknownMirror
from tanist.domain.followed import copied_here
from tanist.domain.moves import MirrorMoved
from tanist.domain.names import MirrorPartition, SourcePartition, TopicPartition
from tanist.domain.state_view import NOTHING_YET
from tanist.ports.access import NOBODY
from tanist.ports.logs import ClusterSeen
from tanist.ports.topics import NewTopic, TopicFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.acls import Acls
    from tanist.domain.failover.facts import OpenTransaction, TransactionalProducers
    from tanist.domain.fences import FenceBefore
    from tanist.domain.log_ends import LogEnds
    from tanist.domain.names import MirrorName, ProducerId
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.domain.writer_identity import MarkingWriter, WriterIdentity
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.fencing import Kept, ProducerFence


_SAFE_REPLICAS: Final = 3


def missing_state_topics(cluster: Cluster, by: Deadline) -> tuple[NewTopic, ...]:
    """The state topics that do not exist yet, as specs for a rehearsal; opening them creates them completely."""
    replicas = None if cluster.small_state else _SAFE_REPLICAS
    return tuple(
        NewTopic(name=name, partitions=count, replication_factor=replicas, configs={"cleanup.policy": "compact"})
        for name, count in ((records.STATE_TOPIC, records.STATE_PARTITIONS), (records.OFFSETS_TOPIC, 1))
        if not exists(cluster, name, by)
    )


def exists(cluster: Cluster, topic: str, by: Deadline) -> bool:
    """Whether the topic exists. Raises any other error of the cluster."""
    facts = cluster.topics.describe([topic], by)[topic]
    if isinstance(facts, TanistError) and not isinstance(facts, UnknownTopicOrPartition):
        raise facts
    return isinstance(facts, TopicFacts)


def spec_of(view: StateView, mirror: MirrorName, destination: str, *, any_copier: bool = False) -> MirrorSpec:
    """The spec of `mirror`. `any_copier`: also of one whose records somebody else copies.

    Raises:
        MirrorMoved: it has another destination now. UnknownMirror: with the names of existing mirrors.
        CopiedByAnother: somebody else copies its records.
    """
    if found := view.mirror(mirror):
        return found if any_copier else copied_here(found)
    if moved := view.move(mirror):
        raise MirrorMoved(moved, destination)
    names = ", ".join(spec.mirror for spec in view.mirrors()) or "none"
    raise UnknownMirror(f"{destination!r} has no mirror {mirror!r}; it has: {names}")


def still(view: StateView, examined: MirrorSpec) -> MirrorSpec:
    """The current spec of the mirror that was `examined` before.

    Raises:
        UnknownMirror: it was deleted meanwhile; another mirror may have its name.
    """
    found = spec_of(view, examined.mirror, examined.destination, any_copier=True)
    if (found.id, found.source) != (examined.id, examined.source):
        raise UnknownMirror(
            f"mirror {examined.mirror!r} was deleted in the meantime and re-created under the same name"
        )
    return found


_A = TypeVar("_A")
_K = TypeVar("_K")
_V = TypeVar("_V")
_P = TypeVar("_P", bound=TopicPartition)

_UNTOLD: Final = object()
"""The answer about an item that the cluster left out of its answers."""
_ALL: Final = ""
"""The item of a part that is one answer."""


@dataclass(slots=True)
class _Part:
    """Answers by item. `failed`: why none came; nothing more of this part is asked then."""

    answers: dict[Any, Any] = field(default_factory=dict)
    failed: TanistError | None = None

    def of(self, items: Iterable[_K], ask: Callable[[list[_K]], Mapping[Any, _V]]) -> dict[_K, _V]:
        wanted = list(items)
        if new := [item for item in wanted if item not in self.answers]:
            if self.failed is not None:
                raise self.failed
            try:
                found = ask(new)
            except TanistError as error:
                self.failed = error
                raise
            self.answers |= dict.fromkeys(new, _UNTOLD) | dict(found)
        return {item: self.answers[item] for item in wanted if self.answers[item] is not _UNTOLD}


@dataclass(slots=True, kw_only=True)
class ClusterSnapshot(Generic[_P]):
    """Parts of one cluster, under the names and with the answers of its ports. `_P`: the partitions of its side.

    Nothing is asked twice; a question with other arguments is another question. A part that fails as a whole raises the
    same error whenever it is read again, so mirrors do not share a snapshot.
    """

    cluster: Cluster
    _parts: dict[Hashable, _Part] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the connection."""
        return self.cluster.name

    def _each(self, part: Hashable, items: Iterable[_K], ask: Callable[[list[_K]], Mapping[Any, _V]]) -> dict[_K, _V]:
        return self._parts.setdefault(part, _Part()).of(items, ask)

    def _pairs(
        self, part: Hashable, about: Mapping[_K, _A], ask: Callable[[dict[_K, _A]], Mapping[Any, _V]]
    ) -> dict[_K, _V]:
        """Of questions that are a thing and something that belongs to it."""

        def of_pairs(new: list[tuple[_K, _A]]) -> dict[tuple[_K, _A], _V]:
            return {(item, about[item]): answer for item, answer in ask(dict(new)).items()}

        return {item: answer for (item, _), answer in self._each(part, about.items(), of_pairs).items()}

    def _one(self, part: Hashable, ask: Callable[[], _V]) -> _V:
        return self._each(part, (_ALL,), lambda _: {_ALL: ask()})[_ALL]

    # ── state topics ──────────────────────────────────────────────────────────────────────────────────────────────

    def stored(self, topic: str, by: Deadline) -> StateView | None:
        """A state topic; None: it does not exist.

        Raises:
            UnsafeStateTopic: its configuration could lose records.
        """
        return self._one(f"state topic {topic}", lambda: self.cluster.stored(topic, by))

    def state(self, topic: str, by: Deadline) -> StateView:
        """As `stored`; empty if the topic does not exist."""
        found = self.stored(topic, by)
        return NOTHING_YET if found is None else found

    # ── topics ────────────────────────────────────────────────────────────────────────────────────────────────────

    def cluster_id(self, by: Deadline) -> str:
        """As its brokers tell it now."""
        return self._one("cluster id", lambda: self.cluster.topics.cluster_id(by))

    def topic_names(self, by: Deadline) -> tuple[str, ...]:
        """All topics that this login may see, without internal ones."""
        return self._one("topic names", lambda: self.cluster.topics.names(by))

    def described(
        self, topics: Iterable[str], by: Deadline, configs: Collection[str] | None = None
    ) -> dict[str, TopicFacts | TanistError]:
        """Topics with their configurations, which takes DESCRIBE_CONFIGS. `configs`: which ones; None: all."""
        part = ("descriptions", None if configs is None else frozenset(configs))
        return self._each(part, topics, lambda new: self.cluster.topics.describe(new, by, configs))

    def partition_counts(self, topics: Iterable[str], by: Deadline) -> dict[str, int | TanistError]:
        """How many partitions each topic has, which takes DESCRIBE alone."""
        return self._each("partition counts", topics, lambda new: self.cluster.topics.partitions(new, by))

    def registry(self, topics: Sequence[str], by: Deadline) -> ClusterSeen:
        """The id of the cluster, and partitions and ids of `topics`, as any one broker tells them."""

        def ask(new: list[str]) -> dict[str, Any]:
            seen = self.cluster.replicas.cluster([topic for topic in new if topic != _ALL], by)
            named = {topic: (count, seen.topic_ids.get(topic)) for topic, count in seen.partitions.items()}
            return {_ALL: seen.cluster_id, **named}

        found: dict[str, Any] = self._each("registry", (_ALL, *topics), ask)
        cluster_id = found.pop(_ALL)
        return ClusterSeen(
            cluster_id=cluster_id,
            partitions={topic: count for topic, (count, _) in found.items()},
            topic_ids={topic: topic_id for topic, (_, topic_id) in found.items() if topic_id is not None},
        )

    # ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def ends(self, partitions: Iterable[_P], by: Deadline) -> dict[_P, LogEnds | TanistError]:
        """Log start, last stable offset and high watermark."""
        return self._each("ends", partitions, lambda new: self.cluster.logs.ends(new, by))

    def true_ends(self, partitions: Iterable[_P], by: Deadline) -> dict[_P, int | TanistError]:
        """Where each leader's log ends, also above the high watermark."""
        return self._each("true ends", partitions, lambda new: self.cluster.logs.true_ends(new, by))

    def only_control(self, spans: Mapping[_P, tuple[int, int]], by: Deadline) -> dict[_P, bool | TanistError]:
        """Whether each span (first offset, end) holds control batches and nothing else."""
        return self._pairs("control batches", spans, lambda new: self.cluster.logs.only_control(new, by))

    def last_producers(self, offsets: Mapping[_P, int], by: Deadline) -> dict[_P, ProducerId | TanistError]:
        """The producer id of the batch at each partition's last offset."""
        return self._pairs("last producers", offsets, lambda new: self.cluster.logs.producers(new, by))

    # ── transactions ──────────────────────────────────────────────────────────────────────────────────────────────

    def open_transactions(self, partitions: Sequence[_P], by: Deadline) -> tuple[OpenTransaction, ...]:
        """Transactions that are open on these partitions."""
        part = ("open transactions", *partitions)
        return self._one(part, lambda: self.cluster.replicas.open_transactions(partitions, by))

    def named_in_transactions(self, partitions: Sequence[_P], by: Deadline) -> tuple[OpenTransaction, ...]:
        """Transactions that name these partitions at a coordinator."""
        part = ("named in transactions", *partitions)
        return self._one(part, lambda: self.cluster.replicas.named_in_transactions(partitions, by))

    def transactional(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, TransactionalProducers]:
        """Which of these partitions transactional producers write to."""
        part = ("transactional", *partitions)
        return self._one(part, lambda: self.cluster.replicas.transactional(partitions, by))

    # ── source fences, and who may write ──────────────────────────────────────────────────────────────────────────

    def authorizer(self, by: Deadline) -> bool:
        """Whether the cluster has one."""
        return self._one("authorizer", lambda: self.cluster.fencing.has_authorizer(by))

    def fence_status(self, before: Iterable[FenceBefore], by: Deadline) -> dict[str, bool | TanistError]:
        """Whether the fence of each topic stands."""
        held = {each.topic: each for each in before}
        fencing = self.cluster.fencing
        return self._pairs("fence status", held, lambda new: fencing.fence_status(list(new.values()), by))

    def unfenced(self, topics: Iterable[str], by: Deadline) -> dict[str, FenceBefore | TanistError]:
        """What a fence of each topic would find."""
        ask = self.cluster.fencing.snapshot
        return self._each("before a fence", topics, lambda new: ask(new, by, authorizer=self.authorizer(by)))

    def is_open(
        self,
        topics: Mapping[str, Sequence[AclEntry]],
        by: Deadline,
        logins: Collection[str],
        denied: Mapping[str, Collection[str]] = NOBODY,
    ) -> dict[str, bool | TanistError]:
        """Whether each topic's ACLs are there, and nobody of `denied` is denied. `logins`: of the mirror."""
        ask, held = self.cluster.opening.is_open, {topic: tuple(acls) for topic, acls in topics.items()}
        part = ("open topics", frozenset(logins), frozenset((t, *sorted(each)) for t, each in denied.items()))
        return self._pairs(part, held, lambda new: ask(new, by, logins, authorizer=self.authorizer(by), denied=denied))

    def shut_out(self, topics: Iterable[str], by: Deadline, logins: Collection[str]) -> dict[str, bool | TanistError]:
        """Whether the mirror, which has `logins`, may not write to each topic any more."""
        ask = self.cluster.opening.shut_out
        part = ("shut out", frozenset(logins))
        return self._each(part, topics, lambda new: ask(new, by, logins, authorizer=self.authorizer(by)))

    def acls(self, by: Deadline) -> Acls:
        """All ACLs of the cluster."""
        return self._one("ACLs", lambda: self.cluster.acls.read(by))

    def write_rules(self, topics: Iterable[str], by: Deadline) -> dict[str, tuple[AclEntry, ...] | None]:
        """The ACLs for writing to each topic; None: a source fence hides them."""
        return {topic: learnt(found) for topic, found in self.writing(topics, by).items()}

    def others(self, topics: Iterable[str], by: Deadline, logins: Collection[str]) -> dict[str, frozenset[str]]:
        """Principals besides the mirror's `logins`, or our own where none is known, that may write to each topic."""
        own = self.cluster.opening.principal()
        mirror = frozenset(logins) or frozenset({own} if own else ())
        return {topic: writers(found, mirror) for topic, found in self.writing(topics, by).items()}

    def writing(self, topics: Iterable[str], by: Deadline) -> dict[str, frozenset[AclEntry]]:
        """All ACLs that concern writing to each topic."""
        return self.acls(by).writing(topics)

    # ── producer fences ───────────────────────────────────────────────────────────────────────────────────────────

    def producer_fences(
        self, writers: Mapping[MirrorPartition, WriterIdentity], by: Deadline
    ) -> dict[MirrorPartition, ProducerFence | TanistError]:
        """Whether the mirror's producers would be refused."""
        fencing = self.cluster.producer_fencing
        return self._pairs("producer fences", writers, lambda new: fencing.proof(new, by))

    def compacted(self, topics: Iterable[str], by: Deadline) -> dict[str, bool | TanistError]:
        """Whether each topic is compacted."""
        return self._each("compacted", topics, lambda new: self.cluster.producer_fencing.compacted(new, by))

    def kept(
        self, writers: Mapping[MirrorPartition, MarkingWriter], by: Deadline
    ) -> dict[MirrorPartition, Kept | TanistError]:
        """Whether the producer fences of compacted partitions are durable."""
        return self._pairs("durable fences", writers, lambda new: self.cluster.producer_fencing.kept(new, by))


SourceSnapshot: TypeAlias = ClusterSnapshot[SourcePartition]
DestinationSnapshot: TypeAlias = ClusterSnapshot[MirrorPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSnapshot:
    """Both clusters of a mirror. `source`: why it cannot be reached at all."""

    spec: MirrorSpec
    source: SourceSnapshot | TanistError
    destination: DestinationSnapshot

    def reachable_source(self) -> SourceSnapshot:
        """The source. Raises why it cannot be reached at all."""
        if isinstance(self.source, TanistError):
            raise self.source
        return self.source

    @classmethod
    def of(cls, spec: MirrorSpec, source: Cluster | TanistError, destination: Cluster) -> Self:
        """A new one, of which nothing has been read."""
        return cls(
            spec=spec,
            source=source if isinstance(source, TanistError) else SourceSnapshot(cluster=source),
            destination=DestinationSnapshot(cluster=destination),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorEnds(Generic[_P]):
    """The answers of one cluster: the ends of each partition, or why they are unknown."""

    found: Mapping[_P, LogEnds] = field(default_factory=dict)
    errors: Mapping[_P, TanistError] = field(default_factory=dict)
    down: TanistError | None = None

    @classmethod
    def of(cls, answers: Mapping[_P, LogEnds | TanistError]) -> Self:
        """As the cluster has answered."""
        found = {at: each for at, each in answers.items() if not isinstance(each, TanistError)}
        return cls(found=found, errors={at: each for at, each in answers.items() if isinstance(each, TanistError)})

    def error(self, partition: _P) -> str | None:
        """Why `partition` is unknown."""
        error = self.down or self.errors.get(partition)
        return str(error) if error else None
