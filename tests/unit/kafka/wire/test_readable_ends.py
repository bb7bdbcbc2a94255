"""In which order a leader is asked for the ends of its logs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tanist.domain.broker_errors import OffsetNotAvailable
from tanist.domain.log_ends import LogEnds
from tanist.domain.names import BrokerId, TopicPartition
from tanist.kafka.wire.requests import readable_ends
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tanist.kafka.wire.messages import ApiMessage

BY = Deadline(1e12)
MANY = [TopicPartition(topic, n) for topic in ("a", "b") for n in range(3)]


class Leaders:
    """A router of two brokers: partition n is led by n % 2. Each offset that a broker tells is one more.

    `code`: of the error of "a"-0, from the second answer on.
    """

    def __init__(self, code: int = 0) -> None:
        self.code, self.offset, self.asked = code, 0, list[tuple[int, int, int]]()

    def leaders(self, of: Iterable[TopicPartition]) -> Mapping[TopicPartition, BrokerId]:
        return {at: BrokerId(at.partition % 2) for at in of}

    def ask(self, broker: BrokerId, group: Mapping[TopicPartition, None], by: Deadline, ask: Callable[..., Any]) -> Any:
        def call(request: ApiMessage, _: Deadline) -> Any:
            told: Any = request
            self.asked.append((int(broker), told.topics[0].partitions[0].timestamp, told.isolation_level))
            self.offset += 1
            return SimpleNamespace(topics=[self._answer(topic) for topic in told.topics])

        return ask(SimpleNamespace(call=call, version=lambda *_: 5), group, by)

    def _answer(self, topic: Any) -> Any:
        refused = self.code if self.offset > 1 else 0
        told = [
            SimpleNamespace(
                partition_index=each.partition_index,
                offset=self.offset,
                error_code=refused if (topic.name, each.partition_index) == ("a", 0) else 0,
            )
            for each in topic.partitions
        ]
        return SimpleNamespace(name=topic.name, partitions=told)


def ends(leaders: Leaders) -> Any:
    router: Any = leaders
    return readable_ends(router, MANY, BY)


def test_each_leader_is_asked_for_the_start_then_what_is_stable_then_the_high_watermark() -> None:
    """In another order a log that grows meanwhile would seem to have lost what it had."""
    leaders = Leaders()
    found = ends(leaders)
    assert [asked for asked in leaders.asked if asked[0] == 0] == [(0, -2, 0), (0, -1, 1), (0, -1, 0)]
    assert [asked for asked in leaders.asked if asked[0] == 1] == [(1, -2, 0), (1, -1, 1), (1, -1, 0)]
    assert len(leaders.asked) == 6
    assert set(found) == set(MANY)
    assert all(each.start < each.last_stable < each.high_watermark for each in found.values())
    assert found[MANY[0]] == LogEnds(start=1, last_stable=2, high_watermark=3)


def test_an_end_that_is_refused_is_an_error_of_its_partition_alone() -> None:
    found = ends(Leaders(code=OffsetNotAvailable.code))
    assert isinstance(found.pop(MANY[0]), OffsetNotAvailable)
    assert all(isinstance(each, LogEnds) for each in found.values())
