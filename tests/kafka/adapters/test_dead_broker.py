"""A broker that has just died may still be named as the controller: nobody must wait for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tanist.domain.errors import Unreachable
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.router import Router
from tanist.ports.topics import NewTopic, TopicFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conftest import ClusterFactory

CLIENTS = 8
"""Each is told another broker as the controller, at random: one client alone is lucky every second time."""


def _configs(one: KafkaTopics) -> Mapping[str, str]:
    """A request that was on its way to the broker when it died is lost, aloud; the next one must not wait."""
    clock = SystemClock()
    try:
        return _effective(one.describe(["there"], clock.deadline(15)))
    except Unreachable:
        return _effective(one.describe(["there"], clock.deadline(15)))


def _effective(found: Mapping[str, object]) -> Mapping[str, str]:
    facts = found["there"]
    assert isinstance(facts, TopicFacts), facts
    return facts.effective


def test_a_request_does_not_wait_for_a_controller_that_is_dead(cluster_factory: ClusterFactory) -> None:
    cluster = cluster_factory("orphaned", brokers=2)
    clock = SystemClock()
    routers = [Router(cluster.endpoint(), "tanist-test") for _ in range(CLIENTS)]
    topics = [KafkaTopics(router) for router in routers]
    new = NewTopic(name="there", partitions=1, replication_factor=2, configs={})
    assert topics[0].create([new], clock.deadline(20)) == {"there": None}
    cluster.kill(2)
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(_configs, topics))
    assert all(configs["cleanup.policy"] == "delete" for configs in found)
    for router in routers:
        router.close()
