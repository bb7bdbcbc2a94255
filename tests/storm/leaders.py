"""Leaders moved on purpose: the order of replicas is turned, then the first one is elected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.names import MirrorPartition
from tanist.kafka.wire.admin import Election, elect_leaders
from tanist.kafka.wire.messages import ApiMessage  # noqa: F401  # opens kafka-python with its warnings filtered
from tanist.kafka.wire.router import PartitionInfo, Router
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tanist_testkit.sandbox.cluster import SandboxCluster

SECONDS = 10.0
POSITIONS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def in_sync(cluster: SandboxCluster, topics: Sequence[str] | None = None) -> bool:
    """Whether every partition (of `topics`, or of all) has all its replicas in sync. False where nobody answers."""
    with Router(cluster.endpoint(), "storm") as router:
        try:
            router.refresh(topics, _by())
        except TanistError:
            return False
        known = router.topics().values()
        return all(not t.error and all(len(p.isr) == len(p.replicas) for p in t.partitions) for t in known)


def move(cluster: SandboxCluster, topics: Sequence[str], dice: Random) -> int:
    """Moves the leaders of about half of the partitions; how many were asked to move."""
    from kafka.protocol.admin import (  # type: ignore[attr-defined]  # noqa: PLC0415
        AlterPartitionReassignmentsRequest as Reassign,
    )

    with Router(cluster.endpoint(), "storm") as router:
        router.refresh(topics, _by())
        chosen = {name: [p for p in router.topics()[name].partitions if dice.random() < 0.5] for name in topics}
        kind = Reassign.ReassignableTopic
        wanted = [
            kind(name=name, partitions=[_turned(kind.ReassignablePartition, part) for part in parts])
            for name, parts in chosen.items()
            if parts
        ]
        if not wanted or router.controller is None:
            return 0
        request = Reassign(timeout_ms=5000, topics=wanted, version=0)
        router.connection(router.controller, _by()).call(request, _by())
        partitions = [MirrorPartition(name, p.partition) for name, parts in chosen.items() for p in parts]
        elect_leaders(router, Election.PREFERRED, partitions, _by())
        return len(partitions)


def coordinator(cluster: SandboxCluster, number: int, group: str) -> int | None:
    """The broker that coordinates this group, or, by `number`, one that coordinates transactions; None: nobody does.

    The leader of a partition of the internal topic, as brokers choose it.
    """
    topic = (TRANSACTIONS, POSITIONS)[number % 2]
    with Router(cluster.endpoint(), "storm") as router:
        router.refresh([topic], _by())
        partitions = router.topics()[topic].partitions
        if not partitions:
            return None
        at = partitions[(java_hash(group) if topic == POSITIONS else number // 2) % len(partitions)]
        return at.leader


def java_hash(text: str) -> int:
    """`Math.abs(text.hashCode())`, as a broker finds the partition of a group."""
    found = 0
    for each in text:
        found = (31 * found + ord(each)) & 0xFFFFFFFF
    return abs(found - 2**32 if found >= 2**31 else found)


def _turned(kind: type, part: PartitionInfo) -> object:
    return kind(partition_index=part.partition, replicas=[*part.replicas[1:], part.replicas[0]])


def _by() -> Deadline:
    return Deadline(time.monotonic() + SECONDS)
