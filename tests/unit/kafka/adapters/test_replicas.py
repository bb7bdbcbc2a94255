"""What is asked of a cluster about replicas in sync."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.broker_errors import TopicAuthorizationFailed
from tanist.domain.errors import MalformedFrame
from tanist.domain.names import BrokerId, MirrorPartition
from tanist.kafka.adapters import replicas
from tanist.kafka.adapters.replicas import KafkaReplicas
from tanist.kafka.wire.admin import ConfigValue
from tanist.kafka.wire.router import PartitionInfo, TopicInfo
from tanist.ports.clock import Deadline
from tanist.ports.logs import InSync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.errors import TanistError

BY = Deadline(1e12)
ONE = BrokerId(1)
A, B = MirrorPartition("a", 0), MirrorPartition("b", 0)


def a_router() -> Any:
    """Of a cluster of one broker, which leads both partitions."""
    led = (PartitionInfo(0, ONE, 0, (ONE,), (ONE,), ()),)
    known = {name: TopicInfo(name, None, internal=False, partitions=led, error=None) for name in ("a", "b")}
    return SimpleNamespace(refresh=lambda *_: None, topics=lambda: known)


def telling(monkeypatch: pytest.MonkeyPatch, *answers: dict[str, ConfigValue | TanistError | None]) -> list[list[str]]:
    """Brokers that give these answers one after the other; returns which topics they are asked about each time."""
    asked: list[list[str]] = []

    def topic_config(_: object, topics: Sequence[str], *__: object) -> dict[str, ConfigValue | TanistError | None]:
        asked.append(sorted(topics))
        return answers[len(asked) - 1]

    monkeypatch.setattr(replicas, "topic_config", topic_config)
    return asked


def test_what_topics_need_in_sync_is_one_request_in_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a request for each topic, and its answer held for good: a failover raises it itself, in `configs`."""
    refused = TopicAuthorizationFailed("b")
    asked = telling(
        monkeypatch,
        {"a": ConfigValue("1", 5, read_only=False), "b": refused},
        {"a": ConfigValue("2", 1, read_only=False), "b": ConfigValue("1", 5, read_only=False)},
    )
    told = KafkaReplicas(a_router())
    assert told.in_sync([A, B], BY) == {A: InSync(1, 1, ONE), B: refused}
    assert told.in_sync([A, B], BY) == {A: InSync(1, 2, ONE), B: InSync(1, 1, ONE)}
    assert asked == [["a", "b"], ["a", "b"]]


@pytest.mark.parametrize("value", [None, ConfigValue(None, 5, read_only=False)])
def test_what_a_topic_needs_is_unknown_where_no_broker_tells(
    monkeypatch: pytest.MonkeyPatch, value: ConfigValue | None
) -> None:
    telling(monkeypatch, {"a": value})
    assert isinstance(KafkaReplicas(a_router()).in_sync([A], BY)[A], MalformedFrame)
