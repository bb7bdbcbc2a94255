"""Translation by the offset-syncs of MirrorMaker 2: nothing is skipped, whatever happened to it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.mirrormaker.history import Mm2Partition, kept
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.translation import Conservative, Exact, Inputs, Proof, Unknown, settled, to_compare
from tanist.domain.translators.by_mm2 import MM2, answered, replayed, translate
from tests.unit.domain.mm2_histories import AT, CALM, RESETS, ROUGH, Model, drawn, sync

if TYPE_CHECKING:
    from tanist.domain.mirrormaker.records import OffsetSync
    from tanist.domain.translation import Translation

HISTORIES = 1_500


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


def test_in_histories_without_resets_we_are_never_behind_mirrormaker_where_it_is_right() -> None:
    """Ours keeps every sync, MM2 at most 64. Where MM2 is ahead, it is because it skips records."""
    rng, better = random.Random(5), 0
    for number in range(HISTORIES):
        model = drawn(rng, ROUGH)
        read, copies = model.read(), model.last_copies()
        for position in range(model.source_end + 3):
            found = ask(position, read, model.span)
            theirs = replayed(read, SourceOffset(position)) if read.written else "none"
            if isinstance(theirs, str) or isinstance(found, Unknown):
                continue
            better += found.offset > theirs
            if found.offset < min(theirs, model.span.end):
                may_skip = model.source_end
                assert may_skip, number
                assert read.exact_from is None or any(at < theirs for each, at in copies.items() if each >= position), (
                    number,
                    position,
                    found,
                    theirs,
                )
    assert better > HISTORIES
