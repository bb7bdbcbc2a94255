"""What is asked of a cluster about replicas in sync."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tanist.domain.broker_errors import TopicAuthorizationFailed
from tanist.domain.names import BrokerId, MirrorPartition
from tanist.kafka.adapters import replicas
from tanist.kafka.adapters.replicas import KafkaReplicas
from tanist.kafka.wire.admin import ConfigValue
from tanist.kafka.wire.router import PartitionInfo, TopicInfo
from tanist.ports.clock import Deadline
from tanist.ports.logs import InSync

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from tanist.domain.errors import TanistError

BY = Deadline(1e12)
ONE = BrokerId(1)
A, B = MirrorPartition("a", 0), MirrorPartition("b", 0)


def a_router() -> Any:
    """Of a cluster of one broker, which leads both partitions."""
    led = (PartitionInfo(0, ONE, 0, (ONE,), (ONE,), ()),)
    known = {name: TopicInfo(name, None, internal=False, partitions=led, error=None) for name in ("a", "b")}
    return SimpleNamespace(refresh=lambda *_: None, topics=lambda: known)


def test_what_topics_need_in_sync_is_one_request_and_only_an_error_is_asked_about_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was a request for each topic: 200 in the first look of a failover of 200 topics."""
    refused, asked = TopicAuthorizationFailed("b"), list[list[str]]()
    answers: list[dict[str, ConfigValue | TanistError | None]] = [
        {"a": ConfigValue("2", 1, read_only=False), "b": refused},
        {"b": ConfigValue("1", 5, read_only=False)},
    ]

    def topic_config(_: object, topics: Sequence[str], *__: object) -> dict[str, ConfigValue | TanistError | None]:
        asked.append(sorted(topics))
        return answers[len(asked) - 1] if topics else {}

    monkeypatch.setattr(replicas, "topic_config", topic_config)
    told = KafkaReplicas(a_router())
    assert told.in_sync([A, B], BY) == {A: InSync(1, 2, ONE), B: refused}
    assert told.in_sync([A, B], BY) == {A: InSync(1, 2, ONE), B: InSync(1, 1, ONE)}
    assert asked == [["a", "b"], ["b"]]
