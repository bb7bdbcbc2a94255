"""`state restore`: what it refuses before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.copier import Copier
from tanist.domain.failback.pending import tails_of
from tanist.domain.fences import FenceStatus
from tanist.domain.gap_markers import LAST_EPOCH
from tanist.domain.log_writers import LogWriters, WrittenSpan
from tanist.domain.moves import MirrorMove, MoveStatus
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, OffsetRangeWritten, PromotionEpoch
from tanist.domain.saved_state import (
    SavedState,
    SourceStateUnknown,
    StateNewer,
    StateOfAnotherCluster,
    StateOutdated,
)
from tanist.domain.selection import Selection
from tanist.domain.tails import TailStage
from tanist.ports.fencing import ProducerFence
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.mirrors.detach import detach_topics
from tanist.usecases.mirrors.follow import FollowRequest, follow
from tanist.usecases.state.restore import RestoreTools, restore
from tests.builders import a_command, a_lineage, a_move
from tests.fakes.cluster import MemoryCluster
from tests.fakes.failover import GuardedCluster

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError
    from tanist.domain.lineage import TopicLineage
    from tanist.ports.cluster import Cluster
    from tanist.usecases.state.restore import RestoredMirror

M = MirrorName("dr")


@pytest.fixture
def east() -> MemoryCluster:
    return MemoryCluster("east").with_topic("orders", 2, 10)


@pytest.fixture
def west(east: MemoryCluster) -> MemoryCluster:
    west = MemoryCluster("west")
    create(CreateRequest(mirror=M, include=("orders",)), east.side(), west.side(), a_command())
    return west


def saved(west: MemoryCluster) -> SavedState:
    records = {topic: tuple(west.view(topic).values()) for topic in (STATE_TOPIC, OFFSETS_TOPIC)}
    return SavedState(cluster="west", cluster_id=west.id, exported_at=west.clock.now(), records=records)


class NoLogs:
    """No partition exists: nobody can have written to it."""

    def writers(self, partitions: Any, by: Any) -> dict[MirrorPartition, LogWriters | TanistError]:
        return {at: UnknownTopicOrPartition(str(at)) for at in partitions}

    def proof(self, ids: Any, by: Any) -> dict[MirrorPartition, TanistError]:
        return {at: UnknownTopicOrPartition(str(at)) for at in ids}


def restored(
    state: SavedState, east: MemoryCluster, west: MemoryCluster, *, ask_source: bool = True
) -> tuple[RestoredMirror, ...]:
    nobody: Any = NoLogs()
    side: Cluster = replace(west.side(), producer_fencing=nobody)
    tools = RestoreTools(
        source_of=lambda _: east.side(), moved_to=lambda _: east.side(), inspection=nobody, ask_source=ask_source
    )
    return restore(state, side, tools, a_command())


def lost(west: MemoryCluster) -> MemoryCluster:
    """The same cluster without any state."""
    return MemoryCluster("west", id=west.id)


def test_a_state_that_was_not_lost_is_left_as_it_is(east: MemoryCluster, west: MemoryCluster) -> None:
    before = list(west.calls)
    (found,) = restored(saved(west), east, west)
    assert not found.changed
    assert west.calls == before


def test_what_was_restored_is_restored_again_without_a_change(east: MemoryCluster, west: MemoryCluster) -> None:
    state, new = saved(west), lost(west)
    (found,) = restored(state, east, new)
    assert found.changed
    assert found.waiting() == ("orders",)
    assert found.warnings == ("orders does not exist on 'west'",)
    view = new.view(STATE_TOPIC)
    (again,) = restored(state, east, new)
    assert not again.changed
    assert new.view(STATE_TOPIC) == view


def test_the_state_of_another_cluster_is_refused(east: MemoryCluster, west: MemoryCluster) -> None:
    with pytest.raises(StateOfAnotherCluster, match=f"the file has the state of cluster {west.id}"):
        restored(saved(west), east, MemoryCluster("north"))


def test_newer_state_is_never_overwritten(east: MemoryCluster, west: MemoryCluster) -> None:
    state = saved(west)
    west.write(STATE_TOPIC, replace(west.view(STATE_TOPIC).topics(M)[0], changed_at=west.clock.now(), partitions=3))
    before = west.view(STATE_TOPIC)
    with pytest.raises(StateNewer, match="topic/dr/orders"):
        restored(state, east, west)
    assert west.view(STATE_TOPIC) == before


def test_the_offset_map_of_a_later_mirror_of_the_name_forbids_an_earlier_one(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    state, new = saved(west), lost(west).with_topic(OFFSETS_TOPIC)
    at = MirrorPartition("orders", 0)
    later = OffsetRangeWritten(
        mirror=M, mirror_id="later", partition=at, source=SourceOffset(1), destination=DestinationOffset(2)
    )
    new.write(OFFSETS_TOPIC, later)
    with pytest.raises(StateNewer, match="another mirror of that name"):
        restored(state, east, new)


def test_a_source_that_does_not_answer_stops_a_restoration_unless_it_need_not_be_asked(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    state, new = saved(west), lost(west)
    east.dead = True
    with pytest.raises(SourceStateUnknown, match="'east' does not say"):
        restored(state, east, new)
    assert not new.calls
    (found,) = restored(state, east, new, ask_source=False)
    assert "'east' was not asked" in found.warnings[-1]


def test_a_mirror_that_somebody_else_copies_is_restored_with_a_dead_source() -> None:
    """Its source was asked about promotions, which such a mirror cannot have."""
    east, west = (GuardedCluster(name).with_topic("orders", 2, 10) for name in ("east", "west"))
    follow(FollowRequest(mirror=M, copied_by=Copier.MM2, include=("orders",)), east.side(), west.side(), a_command())
    state, new = saved(west), lost(west)
    east.dead = True
    (found,) = restored(state, east, new)
    assert (found.changed, found.warnings) == (True, ())
    assert new.view(STATE_TOPIC).mirror(M) == west.view(STATE_TOPIC).mirror(M)
    assert not restored(state, east, new)[0].changed


def test_the_state_of_a_mirror_that_was_reversed_since_is_refused(east: MemoryCluster, west: MemoryCluster) -> None:
    state, new = saved(west), lost(west)
    spec = west.view(STATE_TOPIC).mirror(M)
    assert spec is not None
    east.with_topic(STATE_TOPIC).write(STATE_TOPIC, replace(spec, source="west", destination="east"))
    with pytest.raises(StateOutdated, match="was reversed after the export"):
        restored(state, east, new)
    assert not new.calls


# ── an export from before a circle ────────────────────────────────────────────────────────────────────────────────


def moved(west: MemoryCluster, to: MemoryCluster) -> MirrorMove:
    spec = west.view(STATE_TOPIC).mirror(M)
    assert spec is not None
    return a_move(
        MoveStatus.MOVED,
        mirror_id=spec.mirror_id,
        destination=to.name,
        cluster_id=to.id,
        plan="p",
        approval="a",
        approver="User:ann",
    )


def only(west: MemoryCluster, move: MirrorMove) -> SavedState:
    return SavedState(cluster="west", cluster_id=west.id, exported_at=EpochMs(2), records={STATE_TOPIC: (move,)})


def test_a_forwarding_record_to_a_cluster_that_does_not_have_the_mirror_any_more_is_refused(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    """It was restored with exit code 0; then each cluster answered MIRROR_MOVED and named the other one."""
    state, new = only(west, moved(west, east)), lost(west)
    with pytest.raises(StateOutdated, match="had moved to 'east' at the export, which does not have it any more"):
        restored(state, east, new)
    assert not new.calls
    (found,) = restored(state, east, new, ask_source=False)
    assert found.warnings == ("'east' was not asked whether it still has mirror 'dr'",)


def test_a_forwarding_record_to_a_cluster_that_does_not_answer_is_not_restored(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    state, new = only(west, moved(west, east)), lost(west)
    east.dead = True
    with pytest.raises(SourceStateUnknown, match="moved to 'east', which does not say whether it still has it"):
        restored(state, east, new)
    assert not new.calls


@pytest.mark.parametrize("rebuilt", [True, False])
def test_a_forwarding_record_to_the_mirror_is_restored(rebuilt: bool, east: MemoryCluster, west: MemoryCluster) -> None:
    """Also if the mirror was rebuilt there, and has another id."""
    move, new, spec = moved(west, east), lost(west), west.view(STATE_TOPIC).mirror(M)
    assert spec is not None
    there = replace(
        spec,
        source="west",
        destination="east",
        source_cluster_id=west.id,
        destination_cluster_id=east.id,
        mirror_id="another" if rebuilt else spec.mirror_id,
    )
    east.with_topic(STATE_TOPIC).write(STATE_TOPIC, there)
    (found,) = restored(only(west, move), east, new)
    assert (found.changed, found.warnings) == (True, ())
    assert new.view(STATE_TOPIC).move(M) == move


def promotion(west: MemoryCluster, epoch: int, old: str, new: str) -> tuple[PromotionEpoch, TopicLineage]:
    """As a cluster records it."""
    spec = west.view(STATE_TOPIC).mirror(M)
    assert spec is not None
    entry = a_lineage(
        10,
        10,
        mirror_id=spec.mirror_id,
        promotion_epoch=epoch,
        old_cluster_id=old,
        new_cluster_id=new,
        reserve_ends=(15, 15),
    )
    return PromotionEpoch(mirror=M, mirror_id=spec.mirror_id, topic="orders", count=epoch), entry


def test_an_export_from_before_a_circle_is_refused_as_the_source_is_the_primary_again(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    """The topic was restored as failed over, and the plan of a reversal named the live primary as the old source."""
    state, new = saved(west), lost(west)
    there = (*promotion(west, 1, east.id, west.id), *promotion(west, 2, west.id, east.id))
    east.with_topic(STATE_TOPIC).write(STATE_TOPIC, *there)
    with pytest.raises(StateOutdated, match="took over at promotion 2, the export knows of 0: it is the primary"):
        restored(state, east, new)
    assert not new.calls


def test_a_promotion_to_the_destination_is_restored_with_what_the_source_knows_of_it(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    state, new = saved(west), lost(west)
    east.with_topic(STATE_TOPIC).write(STATE_TOPIC, *promotion(west, 1, east.id, west.id))
    (found,) = restored(state, east, new)
    assert set(found.promoted) == {"orders"}
    view = new.view(STATE_TOPIC)
    assert view.promoted(M, "orders")
    assert [each.promotion_epoch for each in view.lineage(M)] == [1]


# ── an export from before a failover ──────────────────────────────────────────────────────────────────────────────


class FailedOver:
    """Both partitions end with a producer fence at offset 30; up to 10 they were copied."""

    def __init__(self, data: int, marker: int) -> None:
        self.spans = (WrittenSpan(0, 10, data, 0, False, False), WrittenSpan(30, 31, marker, LAST_EPOCH, True, True))

    def writers(self, partitions: Any, by: Any) -> dict[MirrorPartition, LogWriters]:
        return {at: LogWriters(start=0, end=31, last=self.spans) for at in partitions}

    def proof(self, ids: Any, by: Any) -> dict[MirrorPartition, ProducerFence]:
        return dict.fromkeys(ids, ProducerFence.FENCED)

    def copied_ends(self, ids: Any, by: Any, begun: Any) -> dict[MirrorPartition, DestinationOffset]:
        assert all(start == 0 for start in begun.values())
        return dict.fromkeys(ids, DestinationOffset(10))

    def reserve_ends(self, old_ends: Any, ids: Any, by: Any) -> dict[MirrorPartition, DestinationOffset]:
        assert set(old_ends.values()) == {10}
        return dict.fromkeys(old_ends, DestinationOffset(30))


def test_an_export_that_is_older_than_a_failover_leaves_a_pending_fence_and_a_lineage(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    """Both clusters took records for good, and no survey knew of a failover."""
    spec, state, new = west.view(STATE_TOPIC).mirror(M), saved(west), lost(west)
    assert spec is not None
    east.dead = True
    logs: Any = FailedOver(spec.data_id, spec.marker_id)
    side: Cluster = replace(new.side(), producer_fencing=logs)
    nobody: Any = None
    tools = RestoreTools(source_of=nobody, moved_to=nobody, inspection=logs, ask_source=False)
    (found,) = restore(state, side, tools, a_command())
    view = new.view(STATE_TOPIC)
    assert [(each.topic, each.status) for each in view.source_fences(M)] == [("orders", FenceStatus.PENDING)]
    (entry,) = view.lineage(M, "orders")
    assert (entry.promotion_epoch, entry.old_ends, entry.reserve_ends) == (1, (10, 10), (30, 30))
    assert (entry.old_cluster_id, entry.new_cluster_id) == (east.id, west.id)
    copied = view.copied_up_to(M, "orders")
    assert copied is not None
    assert copied.copied == (10, 10)
    assert [each.stage for each in tails_of(view, M)] == [TailStage.UNKNOWN]
    assert "its source fence is pending until a fetcher of 'west' reaches 'east'" in found.warnings[0]
    assert "the lineage of this failover is read from its log" in found.warnings[1]
    (again,) = restore(state, side, tools, a_command())
    assert not again.changed


def test_a_topic_that_was_detached_at_the_export_and_failed_over_since_is_not_closed_again(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    """A restored record of it would have `metadata sync` deny the new primary's producers."""
    detach_topics(M, Selection(("orders",)), west.side(), a_command())
    state, new = saved(west), lost(west)
    spec = west.view(STATE_TOPIC).mirror(M)
    assert spec is not None
    counted = PromotionEpoch(mirror=M, mirror_id=spec.mirror_id, topic="orders", count=1)
    east.with_topic(STATE_TOPIC).write(STATE_TOPIC, counted)
    (found,) = restored(state, east, new)
    assert found.promoted["orders"].promotion_epoch == 1
    view = new.view(STATE_TOPIC)
    assert [each.topic for each in view.removed(M)] == ["orders"]
    assert not view.detached(M)
    (again,) = restored(state, east, new)
    assert not again.changed, "after a crash the same call completes it"


def test_a_topic_that_is_detached_still_is_restored_as_one(east: MemoryCluster, west: MemoryCluster) -> None:
    detach_topics(M, Selection(("orders",)), west.side(), a_command())
    state, new = saved(west), lost(west)
    (found,) = restored(state, east, new)
    assert not found.promoted
    assert [each.topic for each in new.view(STATE_TOPIC).detached(M)] == ["orders"]
    assert not restored(state, east, new)[0].changed
