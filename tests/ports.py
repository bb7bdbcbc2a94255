"""Ports of a cluster, one at a time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from tanist.kafka.adapters.cluster import KafkaCluster
from tanist.kafka.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import MirrorName
    from tanist.kafka.adapters.positions import KafkaPositions

_P = ParamSpec("_P")
_T = TypeVar("_T")


@contextmanager
def over(
    port: Callable[Concatenate[Router, _P], _T], endpoint: Endpoint, *rest: _P.args, **named: _P.kwargs
) -> Iterator[_T]:
    """`port`, over a router of its own."""
    with Router(endpoint, "tanist-test") as router:
        yield port(router, *rest, **named)


@contextmanager
def over_positions(endpoint: Endpoint, mirror: MirrorName) -> Iterator[KafkaPositions]:
    """The positions of groups, with the connections of those that commit."""
    with KafkaCluster(endpoint) as cluster:
        yield cluster.positions(mirror)
