"""How large the next transaction may be."""

from __future__ import annotations

from tanist.domain.transaction_size import LEAST_BYTES, MOST_BYTES, TransactionSize


def test_the_transaction_after_one_that_took_too_long_is_half_as_large_as_what_it_held() -> None:
    assert TransactionSize().failed(3 << 20).limit == 3 << 19
    assert TransactionSize(1 << 20).failed(3 << 20).limit == 1 << 19


def test_failures_end_at_a_batch_and_not_at_nothing() -> None:
    size = TransactionSize()
    for _ in range(40):
        size = size.failed(size.limit)
    assert size.limit == LEAST_BYTES


def test_a_small_transaction_that_fails_does_not_make_the_next_one_smaller() -> None:
    assert TransactionSize().failed(LEAST_BYTES) == TransactionSize()


def test_transactions_that_are_committed_lead_back_to_the_largest_one() -> None:
    size, commits = TransactionSize(LEAST_BYTES), 0
    while size.limit < MOST_BYTES:
        before, size = size.limit, size.committed()
        commits += 1
        assert before < size.limit <= 2 * before, "few transactions are in vain where the way stays slow"
    assert commits < 100
    assert size.committed() == size
