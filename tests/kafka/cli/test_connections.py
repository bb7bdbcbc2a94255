"""How much one command opens to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kafka.opened import opened

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.kafka.cli.conftest import Broker, Tanist

__all__ = ["opened"]


@pytest.mark.parametrize("command", [("status",), ("mirrors", "describe"), ("groups", "list")])
def test_a_command_opens_one_connection_per_broker_and_one_consumer(  # noqa: PLR0913, PLR0917 -- fixtures
    command: tuple[str, ...],
    clusters: Mapping[str, SandboxCluster],
    configured: Path,
    east: Broker,
    topic_name: str,
    tanist: Tanist,
    request: pytest.FixtureRequest,
) -> None:
    """`tanist status` opened up to eleven clients to one cluster."""
    east.topic(topic_name, 3)
    made = tanist("mirrors", "create", topic_name, "--source", "east", "--destination", "west", "--topic", topic_name)
    assert made.code == 0, made.err
    opened: Counter[str] = request.getfixturevalue("opened")
    answer = tanist(*command, topic_name, "-d", "west", "--json")
    assert not answer.errors
    brokers = {str(each.endpoint().bootstrap[0]): 1 for each in clusters.values()}
    assert opened == {**brokers, "consumer": 1}
