"""How the brokers of a cluster are asked what a login may do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tanist.domain.names import BrokerId, TopicPartition
from tanist.kafka.wire import rights
from tanist.kafka.wire.rights import may_write
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pytest

BY = Deadline(1e12)
WRITE, READ = 4, 3


class Brokers:
    """A router of brokers that each grant some operations, and lead the partitions of every topic in turn.

    `first`: the one that is asked first.
    """

    def __init__(self, *granted: int, first: int = 0) -> None:
        self.granted, self.asked, self.first = granted, list[int](), first

    def any_connection(self, _: Deadline) -> Any:
        return self.first

    def metadata(self, connection: int, topics: Sequence[str], _: Deadline) -> Any:
        self.asked.append(connection)
        led = [SimpleNamespace(partition=n) for n in range(len(self.granted))]
        told = {"error_code": 0, "authorized_operations": [self.granted[connection]], "partitions": led, "error": None}
        return SimpleNamespace(topics=[SimpleNamespace(name=name, **told) for name in topics])

    def learn(self, _: object, answer: Any) -> None:
        self.known = {topic.name: topic for topic in answer.topics}

    def topics(self) -> Mapping[str, Any]:
        return self.known

    def leaders(self, of: Iterable[TopicPartition]) -> Mapping[TopicPartition, BrokerId]:
        return {at: BrokerId(at.partition) for at in of}

    def ask(self, broker: BrokerId, group: Mapping[TopicPartition, None], by: Deadline, ask: Callable[..., Any]) -> Any:
        return ask(int(broker), group, by)


def granted(monkeypatch: pytest.MonkeyPatch, brokers: Brokers) -> Mapping[str, object]:
    monkeypatch.setattr(rights, "_metadata", brokers.metadata)
    router: Any = brokers
    return may_write(router, ["a", "b"], BY)


def test_a_broker_that_leads_everything_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked who leads what, and then the same again with what this login may do."""
    brokers = Brokers(WRITE)
    assert granted(monkeypatch, brokers) == {"a": True, "b": True}
    assert brokers.asked == [0]


def test_every_leader_is_asked_and_one_that_still_grants_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(READ, READ, WRITE)
    assert granted(monkeypatch, brokers) == {"a": True, "b": True}
    assert brokers.asked == [0, 1, 2]
    assert granted(monkeypatch, Brokers(READ, READ)) == {"a": False, "b": False}


def test_what_one_broker_has_told_is_no_answer_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leader learns of rules by itself."""
    brokers = Brokers(READ, WRITE, first=1)
    monkeypatch.setattr(brokers, "leaders", lambda of: dict.fromkeys(of, BrokerId(0)))
    assert granted(monkeypatch, brokers) == {"a": False, "b": False}
    assert brokers.asked == [1, 0]
