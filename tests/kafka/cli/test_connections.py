"""How much one command opens to a cluster."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tanist.kafka.adapters import tail
from tanist.kafka.wire.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.kafka.cli.conftest import Broker, Tanist

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Everything that is really opened from now on: connections of our own wire by address, and consumers."""
    found: Counter[str] = Counter()
    connect, consumer = Connection.open.__func__, tail.Consumer  # type: ignore[attr-defined]

    def counted(kind: type[Connection], address: Any, *rest: Any) -> Connection:
        found[str(address)] += 1
        made: Connection = connect(kind, address, *rest)
        return made

    def consuming(options: Mapping[str, Any]) -> Any:
        found["consumer"] += 1
        return consumer(dict(options))

    monkeypatch.setattr(Connection, "open", classmethod(counted))
    monkeypatch.setattr(tail, "Consumer", consuming)
    return found


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
