"""Clusters of this folder, and those of the whole session."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import tanist.kafka.wire.messages  # noqa: F401  # kafka-python is loaded through the door that filters its warnings
from tanist.kafka.wire.router import Router
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.contracts.reached import USER, Reached, Real, allow_everything, allow_nothing, in_memory, nowhere, real
from tests.fakes.cluster import MemoryCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig


@pytest.fixture(scope="package")
def guarded(guardian: Guardian) -> Iterator[SandboxCluster]:
    """One broker with an authorizer; users other than `admin` start without any right."""
    with SandboxCluster.new(ClusterSpec(name="guarded", authorizer=True, heap_mb=384), guardian=guardian) as cluster:
        yield cluster


@pytest.fixture(params=["memory", "kafka"])
def reached(request: pytest.FixtureRequest) -> Iterator[Reached]:
    if request.param == "memory":
        yield in_memory(MemoryCluster(brokers=1))
        return
    cluster: SandboxCluster = request.getfixturevalue("guarded")
    client_config: ClientConfig = request.getfixturevalue("client_config")
    with ExitStack() as stack:
        router = stack.enter_context(Router(cluster.endpoint(), "tanist-test"))
        stack.callback(allow_nothing, router)
        allow_everything(router)
        yield real(cluster.endpoint_for(USER), Real(router, client_config(cluster.endpoint())), stack)


@pytest.fixture(params=["memory", "kafka"])
def dead(request: pytest.FixtureRequest) -> Iterator[Reached]:
    """No broker answers."""
    if request.param == "memory":
        yield in_memory(MemoryCluster(dead=True))
        return
    endpoint = nowhere()
    with ExitStack() as stack, Router(endpoint, "tanist-test") as router:
        yield real(endpoint, Real(router, {}), stack)
