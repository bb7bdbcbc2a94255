"""What a worker knows of the leaders of a source, and since when it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.names import BrokerId, EpochMs, SourcePartition
from tanist.fetcher import sources
from tanist.fetcher.source_ends import Contact
from tanist.fetcher.sources import LOOK_EVERY_SECONDS, SourceLeaders, SourceTopic
from tanist.kafka.wire.router import PartitionInfo, TopicInfo
from tests.builders import a_mirror
from tests.fakes.clock import JumpingClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from tanist.ports.clock import Deadline

FIRST, SECOND = (SourcePartition("orders", n) for n in range(2))
SPEC = a_mirror()


class Metadata:
    """A source that names leaders: of `orders`, by partition; None: there is none."""

    def __init__(self) -> None:
        self.leaders: list[int | None] = [1, 1]

    def refresh(self, topics: Sequence[str], by: Deadline) -> None:
        """The next `topics` has what is so now."""

    def topics(self) -> Mapping[str, TopicInfo]:
        some = (BrokerId(1),)
        parts = (
            PartitionInfo(n, None if leader is None else BrokerId(leader), 0, some, some, ())
            for n, leader in enumerate(self.leaders)
        )
        return {"orders": TopicInfo("orders", None, internal=False, partitions=tuple(parts), error=None)}


def test_a_partition_without_a_leader_is_silent_since_it_was_first_seen_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster answers, the partition does not: its last look must not move with those of the others."""
    clock, source = JumpingClock(), Metadata()
    monkeypatch.setattr(sources, "Router", lambda *_: source)
    leaders = SourceLeaders(lambda: Endpoint(name="east", bootstrap=(Address("127.0.0.1", 1),)), "t", clock)

    def look() -> EpochMs:
        clock.jump(LOOK_EVERY_SECONDS)
        leaders.look(SPEC, {"orders": SourceTopic(2)}, stale=True)
        return clock.now()

    led = look()
    assert leaders.contact(FIRST) == leaders.contact(SECOND) == Contact(led)
    source.leaders = [None, 1]
    lost = look()
    assert (leaders.contact(FIRST), leaders.contact(SECOND)) == (Contact(led, lost), Contact(lost))
    later = look()
    assert (leaders.contact(FIRST), leaders.contact(SECOND)) == (Contact(led, lost), Contact(later))
    source.leaders = [1, 1]
    again = look()
    assert leaders.contact(FIRST) == leaders.contact(SECOND) == Contact(again)
