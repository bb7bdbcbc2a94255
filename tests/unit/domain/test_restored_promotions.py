"""The records of a promotion that were lost, told from the log of the new primary."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.names import EpochMs, MirrorPartition
from tanist.domain.restored_promotions import PromotedLog, promotion_warnings, restored_copied, restored_lineage
from tanist.domain.saved_state import PromotedSince, as_restored
from tanist.domain.state_view import StateView
from tests.unit.domain.test_saved_state import SAVED, SPEC, M, topic

ORDERS = topic("orders")
FIRST, SECOND = ORDERS.all_partitions()
NOW = EpochMs(7)
CLIENT = 99


def log(start: int, old_end: int, reserve_end: int) -> PromotedLog:
    return PromotedLog(start=start, old_end=old_end, reserve_end=reserve_end)


def test_the_reserve_ends_at_the_fence_of_the_gap_markers_or_at_the_first_batch_of_a_client() -> None:
    data, marker, _ = SPEC.writer

    def ends(producer: int, epoch: int) -> bool:
        return SPEC.writer.ends_reserve(producer, epoch)

    assert not ends(data, 1), "the fence of the records' id comes before the gap markers of the reserve"
    assert not ends(marker, 4)
    assert ends(marker, 32_767)
    assert ends(CLIENT, 0)


def test_the_lineage_of_a_promotion_is_what_the_logs_of_all_partitions_show() -> None:
    entry = restored_lineage(SPEC, ORDERS, 2, {FIRST: log(0, 5, 40), SECOND: log(3, 6, 6)}, (), NOW)
    assert entry is not None
    assert (entry.old_cluster_id, entry.new_cluster_id, entry.promotion_epoch) == ("E", "W", 2)
    assert (entry.old_ends, entry.reserve_ends, entry.mirror_id) == ((5, 6), (40, 6), "one")
    assert restored_lineage(SPEC, ORDERS, 2, {FIRST: log(0, 5, 40)}, (), NOW) is None
    later = replace(entry, old_cluster_id="W", new_cluster_id="E", promotion_epoch=3, reserve_ends=(50, 50))
    again = restored_lineage(SPEC, ORDERS, 4, {FIRST: log(0, 45, 45), SECOND: log(0, 60, 70)}, [entry, later], NOW)
    assert again is not None
    assert (again.old_ends, again.reserve_ends) == ((50, 60), (50, 70)), "nothing was copied since the source took over"


def test_a_log_whose_beginning_retention_has_deleted_does_not_show_where_copying_ended() -> None:
    assert restored_lineage(SPEC, ORDERS, 2, {FIRST: log(0, 5, 5), SECOND: log(90, 90, 90)}, (), NOW) is None
    adopted = replace(ORDERS, copy_starts=(0, 90))
    assert restored_lineage(SPEC, adopted, 2, {FIRST: log(0, 5, 5), SECOND: log(90, 90, 90)}, (), NOW) is not None


def test_how_far_a_topic_was_copied_is_not_said_of_mapped_offsets() -> None:
    entry = restored_lineage(SPEC, ORDERS, 2, {FIRST: log(0, 5, 40), SECOND: log(3, 6, 6)}, (), NOW)
    assert entry is not None
    copied = restored_copied(entry, {SECOND, MirrorPartition("others", 0)})
    assert (copied.copied, copied.reserve_to) == ((5, -1), (40, 6))


def test_a_person_is_warned_by_name_of_what_a_restoration_does_not_know() -> None:
    since = {"orders": PromotedSince(2, "orders-0: there is a producer fence at offset 5")}
    found = StateView(as_restored(SAVED, since, (), NOW))
    fenced, unknown = promotion_warnings(SPEC, found, since, ())
    assert "its source fence is pending until a fetcher of 'west' reaches 'east'" in fenced
    assert "neither 'east' nor the log shows where the copied records end" in unknown
    _, derived = promotion_warnings(SPEC, found, since, {"orders"})
    assert f"`tanist mirrors lineage {M}`" in derived
