"""Translation by the offset-syncs of MirrorMaker 2: nothing is skipped, whatever happened to it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.mirrormaker.history import NO_SYNCS, Mm2Partition, kept, lives, to_tell_apart
from tanist.domain.mirrormaker.records import Checkpoint
from tanist.domain.mirrormaker.sync_store import NoAnswer
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset
from tanist.domain.translation import Conservative, Exact, Inputs, Proof, Unknown, settled, to_compare
from tanist.domain.translators.by_mm2 import MM2, answered, replayed, translate
from tests.unit.domain.mm2_histories import CALM, RESETS, ROUGH, Model, drawn, sync

if TYPE_CHECKING:
    from tanist.domain.translation import Translation

HISTORIES = 800


def span(start: int, end: int) -> Span[DestinationOffset]:
    return Span(DestinationOffset(start), DestinationOffset(end))


def ask(position: int, known: Mm2Partition, copy: Span[DestinationOffset]) -> Translation:
    return translate(SourceOffset(position), known, copy)


def offset_of(found: Translation) -> int | str:
    return found.why if isinstance(found, Unknown) else found.offset


def of(*pairs: tuple[int, int], end: int = 1_000_000) -> Mm2Partition:
    return kept([sync(*pair) for pair in pairs], span(0, end))


# ── the oracle ────────────────────────────────────────────────────────────────────────────────────────────────────


def withheld(model: Model, position: int, found: Translation) -> bool:
    """Whether the records of the evidence differ: then nothing is committed."""
    evidence = to_compare(SourceOffset(position), found)
    return evidence is not None and model.differs(sync(*evidence))


@pytest.mark.parametrize("happens", [CALM, ROUGH, RESETS], ids=["calm", "rough", "resets"])
def test_over_random_histories_no_copied_record_is_skipped_and_the_answer_never_falls(happens: tuple[str, ...]) -> None:
    rng = random.Random(28)
    known = used = 0
    for number in range(HISTORIES):
        model = drawn(rng, happens)
        read, copies, highest = model.read(), model.last_copies(), -1
        for position in range(model.source_end + 3):
            found = ask(position, read, model.span)
            known += 1
            if isinstance(found, Unknown):
                assert found.why
                continue
            assert model.span.start <= found.offset <= model.span.end
            assert found.offset >= highest, (number, position)
            highest = found.offset
            if withheld(model, position, found):
                continue
            used += 1
            skipped = [each for each, at in copies.items() if each >= position and at < found.offset]
            assert not skipped, (number, position, found, skipped)
    assert used > known // 3, "these histories prove little"


def test_what_is_exact_reads_nothing_twice() -> None:
    rng, exact = random.Random(4), 0
    for number in range(HISTORIES):
        model = drawn(rng, ("append", "append", "poll", "poll", "flush", "kill", "start", "compact_syncs"))
        read = model.read()
        for position in range(model.source_end + 3):
            found = ask(position, read, model.span)
            if isinstance(found, Exact):
                exact += 1
                again = [
                    at for at, each in enumerate(model.copy) if each and at >= found.offset and each.offset < position
                ]
                assert not again, (number, position, again)
    assert exact > HISTORIES


def test_where_mirrormaker_answers_what_is_safe_we_answer_as_much_or_more() -> None:
    """Ours keeps every sync that holds, MM2 at most 64, and none of before a rewind."""
    rng, better = random.Random(5), 0
    for number in range(HISTORIES):
        model = drawn(rng, ROUGH)
        read, copies = model.read(), model.last_copies()
        if not read.syncs or read.exact_from is None:
            continue
        for position in range(model.source_end + 3):
            found = ask(position, read, model.span)
            theirs = replayed(read, SourceOffset(position))
            if isinstance(theirs, NoAnswer) or isinstance(found, Unknown) or theirs > model.span.end:
                continue
            if all(at >= theirs for each, at in copies.items() if each >= position):
                assert found.offset >= theirs, (number, position, found, theirs)
                better += found.offset > theirs
    assert better > HISTORIES // 2


# ── which syncs hold ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sync_is_exact_and_behind_it_one_offset_at_most() -> None:
    known = of((100, 200), (150, 250))
    assert ask(100, known, span(0, 300)) == Exact(DestinationOffset(200))
    behind = ask(149, known, span(0, 300))
    assert isinstance(behind, Conservative)
    assert (behind.offset, behind.evidence) == (201, (100, 200))
    assert offset_of(ask(10_000, known, span(0, 300))) == 251
    assert offset_of(ask(99, known, span(0, 300))) == "the oldest offset-sync of MirrorMaker 2 is of 100, behind 99"


def test_a_downstream_reset_drops_every_older_sync() -> None:
    """MM2 keeps them: 160 is 252 there, although the copy begins again at 10."""
    known = of((0, 0), (100, 200), (150, 251), (200, 10))
    assert [(each.upstream, each.downstream) for each in known.syncs] == [(200, 10)]
    assert "re-created 1 time(s)" in known.notes[0]
    assert isinstance(ask(160, known, span(0, 300)), Unknown)
    assert offset_of(ask(250, known, span(0, 300))) == 11


def test_a_copy_that_ends_before_the_newest_sync_makes_all_of_them_worthless() -> None:
    known = of((0, 0), (1000, 1000), end=50)
    found = ask(500, known, span(0, 50))
    assert isinstance(found, Unknown)
    assert "the copy ends at 50: it was truncated or re-created since" in found.why


def test_what_was_copied_again_counts_once_it_has_come_as_far() -> None:
    first = [(each, each) for each in range(0, 501, 100)]
    unfinished = of(*first, (300, 520), (400, 620))
    assert unfinished.exact_from is None
    assert offset_of(ask(450, unfinished, span(0, 700))) == 401, "501 may be where only the first life has put it"
    assert "copies again from 300" in unfinished.notes[-1]
    finished = of(*first, (300, 520), (400, 620), (500, 720), (600, 820))
    assert offset_of(ask(450, finished, span(0, 900))) == 621
    assert offset_of(ask(250, finished, span(0, 900))) == 201, "before it, the first life counts for ever; MM2: -1"
    assert finished.exact_from == 300
    assert isinstance(ask(500, finished, span(0, 900)), Exact)
    twice = ask(200, finished, span(0, 900))
    assert isinstance(twice, Conservative)
    assert (twice.offset, twice.evidence) == (200, (200, 200))


def test_a_restart_without_a_rewind_shows_in_a_copy_that_has_grown_more_than_its_source() -> None:
    """Killed before it had written the syncs of its last records."""
    known = of((0, 0), (100, 100), (101, 180), (150, 229))
    assert [each.upstream for each in known.syncs] == [0, 100], "79 records of before may not be copied again yet"
    assert [each.upstream for each in of((0, 0), (100, 100), (101, 180), (200, 279)).syncs] == [0, 100, 101, 200]


def test_what_was_copied_before_the_first_sync_was_written_is_not_skipped() -> None:
    """Killed after 9 records without a sync of them: it begins again, and 6 to 8 are only where they were at first."""
    found = ask(0, of((0, 9), (5, 14)), span(0, 15))
    assert isinstance(found, Unknown)
    assert "the first offset-sync that is left is 0 at 9" in found.why
    assert offset_of(ask(7, of((0, 9), (5, 14), (9, 18)), span(0, 19))) == 15, "it has come as far again"
    assert offset_of(ask(3, kept([sync(0, 9), sync(5, 14)], span(9, 15)), span(9, 15))) == 10, "the first ones are gone"
    assert offset_of(ask(70, of((60, 80)), span(0, 90))) == 81, "the syncs before it were cleaned"


def test_a_topic_that_was_created_again_at_the_source_begins_anew() -> None:
    syncs = [sync(0, 0), sync(500, 500), sync(0, 501), sync(20, 521)]
    asked = to_tell_apart(lives(syncs), Span(SourceOffset(0), SourceOffset(40)), span(0, 600))
    assert asked == (sync(0, 0),)
    known = kept(syncs, span(0, 600), asked)
    assert [(each.upstream, each.downstream) for each in known.syncs] == [(0, 501), (20, 521)]
    assert "re-created" in known.notes[-1]
    assert offset_of(ask(10, known, span(0, 600))) == 502
    in_doubt = kept(syncs, span(0, 600))
    assert offset_of(ask(10, in_doubt, span(0, 600))) == 1, "the records could not be compared: the lower bound"


def test_a_life_of_which_one_record_is_the_same_is_not_dropped_because_another_differs() -> None:
    """The second life has come to 154 only: what lies behind is where the first has put it."""
    first = [sync(100 + 2 * each, 200 + each) for each in range(51)]
    syncs = [*first, sync(150, 251), sync(152, 252), sync(154, 253)]
    asked = to_tell_apart(lives(syncs), Span(SourceOffset(0), SourceOffset(201)), span(0, 254))
    assert asked == (first[0], first[25], first[50])
    for differing, matching in ((asked[:1], asked[2:]), ((), ())):
        known = kept(syncs, span(0, 254), differing, matching)
        assert offset_of(ask(171, known, span(0, 254))) == 236
    dropped = kept(syncs, span(0, 254), asked[1:2])
    assert offset_of(ask(171, dropped, span(0, 254))) == 254


def test_the_answer_lies_in_the_copy() -> None:
    known = of((0, 0), (100, 100), (200, 200))
    assert offset_of(ask(150, known, span(120, 300))) == 120
    assert offset_of(ask(250, known, span(0, 150))) == 101, "its end was read before the last sync was written"
    assert offset_of(ask(250, of((200, 200)), span(0, 150))) == (
        "the copy ends at 150, before the first offset-sync of MirrorMaker 2 at 200"
    )


def test_before_the_first_sync_a_copy_that_begins_there_is_read_from_its_beginning() -> None:
    """MM2 answers -1."""
    assert offset_of(ask(5, of((10, 0), (110, 100)), span(0, 200))) == 0
    assert isinstance(ask(5, of((10, 4), (110, 104)), span(0, 200)), Unknown)


def test_without_syncs_or_a_copy_it_is_unknown_for_a_reason() -> None:
    for found in (
        translate(SourceOffset(5), None, span(0, 9)),
        translate(SourceOffset(5), Mm2Partition(), span(0, 9)),
        translate(SourceOffset(5), of((0, 0)), None),
        translate(SourceOffset(-1), of((0, 0)), span(0, 9)),
    ):
        assert isinstance(found, Unknown)
        assert found.why


# ── seeds 000 and 004, and what a person reads ────────────────────────────────────────────────────────────────────

KIP = (
    *((999_999, 999_900, 899_901, 99), (999_890, 999_700, 899_701, 190), (999_650, 999_300, 899_301, 350)),
    *((999_200, 998_500, 898_501, 700), (998_400, 996_900, 896_901, 1_500), (996_800, 993_700, 893_701, 3_100)),
    *((993_600, 987_300, 887_301, 6_300), (987_200, 974_500, 874_501, 12_700), (974_400, 948_900, 848_901, 25_500)),
    *((948_800, 897_700, 797_701, 51_100), (897_600, 795_300, 695_301, 102_300), (795_200, 590_500, 490_501, 204_700)),
    (590_400, 180_900, 80_901, 409_500),
)
"""Seed 000: source offset, the mapping before it, the translation, and records behind the mapping."""
SHIFT = 100_000


def test_s0_the_longer_table_of_the_other_seed_from_the_mappings_that_it_has() -> None:
    """S4.2: its copy is 100,000 offsets behind; 998400 is 896901, and 1499 records are read again."""
    syncs = [sync(SHIFT, 0), *(sync(each[1], each[1] - SHIFT) for each in reversed(KIP)), sync(1_000_000, 900_000)]
    known, copy = kept(syncs, span(0, 900_001)), span(0, 900_001)
    for position, _, translated, distance in KIP:
        assert offset_of(ask(position, known, copy)) == translated
        assert position - SHIFT - translated == distance - 1
    assert offset_of(ask(1_000_000, known, copy)) == 900_000
    assert offset_of(ask(1_000_100, known, copy)) == 900_001, "not mirrored yet: nothing of it can be skipped"


def test_with_the_whole_topic_no_position_of_the_tables_reads_more_than_one_gap_again() -> None:
    known, copy = kept([sync(each, each) for each in range(0, 1_000_001, 100)], span(0, 1_000_001)), span(0, 1_000_001)
    for position in (999_250, 420_000 - 1, *(each[0] for each in KIP)):
        found = offset_of(ask(position, known, copy))
        assert isinstance(found, int)
        assert 0 <= position - found < 100


def test_it_is_not_exact_before_the_records_were_compared() -> None:
    found = ask(100, of((100, 200)), span(0, 300))
    assert to_compare(SourceOffset(100), found) == (100, 200)
    assert settled(SourceOffset(100), found, Proof.MATCH, MM2.unproved) == found
    for proof in (Proof.NONE, Proof.MISMATCH):
        lower = settled(SourceOffset(100), found, proof, MM2.unproved)
        assert lower == Conservative(
            DestinationOffset(200), MM2.unproved, evidence=(SourceOffset(100), DestinationOffset(200))
        )
    assert settled(SourceOffset(100), found, Proof.NONE, "") == found, "the offset map is exact without a proof"
    behind = ask(150, of((100, 200)), span(0, 300))
    assert to_compare(SourceOffset(150), behind) == (100, 200)
    assert settled(SourceOffset(150), behind, Proof.NONE, MM2.unproved) == behind
    assert to_compare(SourceOffset(5), Unknown("x")) is None


def test_each_step_is_explained_in_one_line() -> None:
    known = of((0, 0), (100, 200), (200, 10))
    for position, copy, mm2 in ((250, span(0, 20), known), (5, span(0, 20), known), (5, None, known), (5, None, None)):
        said = MM2.explain(SourceOffset(position), Inputs(copy=copy, mm2=mm2))
        assert said.startswith("mm2: ")
        assert "\n" not in said
    said = MM2.explain(SourceOffset(250), Inputs(copy=span(0, 20), mm2=known))
    assert "1 of 3 offset-syncs hold; source 200 was copied to destination 10; the copy was truncated" in said


def test_what_mirrormaker_answers_is_its_checkpoint_and_a_replay_is_called_one() -> None:
    checkpoint = Checkpoint("billing", MirrorPartition("east.orders", 0), SourceOffset(150), DestinationOffset(252), "")
    known = replace(of((100, 200), (150, 251), (200, 10)), checkpoints={"billing": checkpoint})
    assert answered("billing", SourceOffset(160), known) == (
        "MirrorMaker 2's last checkpoint: 150 at the source is 252 at the destination",
        "a replay of its store over its topic now: 252",
    )
    checkpoint_line, replay = answered("other", SourceOffset(99), known)
    assert checkpoint_line.endswith("none of this group and partition")
    assert replay.endswith("-1 (its oldest offset-sync is behind 99)")
    assert answered("other", SourceOffset(99), Mm2Partition())[1].endswith(NO_SYNCS)
