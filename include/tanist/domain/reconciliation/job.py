"""The input of a reconciliation: one value, passed to the Spark job as one private file."""

from __future__ import annotations

from dataclasses import dataclass

from tanist.domain.endpoint import Endpoint
from tanist.domain.exclusive import ExclusiveRange


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A topic and its possible copy, partition by partition. `trouble`: why they cannot be compared.

    `exclusive`: ranges of any of its partitions that only one of the clusters can have, by the topic's lineage.
    """

    source: str
    destination: str
    partitions: int
    trouble: str = ""
    exclusive: tuple[ExclusiveRange, ...] = ()


@dataclass(frozen=True, slots=True)
class PositionRequest:
    """A position in a source topic; `group` is its owner and is returned with the answer."""

    topic: str
    partition: int
    offset: int
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationJob:
    """`run` names this reconciliation. `publish`: it also leaves what is to be published, in a file of its own."""

    run: str
    source: Endpoint
    destination: Endpoint
    pairs: tuple[TopicPair, ...]
    positions: tuple[PositionRequest, ...] = ()
    publish: bool = False
