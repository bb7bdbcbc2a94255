"""A mirror of a compacted topic and of one with aborted transactions, and what is left of it without its state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tanist.domain.names import MirrorPartition
from tests.kafka.failover.both_ways import LAG
from tests.kafka.fetcher.rig import transact, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kafka.failover.conftest import KafkaSide, Pair

STATE_TOPICS: Final = ("__mirror_state", "__mirror_offsets", "__mirror_groups")
TOPICS: Final = ("lost.compacted", "lost.plain")
STOPPED: Final = ("STOPPED", "PAUSED", 308)
"""State, desired state and row of a partition until somebody resumes it."""


def write(pair: Pair, values: range) -> None:
    """Into each topic, and into the plain one an aborted transaction, whose offsets get gap markers."""
    aborting = Producer(pair.east.client(transactional_id="lost", linger_ms="0"))
    aborting.init_transactions(20)
    for topic in TOPICS:
        assert pair.east.writes(topic, values)
    for partition in range(2):
        transact(aborting, MirrorPartition(TOPICS[1], partition), [b"aborted"], commit=False)


def working(pair: Pair) -> None:
    """A mirror of both topics, with all of their records, and a group that has read some."""
    pair.worker()
    pair.east.topic(TOPICS[0], cleanup_policy="compact")
    pair.east.topic(TOPICS[1])
    write(pair, range(200))
    pair.tanist("mirrors", "create", "dr", "--source", "east", "--topic", "lost.*")
    pair.tanist("mirrors", "wait", "dr", *LAG)


def lose(pair: Pair) -> None:
    """Without a worker: delete every state topic."""
    pair.dismiss()
    delete_state(pair.west)


def delete_state(side: KafkaSide) -> None:
    delete_topics(side, lambda topic: topic in STATE_TOPICS)


def delete_topics(side: KafkaSide, unwanted: Callable[[str], bool]) -> None:
    """Returns when none of them is there."""
    client = AdminClient(side.client("admin"))  # kept alive: it must outlive its futures

    def there() -> list[str]:
        return [topic for topic in client.list_topics(timeout=10).topics if unwanted(topic)]

    if names := there():
        for future in client.delete_topics(names).values():
            future.result(20)
        until(lambda: not there(), 20)


def logs(pair: Pair) -> list[list[tuple[int, int, bytes | None]]]:
    return [pair.west.read(topic, isolation="read_committed") for topic in TOPICS]


def identical(pair: Pair) -> None:
    """Every record of the source, at its offset, once."""
    for topic in TOPICS:
        source, copy = (side.read(topic, isolation="read_committed") for side in (pair.east, pair.west))
        assert copy == source
        assert len({(partition, offset) for partition, offset, _ in copy}) == len(copy)


def states(pair: Pair) -> set[tuple[str, str, int | None]]:
    rows = json.loads(pair.tanist("mirrors", "describe", "dr", "--json").out)["items"]
    return {(row["state"], row["desired"], row["row"]) for row in rows}


def go(pair: Pair) -> None:
    pair.tanist("mirrors", "resume", "dr", "--topic", "lost.*")
    pair.tanist("mirrors", "wait", "dr", *LAG)
    write(pair, range(500, 600))
    pair.tanist("mirrors", "wait", "dr", *LAG)


def dumped(pair: Pair, prefix: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in pair.tanist("state", "dump", "--key", prefix).out.splitlines()]
