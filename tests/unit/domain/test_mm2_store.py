"""MirrorMaker 2's own store: the rows of its tests, the tables of its documentation, its invariants."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from tanist.domain.mirrormaker import folding
from tanist.domain.mirrormaker.records import Checkpoint, OffsetSync, Undecodable
from tanist.domain.mirrormaker.sync_store import SLOTS, NoAnswer, OffsetSyncStore, Slots
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset, SourcePartition
from tanist.domain.translation import Commit, Conservative, Present, Proof, Rules, Withheld, decide
from tests.builders import AT_SOURCE as AT
from tests.unit.domain.mm2_histories import sync


def started(*pairs: tuple[int, int]) -> OffsetSyncStore:
    store = OffsetSyncStore()
    store.start()
    for pair in pairs:
        store.add(sync(*pair))
    return store


def answers(store: OffsetSyncStore, *positions: int) -> list[int | str]:
    found = (store.translate(AT, SourceOffset(each)) for each in positions)
    return [each.value if isinstance(each, NoAnswer) else int(each) for each in found]


def upstreams(store: OffsetSyncStore) -> list[int]:
    """The distinct ones, the newest first."""
    return list(dict.fromkeys(each.upstream for each in store.slots(AT)))


def test_it_does_not_count_on_behind_a_sync() -> None:
    store = started((100, 200))
    assert answers(store, 150) == [201]
    store.add(sync(150, 251))
    assert answers(store, 150, 5) == [251, "-1"]


def test_a_downstream_reset_leaves_the_older_syncs() -> None:
    store = started((100, 200), (150, 251), (200, 10))
    assert answers(store, 200) == [10]
    assert answers(store, 160) == [252], "wrong: the copy begins again at 10, and MM2 does not see it"


def test_an_upstream_reset_forgets_all_older_syncs() -> None:
    assert answers(started((100, 200), (150, 251), (200, 10), (20, 20)), 20, 19) == [20, "-1"]


def test_nothing_is_answered_before_the_topic_was_read_nor_of_an_unknown_partition() -> None:
    store = OffsetSyncStore()
    assert answers(store, 0, 100, 200) == ["no answer"] * 3
    store.add(sync(100, 200))
    assert answers(store, 0, 100, 200) == ["no answer"] * 3
    store.start()
    assert answers(store, 0, 100, 200) == ["-1", 200, 201]
    assert store.translate(SourcePartition("orders", 1), SourceOffset(0)) is NoAnswer.UNTRANSLATED
    assert answers(started(), 0) == ["no answer"]


PESSIMISTIC = (
    *((1000, -1), (4840, 1000), (6760, 4840), (8680, 6760), (9160, 8680), (9640, 9160), (9880, 9640)),
    *((9940, 9880), (9970, 9940), (9990, 9970), (10000, 9990)),
)


@pytest.fixture
def pessimistic() -> OffsetSyncStore:
    """It began without its checkpoints, so it has only the last sync of before; then it ran on."""
    store = OffsetSyncStore(must_read_to_end=True)
    for offset in range(0, 1001, 10):
        store.add(sync(offset, offset))
    store.start()
    assert upstreams(store) == [1000]
    for offset in range(1010, 10_001, 10):
        store.add(sync(offset, offset))
    return store


def test_a_start_without_checkpoints_keeps_the_last_sync_only(pessimistic: OffsetSyncStore) -> None:
    for offset, before in PESSIMISTIC:
        expected = ["-1" if before < 0 else before + 1, offset, offset + 1, offset + 1]
        assert answers(pessimistic, offset - 1, offset, offset + 1, offset + 2) == expected


def test_a_rewind_overwrites_all_slots(pessimistic: OffsetSyncStore) -> None:
    pessimistic.add(sync(1500, 11000))
    assert answers(pessimistic, 1499, 1500, 2000) == ["-1", 11000, 11001]


def violations(slots: Slots) -> list[tuple[int, int]]:
    """Pairs of slots that break B or C."""
    found = []
    for i in range(SLOTS):
        for j in range(i + 1, SLOTS):
            newer, older = slots[i], slots[j]
            if newer is older:
                continue
            in_reach = newer.upstream <= older.upstream + 2**j - 2**i
            apart = newer.upstream >= older.upstream + 2 ** max(i - 2, 0)
            if not (in_reach and apart):
                found.append((i, j))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_the_invariants_hold_for_all_pairs_of_slots_after_every_sync(seed: int) -> None:
    rng, store, upstream = random.Random(seed), started(), 0
    step = rng.choice([1, 3, 40, 1000])
    for number in range(120):
        upstream += rng.choice([1, step, rng.randrange(1, 20 * step)])
        newest = sync(upstream, number)
        store.add(newest)
        slots = store.slots(AT)
        assert slots[0] is newest, "A"
        assert violations(slots) == []
        ordered = [each.upstream for each in slots]
        assert ordered == sorted(ordered, reverse=True)
        assert slots[-1] == min(slots, key=lambda each: each.upstream), "D"


# ── what its checkpoint task makes of it (MirrorCheckpointTaskTest) ───────────────────────────────────────────────


def test_groups_are_translated_by_the_sync_before_them_and_partitions_without_one_are_not() -> None:
    other = SourcePartition("target2.topic5", 6)
    store = started((3, 4))
    store.add(OffsetSync(other, SourceOffset(7), DestinationOffset(8)))
    assert answers(store, 10) == [5]
    assert [store.translate(other, SourceOffset(each)) for each in (12, 7)] == [9, 8]
    assert store.translate(SourcePartition("topic1", 9), SourceOffset(10)) is NoAnswer.UNTRANSLATED


def test_a_position_falls_as_the_store_forgets_so_a_checkpoint_may_be_ahead_of_a_replay() -> None:
    store = started((11, 4), (12, 5))
    assert answers(store, 13) == [6]
    for more in range(5):
        store.add(sync(13 + more, 6 + more))
    assert answers(store, 13) == [5]


def test_a_new_store_may_know_less_than_the_one_before() -> None:
    """MM2 writes no checkpoint of 250 then: 201 was written already."""
    assert answers(started(*((each, each) for each in (100, 200, 300))), 250) == [201]
    again = started(*((each, each) for each in (175, 275, 375, 475)))
    assert upstreams(again) == [475, 375, 175]
    assert answers(again, 250, 370, 400) == [176, 176, 376]


def test_a_checkpoint_of_another_group_and_broken_bytes_hide_none_of_a_group() -> None:
    at = MirrorPartition("source1.topic1", 0)
    mine = Checkpoint("mine", at, SourceOffset(0), DestinationOffset(0), "")
    folded = folding.checkpoints(
        [mine, mine._replace(group="other"), Undecodable("it ends early"), mine._replace(upstream=SourceOffset(1))]
    )
    assert folded.found[at]["mine"].upstream == 1
    assert folding.described(folded.skipped) == "1 x it ends early"


@pytest.mark.parametrize(("there", "translated"), [(100, 101), (50, 51), (None, 101)])
def test_s2_2_a_translation_that_is_ahead_of_the_target_is_committed(there: int | None, translated: int) -> None:
    present = None if there is None else Present(DestinationOffset(there), "tanist dr east@1")
    found = Conservative(DestinationOffset(translated), "of an offset-sync")
    assert decide(found, present, Proof.NONE, Rules()) == Commit(DestinationOffset(translated))
    if present is not None:
        ahead = replace(present, offset=DestinationOffset(translated + 1))
        assert isinstance(decide(found, ahead, Proof.NONE, Rules()), Withheld)


# ── seeds 004 and 000: what a million records leave ───────────────────────────────────────────────────────────────

MILLION = (
    *(1_000_000, 999_900, 999_800, 999_600, 999_200, 998_400, 995_200, 992_000, 985_600, 972_800),
    *(921_600, 819_200, 614_400, 409_600, 0),
)


@pytest.fixture(scope="module")
def million() -> OffsetSyncStore:
    """A sync for every 100th record, at the same offsets."""
    return OffsetSyncStore.replayed(sync(offset, offset) for offset in range(0, 1_000_001, 100))


def test_s4_1_at_most_64_syncs_the_newest_always_and_the_others_ever_farther_apart(million: OffsetSyncStore) -> None:
    assert len(million.slots(AT)) == SLOTS
    assert upstreams(million) == list(MILLION)
    gaps = [newer - older for newer, older in pairwise(MILLION)]
    assert gaps[:4] == sorted(gaps[:4])
    assert answers(million, *MILLION) == list(MILLION), "a mapping that is hit is exact"


@pytest.mark.parametrize(
    ("position", "sync_before", "most_again"), [(999_250, 999_200, 400), (420_000, 409_600, 204_800)]
)
def test_s4_2_the_examples_of_the_documentation(
    million: OffsetSyncStore, position: int, sync_before: int, most_again: int
) -> None:
    """999250 is E + 1, with at most 400 records again; 420000 is N + 1, with at most 204800."""
    assert answers(million, position) == [sync_before + 1]
    assert position - (sync_before + 1) < most_again
    following = MILLION[MILLION.index(sync_before) - 1]
    assert following - sync_before == most_again


def test_s4_2_what_lies_behind_the_newest_sync_is_one_offset_behind_it(million: OffsetSyncStore) -> None:
    """The text says "-1"; the store of every release since 3.5 answers the newest sync + 1, which is as safe."""
    assert answers(million, 1_000_001, 2_000_000) == [1_000_001, 1_000_001]


@pytest.mark.parametrize(
    ("lag", "again"),
    [(1, 98), (50, 49), (150, 49), (3_200, 1_599), (51_200, 27_199), (102_400, 78_399), (204_800, 180_799)],
)
def test_how_many_records_are_read_again_at_a_lag(million: OffsetSyncStore, lag: int, again: int) -> None:
    position = 1_000_000 - lag
    (found,) = answers(million, position)
    assert isinstance(found, int)
    assert position - found == again
