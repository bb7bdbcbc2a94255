"""One name whose addresses lead to two clusters: named at once, by whoever asks first, and never worked with."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.endpoint import Address
from tanist.domain.errors import TwoClusters, Unreachable
from tanist.domain.names import BrokerId
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire.router import Router
from tanist_testkit.sandbox.ports import free_ports
from tests.contracts.reached import SOON
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.endpoint import Endpoint
    from tanist_testkit.sandbox.cluster import SandboxCluster


def mixed(*addresses: Address, like: SandboxCluster) -> Endpoint:
    return replace(like.endpoint(), name="mixed", bootstrap=addresses)


def address(cluster: SandboxCluster) -> Address:
    return cluster.endpoint().bootstrap[0]


@pytest.mark.parametrize("turned", [False, True])
def test_a_name_that_lists_brokers_of_two_clusters_is_named_at_once(
    clusters: Mapping[str, SandboxCluster], turned: bool
) -> None:
    """Whichever comes first: both addresses, each with its cluster id; nobody waits for a time-out."""
    both = [clusters["east"], clusters["west"]]
    first, second = reversed(both) if turned else both
    began = time.monotonic()
    with over(KafkaTopics, mixed(address(first), address(second), like=first)) as topics:
        with pytest.raises(TwoClusters) as raised:
            topics.cluster_id(SOON(8))
        assert time.monotonic() - began < 7.5
    assert raised.value.reason == (
        f"bootstrap_servers of 'mixed' lead to different clusters: {address(first)} is cluster {first.cluster_id}, "
        f"{address(second)} is cluster {second.cluster_id}"
    )


def test_an_address_that_does_not_answer_hides_no_cluster_and_costs_half_a_second(
    clusters: Mapping[str, SandboxCluster],
) -> None:
    """One that refuses costs nothing; of an endpoint that nobody answers for the reason is told."""
    west = clusters["west"]
    nobody = Address("127.0.0.1", free_ports(1)[0])
    with socket.create_server(("127.0.0.1", 0)) as mute:
        frozen = Address("127.0.0.1", mute.getsockname()[1])
        for others in ((nobody,), (frozen,), (frozen, nobody)):
            with over(KafkaTopics, mixed(*others, address(west), like=west)) as topics:
                began = time.monotonic()
                assert topics.cluster_id(SOON(8)) == west.cluster_id
                assert time.monotonic() - began < 7.5
    with over(KafkaTopics, mixed(nobody, like=west)) as topics, pytest.raises(Unreachable, match="refused"):
        topics.cluster_id(SOON(8))


class Forwarder:
    """An address that leads to `target`, which may change: a name in DNS, a load balancer, a tunnel."""

    def __init__(self, target: Address) -> None:
        self.target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            there = socket.create_connection((self.target.host, self.target.port))
            for here, beyond in ((client, there), (there, client)):
                threading.Thread(target=self._carry, args=(here, beyond), daemon=True).start()

    @staticmethod
    def _carry(here: socket.socket, beyond: socket.socket) -> None:
        try:
            while portion := here.recv(65536):
                beyond.sendall(portion)
        except OSError:
            pass
        finally:
            here.close()
            beyond.close()

    def close(self) -> None:
        self._listening.close()


@contextmanager
def forwarding(to: Address) -> Iterator[Forwarder]:
    forwarder = Forwarder(to)
    try:
        yield forwarder
    finally:
        forwarder.close()


def test_an_address_that_leads_to_another_cluster_by_and_by_is_not_taken_for_the_first(
    clusters: Mapping[str, SandboxCluster],
) -> None:
    """A worker that reconnects must not learn leaders of another cluster, and append there."""
    east, west = clusters["east"], clusters["west"]
    with forwarding(address(east)) as moved, closing(Router(mixed(moved.address, like=east), "tanist-test")) as router:
        router.refresh(None, SOON(10))
        known = router.brokers
        moved.target = address(west)
        for _ in range(2):
            router.any_connection(SOON(10)).close()
            with pytest.raises(TwoClusters, match=f"is cluster {east.cluster_id}, .* is cluster {west.cluster_id}"):
                router.refresh(None, SOON(10))
        assert (router.cluster_id, router.brokers) == (east.cluster_id, known)
        moved.target = address(east)
        router.refresh(None, SOON(10))
        assert router.brokers.keys() == {BrokerId(1)}
