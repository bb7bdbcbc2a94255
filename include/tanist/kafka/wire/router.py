"""Leaders of partitions, and the connections to them."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from tanist.domain.broker_errors import LeaderNotAvailable, UnknownTopicOrPartition
from tanist.domain.endpoint import Address
from tanist.domain.errors import (
    AnotherCluster,
    CouldNotTell,
    MalformedFrame,
    Stopped,
    TanistError,
    TwoClusters,
    Unreachable,
)
from tanist.domain.names import BrokerId, TopicPartition
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.connection import Connection
from tanist.kafka.wire.messages import FindCoordinatorRequest, MetadataRequest
from tanist.kafka.wire.totals import ConnectionTotals
from tanist.kafka.wire.transport import StopSignal
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Self

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.errors import BrokerError

_Items = TypeVar("_Items", bound="Collection[Any]")
_A = TypeVar("_A")
_NO_TOPIC_ID = UUID(int=0)
_LEAST_CONNECT_SECONDS = 1.0
_CONTROL = "control"
_FIRST_WITH_KEY_LIST = 4  # FindCoordinator, KIP-699


class PartitionInfo(NamedTuple):
    """`leader`: None if there is none. `leader_epoch`: -1 if the broker does not report it."""

    partition: int
    leader: BrokerId | None
    leader_epoch: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...]


class TopicInfo(NamedTuple):
    """`topic_id` is None below Kafka 2.8; with an `error` the rest is empty. Partitions are in order."""

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[PartitionInfo, ...]
    error: BrokerError | None


class Router:
    """The connections of one thread to one cluster. Only `interrupt` may be called from another thread.

    A connection belongs to a broker and a channel: requests of different channels do not wait for each other. Topics
    are known as `refresh` last read them; nothing refreshes by itself.
    """

    def __init__(
        self, endpoint: Endpoint, client_id: str, cluster_id: str | None = None, totals: ConnectionTotals | None = None
    ) -> None:
        """`cluster_id`: the only id accepted; if another cluster answers, every call raises AnotherCluster."""
        self.totals = totals or ConnectionTotals()
        self.endpoint = endpoint
        self.client_id = client_id
        self.pinned = cluster_id
        """The only id accepted; it may be set later, to the one that is known."""
        self.cluster_id: str | None = None
        self.controller: BrokerId | None = None
        self.brokers: Mapping[BrokerId, Address] = {}
        self._stop = StopSignal()
        self._topics: dict[str, TopicInfo] = {}
        self._connections: dict[tuple[BrokerId, str], Connection] = {}
        self._first: Connection | None = None
        self._adopted: list[Router] = []
        self._known_by: tuple[Address, str | None] | None = None
        """Which address told first of which cluster."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── what is known ─────────────────────────────────────────────────────────────────────────────────────────────

    def refresh(self, topics: Sequence[str] | None, by: Deadline) -> None:
        """Read the metadata of `topics` from any broker; None: of all topics, replacing what is known.

        Raises:
            Unreachable: no broker answers. AuthenticationFailed, WrongListener, TimedOut, Stopped: as they say.
            TwoClusters: this broker is of another cluster than the first one. AnotherCluster: see `cluster_id`.
        """
        connection = self.any_connection(by)
        self.learn(connection, _metadata(connection, topics, by), forget=topics is None)

    def learn(self, connection: Connection, answer: Any, *, forget: bool = False) -> None:
        """Take what `connection` has answered to a MetadataRequest, as `refresh` does. `forget`: what was known before.

        Raises:
            TwoClusters, AnotherCluster: as `refresh`.
        """
        self._must_be_the_same(connection, answer.cluster_id)
        self.cluster_id = answer.cluster_id
        self.controller = BrokerId(answer.controller_id) if answer.controller_id >= 0 else None
        self.brokers = MappingProxyType({BrokerId(b.node_id): Address(b.host, b.port) for b in answer.brokers})
        if forget:
            self._topics.clear()
        self._topics.update({topic.name: _topic_info(topic) for topic in answer.topics})
        self._place_first()

    def _must_be_the_same(self, connection: Connection, cluster_id: str | None) -> None:
        """Names resolve anew and bootstrap addresses take turns: what was known must not be mixed with another's."""
        now = (connection.address, cluster_id)
        self._must_be_pinned(cluster_id, connection)
        self._known_by = self._known_by or now
        if self._known_by[1] != cluster_id:
            connection.close()
            raise differing(self.endpoint, self._known_by, now)

    def _must_be_pinned(self, cluster_id: str | None, *connections: Connection) -> None:
        """A name may lead elsewhere tomorrow: nothing is asked of another cluster, and nothing done to it."""
        if self.pinned in {None, cluster_id}:
            return
        for each in connections:
            each.close()
        raise AnotherCluster(f"{self.endpoint.name!r} leads to cluster {cluster_id}, not to {self.pinned}")

    def _place_first(self) -> None:
        """The first connection is one to a broker: once it is known to which, no second one is opened there."""
        if self._first is None:
            return
        for broker, address in self.brokers.items():
            held = self._connections.get((broker, _CONTROL))
            if address == self._first.address and (held is None or held.closed):
                self._connections[broker, _CONTROL] = self._first
                self._first = None
                return

    def adopt(self, other: Router) -> None:
        """Take the first connection of `other`, which knows the same cluster by another address and ends here.

        Raises:
            AnotherCluster: it is not the cluster of this router.
        """
        self._must_be_pinned(other.cluster_id, *other._held())
        if self.cluster_id is None:
            self.cluster_id, self.controller, self.brokers = other.cluster_id, other.controller, other.brokers
            self._known_by = other._known_by
        for connection in other._held():
            self._place_first()
            if self._first is None or self._first.closed:
                self._first = connection
                self._place_first()
            else:
                connection.close()
        other._first = None
        other._connections.clear()
        self._adopted.append(other)

    def _held(self) -> list[Connection]:
        return [each for each in (self._first, *self._connections.values()) if each is not None and not each.closed]

    def topics(self) -> Mapping[str, TopicInfo]:
        """What `refresh` has seen; a topic that was asked for and is not there has an `error`."""
        return MappingProxyType(dict(self._topics))

    def leader(self, of: TopicPartition) -> BrokerId:
        """Who leads, as far as is known.

        Raises:
            LeaderNotAvailable: there is none now.
            UnknownTopicOrPartition: not read yet; call `refresh` first.
            BrokerError: the broker's error for this topic.
        """
        topic = self._topics.get(of.topic)
        if topic is None or (topic.error is None and of.partition >= len(topic.partitions)):
            raise UnknownTopicOrPartition(f"{of} of cluster {self.endpoint.name!r}")
        if topic.error is not None:
            raise topic.error
        leader = topic.partitions[of.partition].leader
        if leader is None:
            raise LeaderNotAvailable(f"{of} of cluster {self.endpoint.name!r} has no leader")
        return leader

    def leaders(self, of: Iterable[TopicPartition]) -> dict[TopicPartition, BrokerId | None]:
        """Who leads each, in one pass over many partitions that come by topic; None: `leader` says why nobody does."""
        found, last, parts = dict[TopicPartition, "BrokerId | None"](), "", tuple[PartitionInfo, ...]()
        for at in of:
            if at.topic != last:
                last, topic = at.topic, self._topics.get(at.topic)
                parts = () if topic is None or topic.error is not None else topic.partitions
            found[at] = parts[at.partition].leader if at.partition < len(parts) else None
        return found

    def leader_epoch(self, of: TopicPartition) -> int:
        """In which epoch `leader` leads; -1 where that is not known."""
        topic = self._topics.get(of.topic)
        known = topic is not None and of.partition < len(topic.partitions)
        return topic.partitions[of.partition].leader_epoch if topic is not None and known else -1

    # ── connections ───────────────────────────────────────────────────────────────────────────────────────────────

    def connection(self, broker: BrokerId, by: Deadline, channel: str = _CONTROL) -> Connection:
        """The open connection to `broker` for `channel`, opened if necessary; the router closes it.

        Raises:
            Unreachable: as `Connection.open`, or the broker is unknown.
        """
        held = self._connections.get((broker, channel))
        if held is not None:
            if not held.lost:
                return held
            held.close()
        address = self.brokers.get(broker)
        if address is None:
            raise Unreachable(f"broker {broker} is not among those of cluster {self.endpoint.name!r}")
        opened = self._connections[broker, channel] = self._open(address, by)
        return opened

    def any_connection(self, by: Deadline) -> Connection:
        """A connection to whatever broker answers: an open one, else a known broker, else a bootstrap address."""
        held = [self._first, *(held for (_, channel), held in self._connections.items() if channel == _CONTROL)]
        for connection in filter(None, held):
            if connection.lost:
                connection.close()
            elif not connection.in_flight:
                return connection
        self._first = self._open_one_of([*self.endpoint.bootstrap, *self.brokers.values()], by)
        return self._first

    def _open_one_of(self, addresses: Sequence[Address], by: Deadline) -> Connection:
        """The first that answers. A dead address takes only its share of the time; the first reason is the one told."""
        reasons: list[CouldNotTell] = []
        distinct = list(dict.fromkeys(addresses))
        for index, address in enumerate(distinct):
            try:
                return self._open(address, share(by, len(distinct) - index))
            except Stopped:
                raise
            except CouldNotTell as reason:
                reasons.append(reason)
        if not reasons:
            raise Unreachable(f"cluster {self.endpoint.name!r} has no bootstrap address")
        raise reasons[0]

    def _open(self, address: Address, by: Deadline) -> Connection:
        opened = Connection.open(address, self.endpoint, self.client_id, by, self._stop, self.totals)
        if self.pinned is None:
            return opened
        try:
            self._must_be_pinned(_metadata(opened, [], by).cluster_id, opened)
        except TanistError:
            opened.close()
            raise
        return opened

    def coordinator(self, group: str, by: Deadline) -> BrokerId:
        """The coordinator of `group`.

        Raises:
            CoordinatorNotAvailable, CoordinatorLoading: retry. GroupAuthorizationFailed: no DESCRIBE on the group.
        """
        connection = self.any_connection(by)
        version = connection.version(FindCoordinatorRequest, 1, 4)
        keys: dict[str, Any] = {"key": group} if version < _FIRST_WITH_KEY_LIST else {"coordinator_keys": [group]}
        answer = connection.call(FindCoordinatorRequest(key_type=0, version=version, **keys), by)
        found = answer if version < _FIRST_WITH_KEY_LIST else answer.coordinators[0]
        if found.error_code != NONE:
            raise error_for(found.error_code, f"coordinator of group {group!r}")
        broker = BrokerId(found.node_id)
        self.learn_broker(broker, found.host, found.port)
        return broker

    def learn_broker(self, broker: BrokerId, host: str, port: int) -> None:
        """Add the address of a broker that another one has reported."""
        self.brokers = MappingProxyType({**self.brokers, broker: Address(host, port)})

    def drop(self, broker: BrokerId) -> None:
        """Close all connections to `broker`; the next call connects again."""
        for key in [key for key in self._connections if key[0] == broker]:
            self._connections.pop(key).close()
        address = self.brokers.get(broker)
        if self._first is not None and address is not None and self._first.peer.startswith(f"{address} of "):
            self._first.close()
            self._first = None

    def forget(self, broker: BrokerId) -> None:
        """It did not answer: what it led must be looked up before it is asked for again."""
        led = {name for name, topic in self._topics.items() if any(part.leader == broker for part in topic.partitions)}
        for name in led:
            del self._topics[name]

    def ask(
        self,
        broker: BrokerId,
        items: _Items,
        by: Deadline,
        ask: Callable[[Connection, _Items, Deadline], Mapping[Any, _A | TanistError]],
    ) -> dict[Any, _A | TanistError]:
        """The result of `broker` for each of `items` in one request, or the error.

        Raises:
            Stopped: the router was interrupted.
        """
        try:
            connection = self.connection(broker, by)
            answers = ask(connection, items, by)
        except Stopped:
            raise
        except CouldNotTell as error:
            self.drop(broker)
            self.forget(broker)
            return dict.fromkeys(items, error)
        except TanistError as error:
            return dict.fromkeys(items, error)
        silent = MalformedFrame(f"{connection.peer}: an answer without some of what it was asked for")
        return {each: answers.get(each, silent) for each in items}

    def interrupt(self) -> None:
        """From any thread: every current and later wait of this router and its connections raises Stopped."""
        self._stop.set()
        for each in self._adopted:
            each.interrupt()

    def pause(self, seconds: float, by: Deadline) -> None:
        """Wait for some seconds, at most until the deadline; `interrupt` ends it with Stopped."""
        self._stop.wait(min(seconds, by.left(time.monotonic())))

    def close(self) -> None:
        """By the owning thread, at the end."""
        for connection in [self._first, *self._connections.values()]:
            if connection is not None:
                connection.close()
        self._connections.clear()
        for each in self._adopted:
            each.close()
        self._stop.close()


def differing(endpoint: Endpoint, *known: tuple[Address, str | None]) -> TwoClusters:
    """The error for an endpoint of whose addresses each, as `known`, leads to another cluster."""
    each = ", ".join(f"{address} is cluster {cluster_id}" for address, cluster_id in known)
    return TwoClusters(f"bootstrap_servers of {endpoint.name!r} lead to different clusters: {each}")


def describe_topics(connection: Connection, topics: Sequence[str], by: Deadline) -> Mapping[str, TopicInfo]:
    """What this very broker knows of `topics` now."""
    return {topic.name: _topic_info(topic) for topic in _metadata(connection, topics, by).topics}


def _metadata(connection: Connection, topics: Sequence[str] | None, by: Deadline) -> Any:
    kind = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=None if topics is None else [kind(topic_id=_NO_TOPIC_ID, name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        version=connection.version(MetadataRequest, 8, 12),
    )
    return connection.call(request, by)


def _topic_info(topic: Any) -> TopicInfo:
    error = None if topic.error_code == NONE else error_for(topic.error_code, f"topic {topic.name!r}")
    known = sorted(topic.partitions or (), key=lambda partition: int(partition.partition_index))
    topic_id = None if topic.topic_id in {None, _NO_TOPIC_ID} else topic.topic_id
    return TopicInfo(topic.name, topic_id, topic.is_internal, tuple(map(_partition_info, known)), error)


def _partition_info(partition: Any) -> PartitionInfo:
    return PartitionInfo(
        partition.partition_index,
        BrokerId(partition.leader_id) if partition.leader_id >= 0 else None,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
    )


def share(by: Deadline, parts: int) -> Deadline:
    """An equal part of what is left, but enough for a connection if there is as much: the dead do not starve others."""
    now = time.monotonic()
    return Deadline(min(by.at, now + max(by.left(now) / parts, _LEAST_CONNECT_SECONDS)))
