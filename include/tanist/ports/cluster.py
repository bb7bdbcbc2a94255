"""A cluster as the use cases see it: its ports in one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.names import MirrorName
    from tanist.ports.access import Access
    from tanist.ports.approvals import Approvals
    from tanist.ports.clock import Deadline
    from tanist.ports.configs import Configs
    from tanist.ports.fencing import Fencing
    from tanist.ports.logs import Logs
    from tanist.ports.opening import Opening
    from tanist.ports.positions import Positions
    from tanist.ports.producer_fencing import ProducerFencing
    from tanist.ports.replicas import Replicas
    from tanist.ports.state import StateStore
    from tanist.ports.topics import Topics


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
    fencing: Fencing
    producer_fencing: ProducerFencing
    opening: Opening
    approvals: Approvals
    positions: Callable[[MirrorName], Positions]
    """Committed offsets of groups; commits are made with the transactional ids of the given mirror."""
    open_store: OpenStore
    small_state: bool = False
