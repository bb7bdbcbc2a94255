"""The tail of the committed offsets of a source's groups."""

from __future__ import annotations

import pytest

from tanist.domain.copier import Copier
from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.names import EpochMs, SourceOffset, SourcePartition
from tanist.domain.records import GROUPS_TOPIC, STATE_TOPIC, GroupPosition, GroupSyncStatus, OffsetTailMode
from tanist.fetcher.group_tail import NOTE_EVERY_SECONDS, GroupTail, TailTools, patience_ms
from tanist.kafka.protocol.group_log import LoggedCommit
from tests.builders import a_mirror
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import MemoryCluster
from tests.fakes.state import WORKER, MemoryStateStore


@pytest.mark.parametrize(("due", "waits"), [(float("-inf"), 1), (-2.0, 1), (0.02, 20), (1e9, 500)])
def test_changes_that_nothing_was_stored_before_do_not_end_the_tail(due: float, waits: int) -> None:
    assert patience_ms(due) == waits


def test_how_far_positions_are_complete_does_not_go_back_when_a_worker_is_restarted() -> None:
    """It was overwritten with 0: "none can be translated", while all ten were."""
    spec = a_mirror()
    cluster, clock = MemoryCluster(), JumpingClock()
    groups = MemoryStateStore(cluster, GROUPS_TOPIC, WORKER)
    before = GroupSyncStatus(
        mirror=spec.mirror,
        worker="old",
        mode=OffsetTailMode.TAILING,
        groups=10,
        complete_until_ms=EpochMs(5_000),
        at=EpochMs(6_000),
    )
    groups.append([before], clock.deadline(1))
    tail = GroupTail(
        TailTools(
            spec=spec,
            worker="new",
            resolve=lambda: Endpoint(name="east", bootstrap=(Address("127.0.0.1", 1),)),
            state=MemoryStateStore(cluster, STATE_TOPIC, WORKER),
            groups=groups,
            ours=lambda: True,
            clock=clock,
        )
    )

    def noted(complete_until: int) -> GroupSyncStatus:
        tail._complete_until_ms = EpochMs(complete_until)
        clock.jump(NOTE_EVERY_SECONDS)
        tail._write_note(clock.monotonic())
        found = groups.catch_up(clock.deadline(1)).groups_followed(spec)
        assert found is not None
        return found

    restarted = noted(0)
    assert (restarted.worker, restarted.complete_until_ms, restarted.groups) == ("new", 5_000, 10)
    assert noted(9_000).complete_until_ms == 9_000
    assert noted(7_000).complete_until_ms == 9_000, "another worker has come further"


def test_topics_of_a_mirror_that_somebody_else_copies_are_those_that_groups_read() -> None:
    """By its filters and names; also those in which the last worker has stored positions."""
    spec = a_mirror(copied_by=Copier.MM2, rename=("mm2-default",), exclude=("secret",))
    cluster, clock = MemoryCluster(), JumpingClock()
    groups = MemoryStateStore(cluster, GROUPS_TOPIC, WORKER)
    stored = GroupPosition(
        mirror=spec.mirror, group="g", partition=SourcePartition("old", 0), offset=SourceOffset(1), at=EpochMs(1)
    )
    groups.append([stored], clock.deadline(1))
    tail = GroupTail(
        TailTools(
            spec=spec,
            worker="w",
            resolve=lambda: Endpoint(name="east", bootstrap=(Address("127.0.0.1", 1),)),
            state=MemoryStateStore(cluster, STATE_TOPIC, WORKER),
            groups=groups,
            ours=lambda: True,
            clock=clock,
        )
    )
    source = tail._choose()
    assert tail._topics() == {"old"}
    for topic in ("orders", "secret", "__consumer_offsets", "west.orders"):
        at = SourcePartition(topic, 0)
        source.cache.take(LoggedCommit("g", at, SourceOffset(5), -1, "", EpochMs(2)), 0)
    assert tail._topics() == {"old", "orders"}
    source.cache.topics = tail._topics()
    (new,) = source.cache.changes(groups.view())
    assert isinstance(new, GroupPosition)
    assert (new.partition, new.offset) == (SourcePartition("orders", 0), 5)
    tail._close()
