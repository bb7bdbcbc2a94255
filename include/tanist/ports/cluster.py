"""A cluster as the use cases see it: its ports in one object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import StateLogLost
from tanist.domain.state_view import NOTHING_YET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.state_view import StateView
    from tanist.ports.access import Access, Opening
    from tanist.ports.acls import AclStore
    from tanist.ports.approvals import Approvals
    from tanist.ports.clock import Deadline
    from tanist.ports.fencing import Fencing, ProducerFencing
    from tanist.ports.logs import LogPrefixes, Logs, OpenTransactions, Replicas
    from tanist.ports.mirrormaker import MirrorMakerTopics
    from tanist.ports.positions import Positions, Proofs
    from tanist.ports.state import StateStore
    from tanist.ports.tails import DivergentTails, Quarantine, Replays
    from tanist.ports.times import RecordTimes
    from tanist.ports.topics import Configs, LogSizes, TopicDeletion, Topics


class OpenStore(Protocol):
    """Opens a state topic."""

    def __call__(
        self, topic: str, mirror: MirrorName | None, by: Deadline, *, create: bool = False, appends: bool = False
    ) -> StateStore:
        """A store over a state topic; with `mirror` it may also append, as the only operator of that mirror.

        `appends`: it may append without being an operator, as workers do, so it fences nobody. Only for records on
        which nothing rests.

        Raises:
            UnsafeStateTopic: the topic is not compacted or not replicated, so it could lose records.
            UnknownTopicOrPartition: the topic does not exist and `create` is False.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The ports of one cluster, source or destination; its `ClusterRegistry` opens and closes it.

    `name`: as configured. `bootstrap`: `host:port,...`. `small_state`: state topics with fewer than three replicas are
    allowed. Used by one thread at a time.
    """

    name: str
    bootstrap: str
    topics: Topics
    configs: Configs
    logs: Logs
    replicas: Replicas
    access: Access
    acls: AclStore
    fencing: Fencing
    producer_fencing: ProducerFencing
    opening: Opening
    approvals: Approvals
    positions: Callable[[MirrorName], Positions]
    """Committed offsets of groups; commits are made with the transactional ids of the given mirror."""
    open_store: OpenStore
    transactions: OpenTransactions
    deletion: TopicDeletion
    sizes: LogSizes
    times: RecordTimes
    replays: Replays
    mirrormaker: MirrorMakerTopics
    certificates: Callable[[], Mapping[str, EpochMs]] = dict
    """When each certificate ends that connections have shown so far: of brokers by address, and ours (`client`)."""
    small_state: bool = False
    _readers: dict[str, StateStore] = field(default_factory=dict, init=False, repr=False, compare=False)

    def stored(self, topic: str, by: Deadline) -> StateView | None:
        """A state topic as it is now; None: it does not exist. Its one reader stays open until `close`.

        Raises:
            UnsafeStateTopic: its configuration could lose records. StateLogLost: it was re-created or truncated; the
                next call reads it anew. CouldNotTell, BrokerError: it cannot be read.
        """
        reader = self._readers.get(topic)
        try:
            if reader is not None:
                return reader.catch_up(by)
            reader = self._readers[topic] = self.open_store(topic, None, by)
            return reader.view()
        except UnknownTopicOrPartition:
            self._forget(topic)
            return None
        except StateLogLost:
            self._forget(topic)
            raise

    def state(self, topic: str, by: Deadline) -> StateView:
        """As `stored`; empty if the topic does not exist."""
        found = self.stored(topic, by)
        return NOTHING_YET if found is None else found

    def close(self) -> None:
        """Close the readers of state topics; the connections stay open."""
        for topic in tuple(self._readers):
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        if (reader := self._readers.pop(topic, None)) is not None:
            reader.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPair:
    """What reads the logs of a source and of a destination side by side."""

    proofs: Proofs
    prefixes: LogPrefixes
    tails: DivergentTails
    quarantine: Quarantine
