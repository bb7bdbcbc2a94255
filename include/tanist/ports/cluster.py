"""A cluster as the use cases see it: its ports under one name."""

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
    def __call__(self, topic: str, mirror: MirrorName | None, by: Deadline, *, create: bool = False) -> StateStore:
        """A store over a state topic; with `mirror` one that may append to it, as that mirror's operator.

        Raises:
            UnsafeStateTopic: the topic could lose what we write. UnknownTopicOrPartition: it is not there, and is not
            to be made (`create`).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """All that is asked of a cluster, source or destination, by who opened it and closes it.

    `name` is the connection's; `small_state` allows state topics of one replica. Used by one thread at a time.
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
    """The positions of groups, committed on behalf of a mirror."""
    open_store: OpenStore
    small_state: bool = False
