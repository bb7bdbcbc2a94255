"""Transactions of which one part was copied and another lies in a tail."""

from __future__ import annotations

from tanist.domain.failback.torn import TransactionPart, torn
from tanist.domain.names import TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def part(  # one part, named
    at: TopicPartition, *, began: int, ended: int | None, first: int = 0, producer_id: int = 7, epoch: int = 0
) -> TransactionPart:
    marker = None if ended is None else first + 5
    return TransactionPart(at, producer_id, epoch, first, began, marker, ended)


def test_parts_of_one_transaction_overlap_in_time() -> None:
    tail = part(P, began=100, ended=110)
    same, before, after = (part(Q, began=n, ended=n + 5) for n in (103, 90, 120))
    (found,) = torn([tail], [before, same, after])
    assert (found.tail, found.copied) == (tail, (same,))
    assert "tail of t-0" in str(found)


def test_transaction_whose_marker_was_not_copied_is_torn_within_its_partition() -> None:
    tail = part(P, began=105, ended=110, first=50)
    begun = part(P, began=100, ended=None, first=40)
    (found,) = torn([tail], [begun, part(P, began=80, ended=99, first=20)])
    assert found.copied == (begun,)


def test_other_producers_and_epochs_are_other_transactions() -> None:
    tail = part(P, began=100, ended=110)
    assert torn([tail], [part(Q, began=100, ended=110, epoch=1), part(Q, began=100, ended=110, producer_id=8)]) == ()
    assert torn([], [tail]) == ()
