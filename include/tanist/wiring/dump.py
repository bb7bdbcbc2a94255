"""The state topics as they are stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tanist.usecases import snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.state_record import StateRecord
    from tanist.kafka.protocol.stored import Unreadable
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.wiring.registry import ClusterRegistry


_BURST_SECONDS: Final = 0.3


def dump(
    registry: ClusterRegistry, destination: Cluster, prefix: str, context: CommandContext
) -> Iterator[dict[str, Any]]:
    """Every record of the state topics whose key begins with `prefix`, by key; unreadable ones with their reason."""
    from tanist.kafka.adapters.cluster import PARTITIONS  # noqa: PLC0415

    cluster = registry.open(destination.name)
    for topic in PARTITIONS:
        if not snapshot.exists(destination, topic, context.by):
            continue
        with cluster.open_store(topic, None, context.by) as store:
            records = [_stored(record) for record in store.catch_up(context.by).values()]
            records += [_stored(unreadable) for unreadable in store.problems()]
        yield from sorted((r for r in records if r["key"].startswith(prefix)), key=lambda r: str(r["key"]))


def follow(
    registry: ClusterRegistry, destination: Cluster, prefix: str, context: CommandContext, until: Deadline | None
) -> Iterator[dict[str, Any]]:
    """Every record of the state topics in the order read, with tombstones; then new ones `until` (None: for ever)."""
    from tanist.kafka.adapters.cluster import PARTITIONS  # noqa: PLC0415
    from tanist.kafka.adapters.tail import Tail  # noqa: PLC0415

    cluster, tail = registry.open(destination.name), Tail(registry.cluster(destination.name).endpoint)
    for topic, count in PARTITIONS.items():
        if not snapshot.exists(destination, topic, context.by):
            continue
        tail.add(topic, cluster.starts(topic, count, context.by))
    try:
        while until is None or until.left(context.clock.monotonic()) > 0:
            for burst in tail.burst(_BURST_SECONDS).values():
                if burst.failure:
                    raise burst.failure
                items = (_stored(record) for record in burst.records)
                yield from (item for item in items if item["key"].startswith(prefix))
    finally:
        tail.close()


def _stored(record: StateRecord | Unreadable) -> dict[str, Any]:
    """A record as JSON: its key, and its value as it is stored."""
    from tanist.kafka.protocol.stored import Unreadable, encode  # noqa: PLC0415

    if isinstance(record, Unreadable):
        return {"key": record.key, "value": None, "unreadable": record.why}
    key, value = encode(record)
    return {"key": key.decode(), "value": None if value is None else json.loads(value)}
