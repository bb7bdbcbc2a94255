"""What a reconciliation is told: one value, handed to the Spark job as one private file."""

from __future__ import annotations

from dataclasses import dataclass

from tanist.domain.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A topic and what may be a copy of it, partition by partition. `trouble`: why nothing can be told of them."""

    source: str
    destination: str
    partitions: int
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class PositionRequest:
    """A position in a source topic; `group` says whose, and comes back with the answer."""

    topic: str
    partition: int
    offset: int
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationJob:
    """`run` names this reconciliation."""

    run: str
    source: Endpoint
    destination: Endpoint
    pairs: tuple[TopicPair, ...]
    positions: tuple[PositionRequest, ...] = ()
