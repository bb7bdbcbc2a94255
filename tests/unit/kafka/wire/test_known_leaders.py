"""Who leads many partitions, as a router has learned it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.names import BrokerId, TopicPartition
from tanist.kafka.wire.leaders import ask_leaders
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline

ADDRESS = Address("127.0.0.1", 1)
UNKNOWN_TOPIC = 3


def topic(name: str, *leaders: int, error_code: int = 0) -> Any:
    partitions = [
        SimpleNamespace(
            partition_index=n, leader_id=leader, leader_epoch=n, replica_nodes=(), isr_nodes=(), offline_replicas=()
        )
        for n, leader in enumerate(leaders)
    ]
    return SimpleNamespace(name=name, error_code=error_code, partitions=partitions, topic_id=None, is_internal=False)


def test_each_partition_has_the_leader_of_its_own_topic_and_none_where_that_is_not_known() -> None:
    """Many partitions are looked up in one pass: those of one topic must not get the leaders of the one before."""
    answer = SimpleNamespace(
        cluster_id="c",
        controller_id=1,
        brokers=[],
        topics=[topic("a", 1, 2), topic("b", 3, -1), topic("gone", 4, error_code=UNKNOWN_TOPIC)],
    )
    with Router(Endpoint(name="east", bootstrap=(ADDRESS,)), "test") as router:
        connection: Any = SimpleNamespace(address=ADDRESS)
        router.learn(connection, answer)
        wanted = [TopicPartition(name, n) for name in ("a", "b", "gone", "never read") for n in (0, 1)]
        wanted.append(TopicPartition("a", 2))
        found = router.leaders(wanted)
    led = {("a", 0): 1, ("a", 1): 2, ("b", 0): 3}
    assert found == {at: BrokerId(led[at]) if at in led else None for at in wanted}


def test_leaders_that_are_not_known_are_read_before_they_are_asked() -> None:
    class Unread:
        """A router that knows nothing until it has read the metadata."""

        read = 0

        def leaders(self, of: Any) -> dict[TopicPartition, BrokerId | None]:
            return dict.fromkeys(of, BrokerId(1) if self.read else None)

        def refresh(self, *_: Any) -> None:
            self.read += 1

        def ask(self, _broker: BrokerId, group: Any, *_: Any) -> dict[TopicPartition, object]:
            return dict.fromkeys(group, 7)

    router, ask, at = cast("Any", Unread()), cast("Any", None), TopicPartition("a", 0)
    assert ask_leaders(router, {at: 0}, Deadline(1e9), ask) == {at: 7}
    assert router.read == 1
