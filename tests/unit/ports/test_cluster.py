"""A cluster has one reader for each of its state topics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import StateLogLost
from tanist.domain.names import MirrorName
from tanist.domain.records import STATE_TOPIC, PromotionEpoch
from tests.fakes.cluster import MemoryCluster
from tests.fakes.counting import Questions

if TYPE_CHECKING:
    from tanist.ports.cluster import Cluster
    from tanist.ports.state import StateStore

ENTRY = PromotionEpoch(mirror=MirrorName("dr"), topic="orders", count=1)


class Ended:
    """A reader whose topic is not there any more as it was read."""

    def __init__(self, store: StateStore, why: Exception) -> None:
        self.store, self.why, self.closed = store, why, 0

    def view(self) -> Any:
        return self.store.view()

    def catch_up(self, _by: object) -> Any:
        raise self.why

    def close(self) -> None:
        self.closed += 1


def ended(cluster: MemoryCluster, why: Exception) -> tuple[Cluster, list[Ended]]:
    """A cluster whose first reader of a topic ends, and the readers that have ended."""
    side, made = cluster.side(), list[Ended]()

    def open_store(*asked: Any, **how: Any) -> Any:
        store = cluster.open_store(*asked, **how)
        if made:
            return store
        made.append(Ended(store, why))
        return made[0]

    return replace(side, open_store=open_store), made


def test_a_topic_is_opened_once_and_read_on() -> None:
    """A reversal opened it sixty times."""
    cluster, questions = MemoryCluster().with_topic(STATE_TOPIC), Questions()
    side, by = questions.of(cluster.side()), cluster.clock.deadline(1)
    assert not side.state(STATE_TOPIC, by)
    cluster.write(STATE_TOPIC, ENTRY)
    assert side.state(STATE_TOPIC, by)[ENTRY.key] == ENTRY
    assert questions.calls[f"{cluster.name} {STATE_TOPIC}.open"] == 1
    side.close()
    assert side.state(STATE_TOPIC, by)[ENTRY.key] == ENTRY
    assert questions.calls[f"{cluster.name} {STATE_TOPIC}.open"] == 2


def test_a_topic_that_does_not_exist_is_found_once_it_does() -> None:
    cluster = MemoryCluster()
    side, by = cluster.side(), cluster.clock.deadline(1)
    assert side.stored(STATE_TOPIC, by) is None
    assert not side.state(STATE_TOPIC, by)
    cluster.with_topic(STATE_TOPIC)
    assert side.stored(STATE_TOPIC, by) is not None


def test_a_topic_that_was_deleted_is_not_there() -> None:
    cluster = MemoryCluster().with_topic(STATE_TOPIC)
    side, readers = ended(cluster, UnknownTopicOrPartition(STATE_TOPIC))
    by = cluster.clock.deadline(1)
    assert side.stored(STATE_TOPIC, by) is not None
    assert side.stored(STATE_TOPIC, by) is None
    assert readers[0].closed == 1


def test_a_topic_that_was_created_again_is_named_once_and_then_read_anew() -> None:
    cluster = MemoryCluster().with_topic(STATE_TOPIC)
    side, readers = ended(cluster, StateLogLost("created again"))
    by = cluster.clock.deadline(1)
    side.state(STATE_TOPIC, by)
    with pytest.raises(StateLogLost):
        side.state(STATE_TOPIC, by)
    cluster.write(STATE_TOPIC, ENTRY)
    assert side.state(STATE_TOPIC, by)[ENTRY.key] == ENTRY
    assert readers[0].closed == 1
