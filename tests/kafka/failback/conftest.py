"""East and west without authorizers, shared by the folder; each test finds them without workers and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.lost_state import delete_topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

KEPT = ("__consumer_offsets", "__transaction_state", "__mirror_approvals")


@pytest.fixture(scope="package")
def shared(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("failback")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        yield pair


@pytest.fixture
def own(shared: Pair) -> Iterator[Pair]:
    """All topics, the state's too, end with the test, and so do workers."""
    yield shared
    shared.dismiss()
    for side in (shared.east, shared.west):
        delete_topics(side, lambda topic: topic not in KEPT)
