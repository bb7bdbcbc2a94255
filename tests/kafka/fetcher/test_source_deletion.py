"""A topic was deleted only if every broker of the source says so, and their controller is there."""

from __future__ import annotations

import signal
from contextlib import closing
from types import MappingProxyType

import pytest

from tanist.domain.errors import TanistError
from tanist.domain.names import BrokerId
from tanist.kafka.wire.router import Router
from tanist.kafka.wire.topics import missing_topics
from tanist_testkit.sandbox.spec import CONTROLLER_ID
from tests.kafka.fetcher.rig import RigCluster, soon

TOO_SHORT_SECONDS = 3


def missing(router: Router, *topics: str, seconds: float = 20) -> frozenset[str]:
    router.refresh(sorted(topics), soon(seconds))
    return missing_topics(router, topics, soon(seconds))


def test_a_topic_is_missing_if_all_brokers_and_the_controller_say_so(trio: RigCluster, topic_name: str) -> None:
    trio.create(topic_name, brokers=[1])
    assert missing(trio.router, topic_name, f"{topic_name}-never") == {f"{topic_name}-never"}


def test_a_topic_that_one_broker_does_not_know_is_not_missing(
    trio: RigCluster, sides: tuple[RigCluster, RigCluster], topic_name: str
) -> None:
    """That broker is one of another cluster here: it knows as little as one that lags behind its controller."""
    trio.create(topic_name, brokers=[1])
    for stale in (BrokerId(1), BrokerId(3)):
        with closing(Router(trio.cluster.endpoint(), "tanist-test")) as router:
            router.refresh([topic_name], soon())
            router.drop(stale)
            (elsewhere,) = sides[0].cluster.endpoint().bootstrap
            router.brokers = MappingProxyType({**router.brokers, stale: elsewhere})
            assert missing_topics(router, [topic_name], soon()) == frozenset()


@pytest.mark.parametrize("silent", ["a broker", "the controller"])
def test_nothing_is_known_of_a_topic_while_somebody_is_silent(trio: RigCluster, topic_name: str, silent: str) -> None:
    node = CONTROLLER_ID if silent == "the controller" else 3
    process = trio.cluster._state.processes[node]
    assert missing(trio.router, topic_name) == {topic_name}
    process.send(signal.SIGSTOP)
    try:
        with pytest.raises(TanistError):
            missing(trio.router, topic_name, seconds=TOO_SHORT_SECONDS)
    finally:
        process.send(signal.SIGCONT)
