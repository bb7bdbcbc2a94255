"""The view that is folded from the state topic."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.records import Claim, PartitionObserved, PromotionEpoch, TopicDesired
from tanist.domain.state_record import StateRecord, Tombstone
from tanist.domain.state_view import NOTHING_YET, StateView, fold
from tanist.domain.states import MIRROR_STATES, MirrorState
from tests.builders import AT, a_partition, a_topic, a_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

M = MirrorName("m")


ROWS = {row.after: row.number for row in MIRROR_STATES if row.number != 204}
RUNNING = sorted(set(ROWS) - {MirrorState.STOPPED})
"""A seal has rules of its own."""


def seen(claim_epoch: int, state: MirrorState = MirrorState.MIRRORING, at: int = 0) -> PartitionObserved:
    return a_partition(state, mirror=M, row=ROWS[state], claim_epoch=claim_epoch, at=EpochMs(at))


def a_log(rng: Random, records: int, states: Sequence[MirrorState] = RUNNING) -> list[StateRecord]:
    """What operators and workers (zombies among them) may write, in any order."""
    written: list[StateRecord] = []
    for at in range(records):
        choices: list[StateRecord] = [
            Claim(state_partition=rng.randrange(2), epoch=rng.randrange(6), worker=rng.choice("ab")),
            seen(rng.randrange(6), rng.choice(states), at),
            PromotionEpoch(mirror=M, topic="orders", count=at),
            a_worker(rng.choice("ab"), at=EpochMs(at)),
        ]
        choices.append(Tombstone(rng.choice(choices).key))
        written.append(rng.choice(choices))
    return written


@pytest.mark.parametrize("seed", range(100))
def test_reading_again_from_anywhere_changes_nothing(seed: int) -> None:
    """A reader that starts over, is handed records twice, or reads in parts, ends with the same view."""
    rng = Random(seed)
    written = a_log(rng, 60, list(ROWS))
    view = fold(NOTHING_YET, written)
    cut = rng.randrange(60)
    assert fold(view, written[cut:]) == view
    assert fold(fold(NOTHING_YET, written[:cut]), written[cut:]) == view


@pytest.mark.parametrize("seed", range(50))
def test_the_last_word_is_the_last_of_the_highest_epoch_since_the_last_tombstone(seed: int) -> None:
    """Oracle: look at one key alone, from its last tombstone on."""
    written = a_log(Random(seed), 80)
    view = fold(NOTHING_YET, written)
    for key in {record.key for record in written}:
        held: list[StateRecord] = []
        for record in written:
            if record.key == key:
                held = [] if isinstance(record, Tombstone) else [*held, record]
        expected = max(enumerate(held), key=lambda at: (epoch_of(at[1]), at[0]))[1] if held else None
        assert view.get(key) == expected


def epoch_of(record: StateRecord) -> int:
    match record:
        case Claim(epoch=epoch) | PartitionObserved(claim_epoch=epoch):
            return epoch
        case _:
            return 0


def test_a_zombies_late_report_and_claim_are_not_the_last_word() -> None:
    """Its epoch is lower than that of who took over; the owner's own next report is heard."""
    mine = Claim(state_partition=3, epoch=8, worker="b")
    view = fold(
        NOTHING_YET, [mine, seen(8), Claim(state_partition=3, epoch=7, worker="a"), seen(7, MirrorState.FAILED)]
    )
    assert view["claim/3"] == mine
    assert view.observed(M, AT) == seen(8)
    assert fold(view, [seen(8, MirrorState.PAUSED)]).observed(M, AT) == seen(8, MirrorState.PAUSED)


def test_a_view_is_never_changed_under_its_reader() -> None:
    """Each fold makes a new one; the old one may be in another thread's hands."""
    before: StateView = fold(NOTHING_YET, [seen(1)])
    after = fold(before, [Tombstone(seen(1).key)])
    assert len(before) == 1
    assert not after
    assert not NOTHING_YET


def test_topics_are_listed_by_mirror() -> None:
    """`m` does not see the topics of `m2`, whose keys begin alike."""

    def desired(mirror: str, topic: str) -> TopicDesired:
        return a_topic(topic, mirror=MirrorName(mirror), partitions=2)

    view = fold(NOTHING_YET, [desired("m2", "a"), desired("m", "b"), desired("m", "a")])
    assert [(t.mirror, t.topic) for t in view.topics(M)] == [("m", "a"), ("m", "b")]
    assert len(view.topics()) == 3
    assert len(view.topics(M)) == 2, "asked after all of them, too"
    assert desired("m", "a").all_partitions() == (MirrorPartition("a", 0), MirrorPartition("a", 1))
