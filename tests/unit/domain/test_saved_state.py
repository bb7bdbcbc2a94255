"""What becomes of saved records when they are restored, and which records of a cluster forbid that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.fences import RESTORED, FenceBefore, FencedTopic, FenceKind, FenceStatus
from tanist.domain.kept_plan import KeptPlan
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.records import (
    Fences,
    MirrorLock,
    PartitionObserved,
    PromotionEpoch,
    TopicDesired,
)
from tanist.domain.saved_state import PromotedSince, as_restored, compared, conflict
from tanist.domain.state_view import StateView
from tanist.domain.states import RESTORED_ROW, SOURCE_DELETED_ROW, DesiredState, MirrorState
from tanist.fetcher.assignment import Report
from tanist.fetcher.planning import Moment, Owned, next_observed
from tanist.usecases.mirrors.desire import resumed
from tests.builders import a_mirror, a_partition, a_topic, a_worker

if TYPE_CHECKING:
    from tanist.domain.state_record import StateRecord

M = MirrorName("m")
SPEC = a_mirror(M, source_cluster_id="E", destination_cluster_id="W", created_at=EpochMs(1), mirror_id="one")


def topic(name: str, desired: DesiredState = DesiredState.MIRRORING) -> TopicDesired:
    return a_topic(
        name, mirror=M, mirror_id="one", desired=desired, partitions=2, promotion_epoch=1, changed_at=EpochMs(2)
    )


def seen(name: str, state: MirrorState = MirrorState.MIRRORING, row: int = 102) -> PartitionObserved:
    at = MirrorPartition(name, 0)
    return a_partition(
        state, mirror=M, mirror_id="one", partition=at, row=row, claim_epoch=4, promotion_epoch=1, at=EpochMs(3)
    )


SAVED: tuple[StateRecord, ...] = (SPEC, topic("orders"), seen("orders"), topic("left", DesiredState.REMOVED))


def restored(*records: StateRecord, **promoted: PromotedSince) -> dict[str, StateRecord]:
    return as_restored(records or SAVED, promoted, (), EpochMs(9))


def test_all_partitions_of_a_mirror_are_stopped_until_somebody_resumes_them() -> None:
    found = restored()
    desired = found["topic/m/orders"]
    assert isinstance(desired, TopicDesired)
    assert (desired.desired, desired.restored) == (DesiredState.PAUSED, True)
    for n, at in ((0, 3), (1, 9)):
        partition = found[f"partition/m/orders/{n}"]
        assert isinstance(partition, PartitionObserved)
        assert (partition.state, partition.row, partition.at) == (MirrorState.STOPPED, RESTORED_ROW, at)
    assert found["topic/m/left"] == SAVED[3]
    assert "partition/m/left/0" not in found
    assert restored(*found.values()) == found


def test_a_restored_topic_is_left_alone_by_workers_and_begins_again_with_a_comparison() -> None:
    desired = restored()["topic/m/orders"]
    assert isinstance(desired, TopicDesired)
    at, now = MirrorPartition("orders", 0), Moment(EpochMs(10), 10.0)
    for held in (None, seen("orders"), restored()["partition/m/orders/0"]):
        assert held is None or isinstance(held, PartitionObserved)
        assert next_observed(Owned(SPEC, desired, at, 0), held, Report(), 5, now) is None
    again, stopped = resumed(desired, StateView(restored())), restored()["partition/m/orders/0"]
    assert isinstance(again, TopicDesired)
    assert isinstance(stopped, PartitionObserved)
    assert not again.restored
    begun = next_observed(Owned(SPEC, again, at, 0), stopped, Report(), 5, now)
    assert begun is not None
    assert (begun.state, begun.row) == (MirrorState.PREPARING, 100)


def test_a_topic_that_was_failed_over_since_has_left_its_mirror() -> None:
    found = restored(orders=PromotedSince(2, "east knows of promotion 2"))
    desired, counted = found["topic/m/orders"], found["generation/m/orders"]
    assert isinstance(desired, TopicDesired)
    assert (desired.desired, desired.restored) == (DesiredState.REMOVED, False)
    assert isinstance(counted, PromotionEpoch)
    assert counted.count == 2
    partition = found["partition/m/orders/1"]
    assert isinstance(partition, PartitionObserved)
    assert (partition.state, partition.promotion_epoch) == (MirrorState.STOPPED, 2)
    assert StateView(found).promoted(M, "orders")


def test_the_source_of_a_topic_that_was_failed_over_since_is_to_be_fenced() -> None:
    """No fence was on record: both clusters took records, and `tanist status` said that none was pending."""
    since = PromotedSince(2, "there is a producer fence at offset 5")
    found = restored(orders=since)
    (fence,) = StateView(found).source_fences(M)
    assert (fence.topic, fence.status, fence.before, fence.wanted_by) == ("orders", FenceStatus.PENDING, None, RESTORED)
    assert restored(*SAVED, orders=since) == found
    before = FenceBefore(topic="orders", kind=FenceKind.DENY_WRITE)

    def saved(status: FenceStatus) -> FencedTopic:
        entry = FencedTopic(topic="orders", status=status, wanted_by="p", before=before)
        fences = Fences(mirror=M, mirror_id="one", at=EpochMs(1), topics=(entry,))
        (now,) = StateView(restored(*SAVED, fences, orders=since)).source_fences(M)
        return now

    assert saved(FenceStatus.PROVED).status is FenceStatus.PROVED
    lifted, pending = saved(FenceStatus.LIFTED), saved(FenceStatus.PENDING)
    assert (lifted.status, lifted.before) == (FenceStatus.PENDING, None)
    assert (pending.status, pending.before) == (FenceStatus.PENDING, before)


def test_a_partition_whose_source_topic_was_deleted_keeps_its_reason() -> None:
    deleted = seen("orders", MirrorState.STOPPED, SOURCE_DELETED_ROW)
    assert restored(SPEC, topic("orders"), deleted)[deleted.key] == deleted


def test_a_lock_is_restored_as_released_and_what_is_of_the_moment_is_not_saved() -> None:
    lock = MirrorLock(mirror=M, mirror_id="one", epoch=7, holder="h", operation="o", at=EpochMs(1))
    assert restored(lock)[lock.key] == replace(lock, holder="")
    assert lock.policy.saved
    assert not a_worker(at=EpochMs(1)).policy.saved
    assert not KeptPlan(mirror=M, mirror_id="one", plan="h", plan_json="{}", at=EpochMs(1)).policy.saved


def test_a_source_fence_that_was_lifted_since_is_not_set_again() -> None:
    before = FenceBefore(topic="orders", kind=FenceKind.DENY_WRITE)
    fences = Fences(
        mirror=M,
        mirror_id="one",
        at=EpochMs(1),
        topics=tuple(
            FencedTopic(topic=name, status=FenceStatus.PROVED, wanted_by="p", before=replace(before, topic=name))
            for name in ("orders", "payments")
        ),
    )
    found = as_restored([SPEC, fences], {}, ["orders"], EpochMs(9))[fences.key]
    assert isinstance(found, Fences)
    assert [each.status for each in found.topics] == [FenceStatus.LIFTED, FenceStatus.PROVED]


def test_what_a_cluster_has_of_a_mirror_is_either_the_same_or_newer() -> None:
    written = restored()
    assert conflict({}, SAVED, written) == min(written)
    assert conflict(written, SAVED, written) is None
    assert conflict({each.key: each for each in SAVED}, SAVED, {}) is None
    later = {**written, "topic/m/orders": replace(topic("orders"), changed_at=EpochMs(99))}
    assert conflict(later, SAVED, written) == "topic/m/orders"
    assert conflict({**written, "topic/m/new": topic("new")}, SAVED, written) == "topic/m/new"
    another = {**written, "mirror/m": replace(SPEC, mirror_id="two")}
    assert conflict(another, SAVED, written) == "mirror/m"


def test_what_moves_while_a_mirror_is_copied_is_not_compared() -> None:
    lock = MirrorLock(mirror=M, mirror_id="one", epoch=7, holder="h", operation="o", at=EpochMs(1))
    assert compared(StateView({lock.key: lock}), M) == {}


@pytest.mark.parametrize("state", MirrorState)
def test_every_state_of_a_partition_is_stopped(state: MirrorState) -> None:
    found = restored(SPEC, topic("orders"), seen("orders", state))["partition/m/orders/0"]
    assert isinstance(found, PartitionObserved)
    assert found.state is MirrorState.STOPPED
    assert found.error is None
