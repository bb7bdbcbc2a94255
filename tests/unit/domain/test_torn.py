"""Transactions of which one part was copied and another lies in a tail. Markers decide, never the time of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.failback.torn import TransactionBatch, TransactionPart, parts_of, torn, torn_words
from tanist.domain.names import MirrorPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

P, Q, R = (MirrorPartition("t", n) for n in range(3))
NOON = 43_200_000
TAIL = 10_000
"""Where every tail begins."""


def log(
    at: MirrorPartition, *transactions: tuple[int, int], epoch: int = 0, bump: bool = False
) -> list[TransactionPart]:
    """Of transactions (first offset, time of the marker) of one producer; each is ended before the next one begins."""
    batches = [
        batch
        for number, (first, ended) in enumerate(transactions)
        for batch in (
            TransactionBatch(first, 7, epoch + bump * number, 0),
            TransactionBatch(first + 1, 7, epoch + bump * (number + 1), ended, commits=True),
        )
    ]
    return list(parts_of(at, TAIL, batches))


def every(period: int, count: int, begin: int, *, late: int = 0) -> list[tuple[int, int]]:
    """`count` transactions, the last ones in the tail from number `begin` on."""
    return [(TAIL + 2 * (n - begin), NOON + period * n + late) for n in range(count)]


def found(
    parts: Iterable[TransactionPart],
) -> dict[tuple[str, int], tuple[list[tuple[str, int]], list[tuple[str, int]]]]:
    """By tail part the copied ones, and the possible ones."""
    return {place(each.tail): (places(each.copied), places(each.possible)) for each in torn(parts)}


def place(of: TransactionPart) -> tuple[str, int]:
    return str(of.partition), of.first


def places(parts: Sequence[TransactionPart]) -> list[tuple[str, int]]:
    return [place(each) for each in parts]


def test_parts_whose_markers_were_written_within_moments_are_of_one_transaction() -> None:
    parts = [*log(P, *every(1000, 5, 4)), *log(Q, *every(1000, 5, 5, late=3))]
    assert found(parts) == {("t-0", TAIL): ([("t-1", TAIL - 2)], [])}
    assert "tail of t-0" in str(torn(parts)[0])
    assert "was copied in t-1 from offset 9998 on" in str(torn(parts)[0])


def test_whole_transactions_in_tails_were_torn_if_their_records_had_earlier_times() -> None:
    """Event time an hour ago: they overlapped with all earlier ones of the producer, which were copied as a whole."""
    for period in (20, 1000):
        assert found([*log(P, *every(period, 5, 4)), *log(Q, *every(period, 5, 4, late=3))]) == {}


@pytest.mark.parametrize("period", [20, 100, 1000])
def test_exactly_the_torn_ones_of_a_busy_producer_are_named(period: int) -> None:
    parts = [*log(P, *every(period, 40, 20)), *log(Q, *every(period, 40, 22, late=3)), *log(R, *every(period, 40, 20))]
    assert found(parts) == {(str(at), TAIL + 2 * n): ([("t-1", TAIL - 4 + 2 * n)], []) for at in (P, R) for n in (0, 1)}


def test_a_marker_that_was_written_after_the_restart_may_end_a_torn_transaction() -> None:
    """The cluster was killed between the markers of one transaction. An hour later its coordinator goes on."""
    parts = [*log(P, *every(1000, 4, 4), (TAIL, NOON + 3_600_000)), *log(Q, *every(1000, 5, 5))]
    assert found(parts) == {("t-0", TAIL): ([], [("t-1", TAIL - 2)])}
    assert "may have been copied in t-1" in str(torn(parts)[0])
    earlier = [*log(P, *every(1000, 40, 40), (TAIL, NOON + 3_600_000)), *log(Q, *every(1000, 5, 5))]
    assert found(earlier) == {}, "what had ended before it began is another transaction"


def test_markers_that_do_not_decide_make_a_transaction_possibly_torn() -> None:
    parts = [*log(P, (TAIL, NOON + 10)), *log(Q, (TAIL - 2, NOON), (TAIL, NOON + 19))]
    assert found(parts) == {("t-0", TAIL): ([], [("t-1", TAIL - 2)])}


def test_a_transaction_whose_marker_is_not_written_yet_may_be_torn() -> None:
    begun = list(parts_of(P, TAIL, [TransactionBatch(TAIL, 7, 0, 0)]))
    assert found([*begun, *log(Q, (TAIL - 2, NOON))]) == {("t-0", TAIL): ([], [("t-1", TAIL - 2)])}


def test_transaction_with_records_on_both_sides_is_torn_within_its_partition() -> None:
    batches = [
        TransactionBatch(TAIL - 9, 7, 0, 0),
        TransactionBatch(TAIL - 8, 7, 0, NOON - 9_000, commits=True),
        TransactionBatch(TAIL - 2, 7, 0, 0),
        TransactionBatch(TAIL - 1, 8, 0, 0),
        TransactionBatch(TAIL, 7, 0, 0),
        TransactionBatch(TAIL + 1, 7, 0, NOON, commits=True),
        TransactionBatch(TAIL + 2, 8, 0, NOON + 1, commits=False),
    ]
    parts = list(parts_of(P, TAIL, batches))
    assert found(parts) == {("t-0", TAIL): ([("t-0", TAIL - 2)], [])}
    assert {each.after for each in parts if each.first >= TAIL - 2} == {NOON - 9_000}


def test_a_producer_with_an_epoch_for_each_transaction_needs_no_times() -> None:
    """From transaction version 2 on (KIP-890), whatever clocks say."""
    whole = [*log(P, *every(20, 5, 4), bump=True), *log(Q, *every(20, 5, 4, late=60_000), bump=True)]
    assert found(whole) == {}
    parts = [*log(P, *every(20, 5, 4), bump=True), *log(Q, *every(20, 5, 5, late=60_000), bump=True)]
    assert found(parts) == {("t-0", TAIL): ([("t-1", TAIL - 2)], [])}


def test_other_producers_and_epochs_are_other_transactions() -> None:
    tail = log(P, (TAIL, NOON))
    assert found([*tail, *log(Q, (TAIL - 2, NOON), epoch=1)]) == {}
    other = parts_of(Q, TAIL, [TransactionBatch(1, 8, 0, 0), TransactionBatch(2, 8, 0, NOON, commits=True)])
    assert found([*tail, *other]) == {}
    assert torn(log(P, (TAIL - 2, NOON))) == ()


def test_many_are_one_sentence_that_names_a_few_and_counts_the_rest() -> None:
    """A rescue warned forty times."""
    many = torn([*log(P, *every(1000, 45, 5)), *log(Q, *every(1000, 45, 45, late=3))])
    assert len(many) == 40
    words = torn_words(many)
    assert words.startswith("40 transactions were copied in part, or may have been, and have records in 1 tail(s): ")
    assert words.count("producer id 7") == 5
    assert words.endswith("; and 35 more")
    assert torn_words(many[:1]) == str(many[0])
    assert torn_words(()) == ""


def test_the_places_of_one_that_was_copied_everywhere_are_counted() -> None:
    elsewhere = [part for n in range(1, 41) for part in log(MirrorPartition("t", n), (TAIL - 2, NOON))]
    (one,) = torn([*log(P, (TAIL, NOON)), *elsewhere])
    assert len(one.copied) == 40
    assert str(one).endswith("t-5 from offset 9998 on, and 35 more")
